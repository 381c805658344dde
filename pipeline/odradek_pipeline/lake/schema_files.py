"""A schema in a file: `--schema TOPIC=avro:@FILE`."""

from __future__ import annotations

from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.registry import RegisteredSchema
from odradek_pipeline.schemas.errors import SchemaError
from odradek_pipeline.schemas.files import source_of_file
from odradek_pipeline.schemas.registry_specs import RegisteredSpec


def schema_of_file(topic: str, spec: RegisteredSpec) -> RegisteredSchema:
    """Raises LakeError."""
    try:
        source = source_of_file(spec.kind, spec.file)
    except SchemaError as error:
        raise LakeError(f"topic {topic}: --schema: {error}") from None
    return RegisteredSchema(source.kind, source.text, needed=source.needed, message=spec.message)

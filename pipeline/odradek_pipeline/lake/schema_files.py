"""A schema in a file: `--schema TOPIC=avro:@FILE`. A .proto file comes with those beside it that it imports."""

from __future__ import annotations

import re
from pathlib import Path

from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.registry_specs import RegisteredSpec
from odradek_pipeline.registry import PROTOBUF, RegisteredSchema

IMPORT = re.compile(r"""^\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""", re.MULTILINE)


def schema_of_file(topic: str, spec: RegisteredSpec) -> RegisteredSchema:
    """Raises LakeError."""
    path = Path(spec.file)
    try:
        text = path.read_text()
        needed: dict[str, str] = {}
        if spec.kind == PROTOBUF:
            _import(path.parent, text, needed)
    except (OSError, UnicodeDecodeError) as error:
        raise LakeError(f"topic {topic}: --schema: {error}") from None
    return RegisteredSchema(spec.kind, text, needed=needed, message=spec.message)


def _import(folder: Path, text: str, needed: dict[str, str]) -> None:
    """Add what is imported, as far as it is in the folder; of the rest, the compiler tells what it does not know."""
    for name in IMPORT.findall(text):
        if name not in needed and (folder / name).is_file():
            needed[name] = (folder / name).read_text()
            _import(folder, needed[name], needed)

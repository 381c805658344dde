"""`--schema TOPIC=avro` and its like."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.schemas import parse_specs
from odradek_pipeline.schemas.registry_specs import RegisteredSpec


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("avro", RegisteredSpec("AVRO")),
        ("avro:subject=other-value", RegisteredSpec("AVRO", subject="other-value")),
        ("avro:latest", RegisteredSpec("AVRO", latest=True)),
        ("avro:latest:subject=:.context:s-value", RegisteredSpec("AVRO", latest=True, subject=":.context:s-value")),
        ("avro:@/a/b.avsc", RegisteredSpec("AVRO", file="/a/b.avsc")),
        ("protobuf:message=shop.Order", RegisteredSpec("PROTOBUF", message="shop.Order")),
        ("protobuf:message=Order:latest", RegisteredSpec("PROTOBUF", latest=True, message="Order")),
        ("protobuf:message=Order:@C:/x.proto", RegisteredSpec("PROTOBUF", file="C:/x.proto", message="Order")),
        (
            "protobuf:latest:subject=a:b:message=Order",
            RegisteredSpec("PROTOBUF", latest=True, subject="a:b", message="Order"),
        ),
        ("jsonschema:@C:/x.json", RegisteredSpec("JSON", file="C:/x.json")),
    ],
)
def test_schemas_of_a_registry_are_asked_for(text: str, spec: RegisteredSpec) -> None:
    assert parse_specs([f"t={text}"])["t"].registered == spec


@pytest.mark.parametrize(
    "text",
    [
        "avro:",
        "avro:first",
        "avro:@",
        "avro:subject=a:subject=b",
        "avro:@f:subject=s",
        "avro:subject=",
        "avro:message=M",
        "avro:latest:message=M",
        "avro:message=M:",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(LakeError, match="--key-schema 't=avro"):
        parse_specs([f"t={text}"], "--key-schema")


def test_the_subject_is_named_by_the_topic() -> None:
    assert RegisteredSpec("AVRO").subject_of("orders", "key") == "orders-key"
    assert RegisteredSpec("AVRO", subject="s").subject_of("orders", "key") == "s"

"""JSON Schema (2020-12, and the drafts before it) to Spark's types: only the part of it that describes shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def struct_of(document: dict[str, Any]) -> StructType:
    """The columns of an object schema; what is `required` is not nullable.

    Raises ValueError for what has no single type in a table: no object at the top, references, alternatives.
    """
    from pyspark.sql.types import StructField, StructType

    properties = document.get("properties")
    if _type_name(document) != "object" or not properties:
        raise ValueError("not an object schema with properties")
    required = set(document.get("required", ()))
    return StructType(
        [
            StructField(name, _type_of(part, name), nullable=name not in required or "null" in _types(part))
            for name, part in properties.items()
        ]
    )


def _type_of(part: Any, name: str) -> DataType:
    from pyspark.sql.types import (
        ArrayType,
        BooleanType,
        DateType,
        DoubleType,
        LongType,
        MapType,
        StringType,
        TimestampType,
    )

    if not isinstance(part, dict) or any(word in part for word in ("$ref", "oneOf", "anyOf", "allOf")):
        raise ValueError(f"{name}: references and alternatives have no one column type")
    match _type_name(part):
        case "object" if part.get("properties"):
            return struct_of(part)
        case "object" if isinstance(part.get("additionalProperties"), dict):
            return MapType(StringType(), _type_of(part["additionalProperties"], name))
        case "array" if isinstance(part.get("items"), dict):
            return ArrayType(_type_of(part["items"], name))
        case "string":
            formats: dict[str, DataType] = {"date-time": TimestampType(), "date": DateType()}
            return formats.get(part.get("format", ""), StringType())
        case "integer":
            return LongType()
        case "number":
            return DoubleType()
        case "boolean":
            return BooleanType()
        case _:
            return StringType()  # of any shape: kept as JSON text


def _types(part: Any) -> list[str]:
    types = part.get("type", []) if isinstance(part, dict) else []
    return [types] if isinstance(types, str) else list(types)


def _type_name(part: dict[str, Any]) -> str | None:
    """The one type beside null; None if there is none, or several."""
    names = [name for name in _types(part) if name != "null"]
    return names[0] if len(names) == 1 else None

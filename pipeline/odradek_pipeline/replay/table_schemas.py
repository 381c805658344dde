"""A schema made of a table's columns, in each of the three languages: what `replay --register` registers.

Every field may be null, as every column of a table may. What a language has no type for is text: decimals and dates in
Protobuf, times and decimals (numbers) in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import types as T

from odradek_pipeline.replay.progress import ReplayRefused
from odradek_pipeline.schemas.lookup import AVRO, JSON, PROTOBUF

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
TOP = "Value"
"""The name of the outermost record or message."""

AVRO_TYPES: Mapping[type[T.DataType], Any] = {
    T.BooleanType: "boolean",
    T.ByteType: "int",
    T.ShortType: "int",
    T.IntegerType: "int",
    T.LongType: "long",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.StringType: "string",
    T.BinaryType: "bytes",
    T.DateType: {"type": "int", "logicalType": "date"},
    T.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    T.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
JSON_TYPES: Mapping[type[T.DataType], dict[str, Any]] = {
    T.BooleanType: {"type": "boolean"},
    **{kind: {"type": "integer"} for kind in (T.ByteType, T.ShortType, T.IntegerType, T.LongType)},
    **{kind: {"type": "number"} for kind in (T.FloatType, T.DoubleType, T.DecimalType)},
    T.StringType: {"type": "string"},
    T.BinaryType: {"type": "string", "contentEncoding": "base64"},
    T.DateType: {"type": "string", "format": "date"},
    T.TimestampType: {"type": "string", "format": "date-time"},
    T.TimestampNTZType: {"type": "string"},
}
PROTOBUF_TYPES: Mapping[type[T.DataType], str] = {
    T.BooleanType: "bool",
    **dict.fromkeys((T.ByteType, T.ShortType, T.IntegerType), "int32"),
    T.LongType: "int64",
    T.FloatType: "float",
    T.DoubleType: "double",
    **dict.fromkeys((T.StringType, T.DecimalType, T.DateType, T.TimestampNTZType), "string"),
    T.BinaryType: "bytes",
    T.TimestampType: "google.protobuf.Timestamp",
}


def text_of(kind: str, value: T.DataType) -> str:
    """The text of a schema for values of this type. Raises ReplayRefused for what the language does not have."""
    make: dict[str, Callable[[T.DataType], str]] = {AVRO: _avro, JSON: _json, PROTOBUF: _protobuf}
    return make[kind](value)


def _refused(path: str, why: str) -> ReplayRefused:
    return ReplayRefused(f"--register: {path or 'the value'} {why}: give the value as an expression of other columns")


def _avro(value: T.DataType) -> str:
    return json.dumps(_avro_type(value, TOP, ""))


def _avro_type(kind: T.DataType, name: str, space: str) -> Any:
    path = f"{space}.{name}" if space else name
    match kind:
        case T.StructType():
            fields = [
                {"name": _name(part.name, path, "Avro"), "type": ["null", _avro_type(part.dataType, part.name, path)]}
                for part in kind.fields
            ]
            told = {"type": "record", "name": name, "fields": [{**field, "default": None} for field in fields]}
            return told | ({"namespace": space} if space else {})
        case T.ArrayType():
            return {"type": "array", "items": ["null", _avro_type(kind.elementType, name, space)]}
        case T.MapType() if isinstance(kind.keyType, T.StringType):
            return {"type": "map", "values": ["null", _avro_type(kind.valueType, name, space)]}
        case T.DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if type(kind) not in AVRO_TYPES:
        raise _refused(path, f"is a {kind.simpleString()}, which Avro does not have")
    return AVRO_TYPES[type(kind)]


def _json(value: T.DataType) -> str:
    return json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": TOP} | _json_type(value, ""))


def _json_type(kind: T.DataType, path: str) -> dict[str, Any]:
    """Fields that are null are not there; elements of arrays and values of maps are."""
    match kind:
        case T.StructType():
            parts = {part.name: _json_type(part.dataType, f"{path}.{part.name}") for part in kind.fields}
            return {"type": "object", "properties": parts}
        case T.ArrayType():
            return {"type": "array", "items": {"oneOf": [{"type": "null"}, _json_type(kind.elementType, path)]}}
        case T.MapType() if isinstance(kind.keyType, T.StringType):
            values = {"oneOf": [{"type": "null"}, _json_type(kind.valueType, path)]}
            return {"type": "object", "additionalProperties": values}
    if type(kind) not in JSON_TYPES:
        raise _refused(path.removeprefix("."), f"is a {kind.simpleString()}, which JSON does not have")
    return JSON_TYPES[type(kind)]


def _protobuf(value: T.DataType) -> str:
    if not isinstance(value, T.StructType):
        raise _refused("", f"is a {value.simpleString()}, and Protobuf has messages, which structs become")
    body = "\n".join(_message(value, TOP, "", ""))
    return f'syntax = "proto3";\n\nimport "google/protobuf/timestamp.proto";\n\n{body}\n'


def _message(kind: T.StructType, name: str, path: str, indent: str) -> list[str]:
    """The lines of a message, with those of the structs in it inside."""
    inner: list[str] = []
    fields = []
    for number, part in enumerate(kind.fields, 1):
        place = f"{path}.{part.name}".removeprefix(".")
        own = _name(part.name, path or TOP, "Protobuf")
        told = _field(part.dataType, f"{own.capitalize()}Type", place, inner, f"{indent}  ")
        fields.append(f"{indent}  {told} {own} = {number};")
    return [f"{indent}message {name} {{", *inner, *fields, f"{indent}}}"]


def _field(kind: T.DataType, name: str, path: str, inner: list[str], indent: str) -> str:
    """The type of a field, with its label; a message of its own is added to `inner`."""
    match kind:
        case T.ArrayType():
            return f"repeated {_one(kind.elementType, name, path, inner, indent)}"
        case T.MapType() if isinstance(kind.keyType, T.StringType):
            return f"map<string, {_one(kind.valueType, name, path, inner, indent)}>"
    return f"optional {_one(kind, name, path, inner, indent)}"


def _one(kind: T.DataType, name: str, path: str, inner: list[str], indent: str) -> str:
    if isinstance(kind, T.StructType):
        inner += _message(kind, name, path, indent)
        return name
    if type(kind) not in PROTOBUF_TYPES:
        raise _refused(path, f"is a {kind.simpleString()}, which Protobuf does not have there")
    return PROTOBUF_TYPES[type(kind)]


def _name(name: str, path: str, language: str) -> str:
    if NAME.fullmatch(name) is None:
        raise _refused(path, f"has a field {name!r}, and {language} has no such names")
    return name

"""From an Avro schema to the column that it becomes, and to the text of it that Spark's `from_avro` is given.

Enums are strings, `fixed` is binary, a uuid is text, times of day are microseconds (BIGINT), a union with null is the
other type, [int, long] is BIGINT and [float, double] DOUBLE. Other unions are structs with a field for each type,
`member0` and on, as Spark names them. Fields that can only be null are left out. A schema that contains itself has no
column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from odradek_pipeline.lake.widening import MillisOfDay, NoColumn

MOST_DIGITS = 38
PRIMITIVES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "string": T.StringType(),
    "null": T.NullType(),
}
LOGICAL: dict[tuple[str, str], T.DataType] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
}
NAMED = ("record", "error", "enum", "fixed")


@dataclass(frozen=True, slots=True)
class AvroColumn:
    """`text` is the schema for `from_avro`, whole in itself; `read` is the type that this gives: see `column_type`."""

    text: str
    read: T.DataType


def column_of(text: str, needed: Mapping[str, str] | None = None) -> AvroColumn:
    """Raises NoColumn for what has no column, ValueError for what is no Avro schema."""
    walk = _Walk({name: json.loads(other) for name, other in (needed or {}).items()})
    return AvroColumn(*walk.whole(_parsed(text)))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()  # a primitive type's name, as some clients register it


class _Walk:
    """One walk through a schema; `_types` are the named types met so far, None while they are walked through."""

    def __init__(self, needed: Mapping[str, Any]) -> None:
        self._needed = needed
        self._types: dict[str, T.DataType | None] = {}

    def whole(self, node: Any) -> tuple[str, T.DataType]:
        schema, kind = self.visit(node, "", "value")
        return json.dumps(schema), kind

    def visit(self, node: Any, space: str, path: str) -> tuple[Any, T.DataType]:
        """The schema to give to Spark, and the type that it reads."""
        if isinstance(node, str):
            return self._named(node, space, path)
        if isinstance(node, list):
            return self._union(node, space, path)
        if not isinstance(node, dict) or "type" not in node:
            raise ValueError(f"{path}: {node!r} is no Avro type")
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.visit(kind, space, path)
        match kind:
            case "array":
                items, inner = self.visit(node["items"], space, path)
                return {"type": "array", "items": items}, T.ArrayType(inner)
            case "map":
                values, inner = self.visit(node["values"], space, path)
                return {"type": "map", "values": values}, T.MapType(T.StringType(), inner)
            case _ if kind in NAMED:
                return self._definition(node, space, path)
            case _ if kind in PRIMITIVES:
                return self._logical(node, path)
        return self._named(kind, space, path)

    def _named(self, name: str, space: str, path: str) -> tuple[Any, T.DataType]:
        if name in PRIMITIVES:
            return name, PRIMITIVES[name]
        full = name if "." in name or not space else f"{space}.{name}"
        for known in (full, name):
            if known in self._types:
                kind = self._types[known]
                if kind is None:
                    raise NoColumn(f"{path}: {known} contains itself, which no column can")
                return (known if "." in known else name), kind
            if known in self._needed:
                return self.visit(self._needed[known], "", path)
        raise ValueError(f"{path}: there is no type {name}")

    def _definition(self, node: dict[str, Any], space: str, path: str) -> tuple[Any, T.DataType]:
        given = node["name"]
        own = given.rpartition(".")[0] if "." in given else node.get("namespace", space)
        full = given if "." in given or not own else f"{own}.{given}"
        short = given.rpartition(".")[2]
        told: dict[str, Any] = {"name": short, "namespace": own or ""}
        self._types[full] = None
        kind: T.DataType
        match node["type"]:
            case "enum":
                told |= {"type": "enum", "symbols": node["symbols"]}
                kind = T.StringType()
            case "fixed":
                told |= {"type": "fixed", "size": node["size"]}
                kind = _decimal(node, path) or T.BinaryType()
                if isinstance(kind, T.DecimalType):
                    told |= {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
            case _:
                fields, columns = [], []
                for each in node["fields"]:
                    schema, inner = self.visit(each["type"], own or "", f"{path}.{each['name']}")
                    fields.append({"name": each["name"], "type": schema})
                    columns.append(T.StructField(each["name"], inner))
                told |= {"type": "record", "fields": fields}
                kind = T.StructType(columns)
        self._types[full] = kind
        return told, kind

    def _logical(self, node: dict[str, Any], path: str) -> tuple[Any, T.DataType]:
        kind, logical = node["type"], str(node.get("logicalType"))
        if (kind, logical) in LOGICAL:
            return {"type": kind, "logicalType": logical}, LOGICAL[kind, logical]
        if (kind, logical) == ("int", "time-millis"):
            return kind, MillisOfDay()
        decimal = _decimal(node, path) if kind == "bytes" else None
        if decimal is not None:
            told = {"type": kind, "logicalType": "decimal", "precision": decimal.precision, "scale": decimal.scale}
            return told, decimal
        return kind, PRIMITIVES[kind]

    def _union(self, node: list[Any], space: str, path: str) -> tuple[Any, T.DataType]:
        told, kinds, bases = [], [], set()
        for branch in node:
            schema, kind = self.visit(branch, space, path)
            told.append(schema)
            if schema != "null":
                kinds.append(kind)
                bases.add(schema if isinstance(schema, str) else schema["type"])
        if not kinds:
            raise NoColumn(f"{path}: a union of nothing but null has no column")
        if len(kinds) == 1:
            return told, kinds[0]
        if bases in ({"int", "long"}, {"float", "double"}) and len(kinds) == 2:
            return told, T.LongType() if "int" in bases else T.DoubleType()
        return told, T.StructType([T.StructField(f"member{number}", kind) for number, kind in enumerate(kinds)])


def _decimal(node: Mapping[str, Any], path: str) -> T.DecimalType | None:
    """None for what is no decimal, or not rightly declared, which Avro has read as bytes."""
    precision, scale = node.get("precision"), node.get("scale", 0)
    if node.get("logicalType") != "decimal" or not isinstance(precision, int) or not 0 <= scale <= precision:
        return None
    if precision > MOST_DIGITS:
        raise NoColumn(f"{path}: a decimal has {MOST_DIGITS} digits at most in a table, not {precision}")
    return T.DecimalType(precision, scale)

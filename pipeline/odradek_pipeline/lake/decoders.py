"""Payloads decoded with one schema: in the JVM those of Avro and JSON Schema, in Python those of Protobuf.

Each gives a struct: `value`, of the column's type; `problem`, null if there is none; `unknown`, the names of fields
that the schema does not name; and, but for Protobuf, `kept`, what is in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import types as T

from odradek_pipeline import json_text
from odradek_pipeline.lake import avro_types, json_schema, records, reshape, unknown
from odradek_pipeline.lake.widening import NoColumn, column_type
from odradek_pipeline.registry import RegisteredSchema
from odradek_pipeline.schemas.errors import MissingLibraryError, SchemaError
from odradek_pipeline.schemas.lookup import AVRO, JSON, PROTOBUF

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

    from odradek_pipeline.lake.protobuf_rows import Reading

END = b"odradek\0"
"""Put behind a payload, and read behind its value: a payload that is too short or too long does not end there."""

PERMISSIVE = {"mode": "PERMISSIVE"}
"""What cannot be read gives nulls, and does not end the query."""


class Decoder(Protocol):
    """`column` is the narrowest column for the schema's values."""

    @property
    def column(self) -> T.DataType: ...


class ColumnDecoder(Decoder, Protocol):
    """One that needs no Python on the executors."""

    def decoded(self, payload: Column, column: T.DataType, misfit: str) -> Column:
        """`column`: the type of the table's; `misfit`: what to say of a payload that does not fit."""


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """Spark's own `from_avro`, with the schema as a field of a record around it, which has no bytes of its own."""

    read: T.DataType
    wrapped: str
    column: T.DataType

    def decoded(self, payload: Column, column: T.DataType, misfit: str) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import from_avro

        def judged(found: Column) -> Column:
            ends = F.coalesce(found["end"] == F.lit(END), F.lit(False))
            value = reshape.reshaped(found["value"], self.read, column)
            return _decoded(F.when(ends, value), F.when(~ends, misfit), records.strings(()))

        return _let(from_avro(F.concat(payload, F.lit(END)), self.wrapped, PERMISSIVE), judged)


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Spark's own `from_json`, with a struct made of the JSON Schema. `keeps`: also what is in unknown fields."""

    column: T.StructType
    required: T.StructType
    keeps: bool = False

    def decoded(self, payload: Column, column: T.DataType, misfit: str) -> Column:
        from pyspark.sql import functions as F

        def judged(found: Column) -> Column:
            problem = records.problem_of(payload, found, self.required)
            value = reshape.reshaped(records.first_of(found), self.column, column)
            good = problem.isNull()
            named = F.when(good, unknown.names(payload.cast("string"), self.column))
            said = F.when(~good, F.concat(F.lit(f"{misfit}: "), problem))
            kept = records.kept(named, payload, self.column) if self.keeps else None
            return _decoded(F.when(good, value), said, named, kept)

        return _let(json_text.parsed(records.text_for(payload, self.column), self.column), judged)


@dataclass(frozen=True, slots=True)
class ProtobufDecoder:
    """Google's library, in tasks of Python: Spark's own module for Protobuf is in no jar that fits every Spark here."""

    column: T.StructType
    compiled: bytes
    indexes: tuple[int, ...]

    def reading(self, is_framed: bool, misfit: str) -> Reading:
        from odradek_pipeline.lake.protobuf_rows import Reading

        return Reading(self.compiled, self.indexes, is_framed, misfit)


def decoder_of(schema: RegisteredSchema) -> Decoder:
    """Raises NoColumn."""
    try:
        if schema.kind == AVRO:
            return _avro(schema)
        if schema.kind == PROTOBUF:
            return _protobuf(schema)
        if schema.kind == JSON:
            struct = json_schema.struct_of(json.loads(schema.text), schema.needed)
            column = column_type(struct)
            assert isinstance(column, T.StructType)
            return JsonDecoder(column, struct)
    except (NoColumn, MissingLibraryError):
        raise
    except SchemaError as error:
        raise NoColumn(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoColumn(f"it cannot be read: {error}") from None
    raise NoColumn(f"{schema.kind} is not known")


def _protobuf(schema: RegisteredSchema) -> ProtobufDecoder:
    from odradek_pipeline.lake.protobuf_rows import column_of
    from odradek_pipeline.schemas.protobuf import Messages
    from odradek_pipeline.schemas.protoc import compile_text

    compiled = compile_text(schema.text, schema.needed)
    messages = Messages(compiled)
    indexes = messages.indexes_of(schema.message or None)
    return ProtobufDecoder(column_of(messages.class_at(indexes)), compiled, tuple(indexes))


def append_protobuf(
    batch: DataFrame, name: str, payload: str, into: str, readings: Mapping[str, Reading], column: T.StructType
) -> DataFrame:
    """The batch with a column `into`, decoded by the reading of each record's name; null where there is none."""
    parts = {"value": column, "problem": T.StringType(), "unknown": T.ArrayType(T.StringType())}
    decoded = T.StructType([T.StructField(part, kind) for part, kind in parts.items()])
    schema = T.StructType([*batch.schema.fields, T.StructField(into, decoded)])
    places = batch.columns.index(name), batch.columns.index(payload)
    return batch.mapInArrow(partial(_appended, places, dict(readings), column), schema)


def _appended(
    places: tuple[int, int],
    readings: Mapping[str, Reading],
    column: T.StructType,
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    """On an executor."""
    import pyarrow

    from odradek_pipeline.lake.protobuf_rows import read_values

    for batch in batches:
        names, payloads = (batch.column(place).to_pylist() for place in places)
        decoded = read_values(names, payloads, readings, column)
        yield pyarrow.RecordBatch.from_arrays([*batch.columns, decoded], [*batch.schema.names, "decoded"])


def _avro(schema: RegisteredSchema) -> AvroDecoder:
    found = avro_types.column_of(schema.text, schema.needed)
    end = {"name": "end", "type": {"type": "fixed", "name": "OdradekEnd", "size": len(END)}}
    value = {"name": "value", "type": json.loads(found.text)}
    wrapped = {"type": "record", "name": "OdradekRecord", "fields": [value, end]}
    return AvroDecoder(found.read, json.dumps(wrapped), column_type(found.read))


def _decoded(value: Column, problem: Column, named: Column, kept: Column | None = None) -> Column:
    from pyspark.sql import functions as F

    kept = F.lit(None).cast(unknown.MAP) if kept is None else kept
    return F.struct(value.alias("value"), problem.alias("problem"), named.alias("unknown"), kept.alias("kept"))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """`use(value)`, with the value computed once, however often it is used."""
    from pyspark.sql import functions as F

    return F.get(F.transform(F.array(value), use), F.lit(0))

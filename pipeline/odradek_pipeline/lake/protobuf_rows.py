"""Protobuf messages as values of a column: the column's type, and the values of a batch in Arrow's form.

| Protobuf                              | column                                                                      |
| ------------------------------------- | --------------------------------------------------------------------------- |
| uint32, fixed32                       | BIGINT                                                                      |
| uint64, fixed64                       | DECIMAL(20,0)                                                               |
| enum                                  | STRING: the name; of a number that the schema does not have, the number     |
| map                                   | MAP, whose keys are text                                                    |
| Timestamp                             | TIMESTAMP                                                                   |
| Duration                              | BIGINT, microseconds                                                        |
| Int64Value and its like               | the type within                                                             |
| Struct, Value, ListValue, a message   | STRING, as Protobuf's JSON: what has no one type, or contains itself, or is |
| within itself or without fields       | only there or not                                                           |

Fields that can be absent are null then; others have Protobuf's default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from odradek_pipeline.lake.widening import NoColumn
from odradek_pipeline.schemas.framing import read_indexes
from odradek_pipeline.schemas.protobuf import GOOGLES, Messages, is_repeated

Read = Callable[[Any, list[str]], Any]
"""From a value to Arrow's; unknown fields that are met are added to the list."""

WRAPPERS = frozenset(
    f"{GOOGLES}{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
AS_JSON = frozenset(f"{GOOGLES}{name}" for name in ("Struct", "Value", "ListValue"))
TIMESTAMP, DURATION = f"{GOOGLES}Timestamp", f"{GOOGLES}Duration"
FIRST_SECOND, LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999, which are all that a Timestamp may have."""

LONGEST_SECONDS = 315_576_000_000
"""Of a Duration."""


def column_of(message: Any) -> T.StructType:
    """The column of a message, given its class. Raises NoColumn for one without fields."""
    found = _message_type(message.DESCRIPTOR, ())
    if not isinstance(found, T.StructType):
        raise NoColumn(f"message {message.DESCRIPTOR.name} has no field that a table could have")
    return found


def _message_type(descriptor: Any, inside: tuple[str, ...]) -> T.DataType:
    name = descriptor.full_name
    if name in WRAPPERS:
        return _scalar_type(descriptor.fields_by_name["value"])
    if name == TIMESTAMP:
        return T.TimestampType()
    if name == DURATION:
        return T.LongType()
    if name in AS_JSON or name in inside or not descriptor.fields:
        return T.StringType()
    fields = [T.StructField(field.name, _field_type(field, (*inside, name))) for field in descriptor.fields]
    return T.StructType(fields)


def _field_type(field: Any, inside: tuple[str, ...]) -> T.DataType:
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        return T.MapType(T.StringType(), _one_type(of, inside))
    one = _one_type(field, inside)
    return T.ArrayType(one) if is_repeated(field) else one


def _one_type(field: Any, inside: tuple[str, ...]) -> T.DataType:
    return _scalar_type(field) if field.message_type is None else _message_type(field.message_type, inside)


def _scalar_type(field: Any) -> T.DataType:
    match field.type:
        case field.TYPE_BOOL:
            return T.BooleanType()
        case field.TYPE_INT32 | field.TYPE_SINT32 | field.TYPE_SFIXED32:
            return T.IntegerType()
        case field.TYPE_UINT64 | field.TYPE_FIXED64:
            return T.DecimalType(20, 0)
        case field.TYPE_FLOAT:
            return T.FloatType()
        case field.TYPE_DOUBLE:
            return T.DoubleType()
        case field.TYPE_BYTES:
            return T.BinaryType()
        case field.TYPE_STRING | field.TYPE_ENUM:
            return T.StringType()
    return T.LongType()  # the other numbers: of 64 bits, or of 32 without a sign


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@dataclass(frozen=True, slots=True)
class Reading:
    """How payloads are read: `compiled` is a FileDescriptorSet, `indexes` where in it the message is.

    `is_framed`: the payload has indexes in front. `misfit`: what to say of one that does not fit.
    """

    compiled: bytes
    indexes: tuple[int, ...]
    is_framed: bool
    misfit: str


def arrow_type(kind: T.DataType) -> pa.DataType:
    """Arrow's type for a column of this module's, or a union of such columns."""
    plain: dict[type[T.DataType], pa.DataType] = {
        T.BooleanType: pa.bool_(),
        T.IntegerType: pa.int32(),
        T.LongType: pa.int64(),
        T.FloatType: pa.float32(),
        T.DoubleType: pa.float64(),
        T.StringType: pa.string(),
        T.BinaryType: pa.binary(),
        T.TimestampType: pa.timestamp("us", "UTC"),
    }
    match kind:
        case T.StructType():
            return pa.struct([pa.field(part.name, arrow_type(part.dataType)) for part in kind.fields])
        case T.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType)))
        case T.MapType():
            return pa.map_(pa.string(), pa.field("value", arrow_type(kind.valueType)))
        case T.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
    return plain[type(kind)]


def read_values(
    names: Iterable[str | None],
    payloads: Iterable[bytes | None],
    readings: Mapping[str, Reading],
    column: T.StructType,
) -> pa.StructArray:
    """`value`, `problem` and `unknown` of each payload; all null where there is no reading of its name."""
    values: list[Any] = []
    problems: list[str | None] = []
    unknown: list[list[str] | None] = []
    readers = {name: _reader(reading, column.json()) for name, reading in readings.items()}
    for name, payload in zip(names, payloads, strict=True):
        reader = readers.get(name or "")
        value, problem, paths = None, None, None
        if reader is not None and payload is not None:
            value, problem, paths = _read(reader, payload, readings[name or ""].misfit)
        values.append(value)
        problems.append(problem)
        unknown.append(paths)
    texts = pa.list_(pa.field("element", pa.string()))
    arrays = [pa.array(values, arrow_type(column)), pa.array(problems, pa.string()), pa.array(unknown, texts)]
    return pa.StructArray.from_arrays(arrays, ["value", "problem", "unknown"])


def _read(reader: Callable[[bytes, list[str]], Any], payload: bytes, misfit: str) -> tuple[Any, str | None, Any]:
    unknown: list[str] = []
    try:
        return reader(payload, unknown), None, unknown
    except ValueError as error:
        return None, f"{misfit}: {error}", None


@lru_cache(maxsize=100)
def _reader(reading: Reading, column: str) -> Callable[[bytes, list[str]], Any]:
    """Of a payload; kept, as an Arrow batch has a thousand of them. Raises ValueError for one that does not fit."""
    from google.protobuf.message import DecodeError

    made = Messages(reading.compiled).class_at(reading.indexes)
    wanted = list(reading.indexes)
    read = _struct(made.DESCRIPTOR, T.StructType.fromJson(json.loads(column)), "")

    def of(payload: bytes, unknown: list[str]) -> Any:
        if reading.is_framed:
            indexes, payload = read_indexes(payload)
            if indexes != wanted:
                raise ValueError(f"it is of message {indexes}, and {wanted} ({made.DESCRIPTOR.name}) is wanted")
        message = made()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not message.IsInitialized():
            raise ValueError(f"required field {message.FindInitializationErrors()[0]} is missing")
        return read(message, unknown)

    return of


def _struct(descriptor: Any, column: T.StructType, path: str) -> Read:
    from google.protobuf.unknown_fields import UnknownFieldSet

    columns = {part.name.lower(): part for part in column.fields}
    parts: list[tuple[str, str, bool, Read]] = []
    for field in descriptor.fields:
        part = columns[field.name.lower()]
        read = _content(field, part.dataType, f"{path}{field.name}.")
        parts.append((part.name, field.name, field.has_presence, read))

    def of(message: Any, unknown: list[str]) -> dict[str, Any]:
        found = {}
        for name, own, may_lack, read in parts:
            if not may_lack or message.HasField(own):
                found[name] = read(getattr(message, own), unknown)
        strange = UnknownFieldSet(message)
        if len(strange):
            unknown.extend(sorted({f"{path}{each.field_number}" for each in strange} - set(unknown)))
        return found

    return of


def _content(field: Any, column: T.DataType, path: str) -> Read:
    """Of a field's content."""
    if _is_map(field) and isinstance(column, T.MapType):
        inner = _one(field.message_type.fields_by_name["value"], column.valueType, path)
        key = str if field.message_type.fields_by_name["key"].type != field.TYPE_BOOL else _truth
        return lambda content, unknown: [(key(name), inner(content[name], unknown)) for name in content]
    if is_repeated(field) and isinstance(column, T.ArrayType):
        one = _one(field, column.elementType, path)
        return lambda content, unknown: [one(each, unknown) for each in content]
    return _one(field, column, path)


def _one(field: Any, column: T.DataType, path: str) -> Read:
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda content, _: names.get(content, str(content))
    if field.message_type is None:
        return _scalar(column)
    kind = field.message_type.full_name
    if kind in WRAPPERS:
        within = _scalar(column)
        return lambda content, unknown: within(content.value, unknown)
    if kind == TIMESTAMP:
        return lambda content, _: _micros(content, FIRST_SECOND, LAST_SECOND)
    if kind == DURATION:
        return lambda content, _: _micros(content, -LONGEST_SECONDS, LONGEST_SECONDS)
    if isinstance(column, T.StructType):
        return _struct(field.message_type, column, path)
    return lambda content, _: _as_json(content)


def _scalar(column: T.DataType) -> Read:
    """Of a number, text or bytes, in a column that may be wider."""
    match column:
        case T.DoubleType() | T.FloatType():
            return lambda content, _: float(content)
        case T.DecimalType():
            return lambda content, _: Decimal(content)
    return lambda content, _: content


def _truth(key: bool) -> str:
    return "true" if key else "false"


def _micros(content: Any, least: int, most: int) -> int:
    """Of a Timestamp, since 1970, or of a Duration. Raises ValueError for what neither may have."""
    seconds, nanos = content.seconds, content.nanos
    if not least <= seconds <= most or abs(nanos) >= 1_000_000_000:
        raise ValueError(f"{content.DESCRIPTOR.full_name} cannot have {seconds} seconds and {nanos} nanos")
    return int(seconds * 1_000_000 + nanos // 1000)


def _as_json(content: Any) -> str:
    """Raises ValueError for what JSON cannot have."""
    from google.protobuf.json_format import MessageToJson, SerializeToJsonError
    from google.protobuf.message import DecodeError

    pool = content.DESCRIPTOR.file.pool
    try:
        return str(MessageToJson(content, indent=None, preserving_proto_field_name=True, descriptor_pool=pool))
    except (SerializeToJsonError, DecodeError, TypeError) as error:  # the last two: an Any of an unknown message
        raise ValueError(str(error)) from None

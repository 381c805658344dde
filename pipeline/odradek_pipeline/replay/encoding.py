"""Values written with a schema of a registry, as Confluent's serializers write them: the id in front of the payload.

The driver chooses the schema once for a job, and the job keeps its id: a start that goes on writes what the first would
have. Rows are encoded in Python before they are shuffled, so one that does not fit fails the job before any is written.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from odradek_pipeline.registry import RegisteredSchema, Registry
from odradek_pipeline.replay.progress import ReplayRefused
from odradek_pipeline.replay.table_schemas import text_of
from odradek_pipeline.schemas.codecs import Codec, codec_of
from odradek_pipeline.schemas.errors import SchemaError
from odradek_pipeline.schemas.framing import with_prefix
from odradek_pipeline.schemas.lookup import JSON, PROTOBUF, Source
from odradek_pipeline.schemas.protobuf import ProtobufCodec
from odradek_pipeline.schemas.protoc import compile_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

SCHEMA_ID = "value schema"
Plain = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """`kind` is AVRO, JSON or PROTOBUF. `register`: the schema of `file`, or one made of the columns, is registered;
    else the subject's latest is taken.
    """

    registry: Registry
    kind: str
    subject: str
    register: bool = False
    file: str = ""

    def chosen(self, value: T.DataType, begun: Mapping[str, Any]) -> RegisteredSchema:
        """The schema of a job, which is that of its manifest `begun` if it has begun. Raises ReplayRefused."""
        try:
            if (known := begun.get(SCHEMA_ID)) is not None:
                found = self.registry.by_id(int(known), self.subject)
            elif self.register:
                text = self._text(value)
                schema_id = self.registry.register(self.subject, RegisteredSchema(self.kind, text))
                found = RegisteredSchema(self.kind, text, schema_id)
            else:
                found = self.registry.latest(self.subject)
        except SchemaError as error:
            raise ReplayRefused(f"the registry does not help: {error}") from None
        if found is None:
            missing = f"schema {known}" if known is not None else f"subject {self.subject}"
            hint = "" if known is not None else "; --register makes a schema of the columns"
            raise ReplayRefused(f"the registry has no {missing}{hint}")
        if found.kind != self.kind:
            raise ReplayRefused(f"the schema of {self.subject} is of type {found.kind}, not {self.kind}")
        return found

    def _text(self, value: T.DataType) -> str:
        if not self.file:
            return text_of(self.kind, value)
        try:
            return Path(self.file).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ReplayRefused(f"--value-schema: {error}") from None


@dataclass(frozen=True, slots=True)
class Encoding:
    """A schema as it goes to the executors; `compiled` is that of Protobuf, so that these need no compiler."""

    schema: RegisteredSchema
    compiled: bytes = b""

    def manifest(self) -> dict[str, Any]:
        """What may not change between a job's starts."""
        return {SCHEMA_ID: self.schema.id}

    def codec(self) -> Codec:
        """Raises SchemaError."""
        if self.compiled:
            return ProtobufCodec(self.compiled, None)
        return codec_of(Source(self.schema.kind, self.schema.text, self.schema.needed))


def encoding_of(schema: RegisteredSchema) -> Encoding:
    """Raises ReplayRefused for a schema that cannot be used."""
    try:
        compiled = compile_text(schema.text, schema.needed) if schema.kind == PROTOBUF else b""
        encoding = Encoding(schema, compiled)
        encoding.codec()
    except SchemaError as error:
        raise ReplayRefused(f"schema {schema.id}: {error}") from None
    return encoding


def encoded(frame: DataFrame, column: str, encoding: Encoding) -> DataFrame:
    """The frame with that column's values as bytes; nulls stay null."""
    kind = frame.schema[column].dataType
    place = frame.columns.index(column)
    fields = [T.StructField(column, T.BinaryType()) if part.name == column else part for part in frame.schema.fields]
    return frame.mapInArrow(partial(_encode, place, kind, encoding), T.StructType(fields))


def _encode(
    place: int, kind: T.DataType, encoding: Encoding, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor. Raises ValueError for a value that the schema does not take."""
    import pyarrow as pa

    codec = encoding.codec()
    plain = plain_of(kind, encoding.schema.kind)
    schema_id = encoding.schema.id or 0
    for batch in batches:
        values = [
            None if value is None else with_prefix(schema_id, _payload(codec, plain(value), schema_id))
            for value in batch.column(place).to_pylist()
        ]
        columns = list(batch.columns)
        columns[place] = pa.array(values, pa.binary())
        yield pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _payload(codec: Codec, value: Any, schema_id: int) -> bytes:
    try:
        return codec.encode(value)
    except SchemaError as error:
        raise ValueError(f"a row does not fit schema {schema_id}: {error}: {repr(value)[:300]}") from None


def plain_of(kind: T.DataType, schema_kind: str) -> Plain:
    """From a value of a column, as Arrow gives it, to what the schema's codec takes.

    A null field is left out of JSON and Protobuf, which have other words for what is not there.
    """
    match kind:
        case T.StructType():
            parts = {part.name: plain_of(part.dataType, schema_kind) for part in kind.fields}
            return partial(_struct, parts, schema_kind in (JSON, PROTOBUF))
        case T.ArrayType():
            each = plain_of(kind.elementType, schema_kind)
            return lambda value: [None if one is None else each(one) for one in value]
        case T.MapType():
            inner = plain_of(kind.valueType, schema_kind)
            return lambda value: {key: None if one is None else inner(one) for key, one in value}
        case T.BinaryType() if schema_kind == JSON:
            return lambda value: base64.b64encode(value).decode()
        case T.DecimalType() if schema_kind == JSON:
            return _number
        case T.DecimalType() if schema_kind == PROTOBUF:
            return lambda value: f"{value:f}"
    return lambda value: value


def _struct(parts: Mapping[str, Plain], leaves_out: bool, value: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, plain in parts.items():
        content = value[name]
        if content is not None:
            found[name] = plain(content)
        elif not leaves_out:
            found[name] = None
    return found


def _number(value: Decimal) -> int | float:
    """Raises ValueError for digits that a number in JSON, as most read it, does not keep."""
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise ValueError(f"{value} has more digits than a number in JSON keeps: make the column text")
    return number

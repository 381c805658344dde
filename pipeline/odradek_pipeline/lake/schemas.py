"""The values of a topic: raw bytes, JSON with a declared or inferred schema, or what a registry's schemas say.

`--schema TOPIC=raw`, `TOPIC=json` (inferred), `TOPIC=json:COLUMNS` (Spark's DDL), `TOPIC=json:@FILE` (JSON Schema, or
the JSON of a StructType), `TOPIC=avro` and so on (`registry_specs`). The topic `*` stands for all topics that are not
named.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek_pipeline import json_text
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.reasons import reason
from odradek_pipeline.schemas import registry_specs
from odradek_pipeline.schemas.registry_specs import RegisteredSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType


EVERY_TOPIC = "*"
REFUSED_BY_DELTA = " ,;{}()\n\t="
NO_FIELD = "odradek: no field"
"""Instead of Spark's `_corrupt_record`, which may be a user's field; then no schema could be inferred."""


@dataclass(frozen=True, slots=True)
class SchemaSpec:
    """`declared` is DDL, `@` and a file name, or empty if the schema is to be inferred.

    `registered`: the schemas are a registry's; `json` false and no such: raw bytes.
    """

    json: bool = False
    declared: str = ""
    registered: RegisteredSpec | None = None

    @property
    def is_raw(self) -> bool:
        return not self.json and self.registered is None

    @property
    def inferred(self) -> bool:
        return self.json and not self.declared


def parse_specs(texts: Iterable[str], flag: str = "--schema") -> dict[str, SchemaSpec]:
    """Topic to spec. Raises LakeError for any other form."""
    specs: dict[str, SchemaSpec] = {}
    for text in texts:
        topic, separator, value = text.partition("=")
        if topic in specs:
            raise LakeError(f"{flag} {text!r}: topic {topic} has one already")
        if not separator:
            raise LakeError(f"{flag} {text!r}: not TOPIC=raw, TOPIC=json, TOPIC=json:COLUMNS or TOPIC=json:@FILE")
        specs[topic] = _spec(text, value, flag)
    return specs


def _spec(text: str, value: str, flag: str) -> SchemaSpec:
    kind, colon, declared = value.partition(":")
    if value == "raw":
        return SchemaSpec()
    if kind == "json" and bool(colon) == bool(declared.strip()):
        return SchemaSpec(True, declared.strip())
    try:
        registered = registry_specs.parse(value)
    except ValueError as error:
        raise LakeError(f"{flag} {text!r}: {error}") from None
    if registered is None:
        raise LakeError(f"{flag} {text!r}: not raw, json, json:COLUMNS or json:@FILE, nor {registry_specs.FORMS}")
    return SchemaSpec(registered=registered)


def spec_of(specs: Mapping[str, SchemaSpec], topic: str) -> SchemaSpec:
    return specs.get(topic) or specs.get(EVERY_TOPIC) or SchemaSpec()


def declared_struct(spec: SchemaSpec) -> StructType:
    """The schema that a spec declares; DDL needs a running SparkSession. Raises LakeError if it cannot be read."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if spec.declared.startswith("@"):
            document = json.loads(Path(spec.declared[1:]).read_bytes())
            is_spark = document.get("type") == "struct" and "fields" in document
            if is_spark:
                return StructType.fromJson(document)
            from odradek_pipeline.lake import json_schema

            return json_schema.struct_of(document)
        parsed = StructType.fromDDL(spec.declared)
    except OSError as error:
        raise LakeError(f"--schema: {error}") from None
    except (PySparkException, ValueError, TypeError, KeyError, AttributeError) as error:
        raise LakeError(f"--schema: {spec.declared!r} is no schema: {reason(error)}") from None
    if not isinstance(parsed, StructType):
        raise LakeError(f"--schema: {spec.declared!r} is one type, not columns")
    return parsed


def infer(spark: SparkSession, sample: DataFrame) -> StructType | None:
    """The schema of the JSON values in `sample` (Kafka rows); None if none of them has a field."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    values = sample.where(F.expr("is_valid_utf8(value)") & (json_text.count(F.col("value")) == 1))
    # PySpark reads JSON only from an RDD of Python objects, for which the driver would have to hold the values.
    jvm: Any = spark._jvm
    texts = getattr(values.select(F.col("value").cast("string"))._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader = spark.read.options(mode="DROPMALFORMED", columnNameOfCorruptRecord=NO_FIELD, **json_text.STRICT)
    return StructType.fromJson(json.loads(reader._jreader.json(texts).schema().json())) or None


def check_names(topic: str, schema: StructType, table_format: str) -> None:
    """Raises LakeError for field names that the table cannot have: equal but for case, or with marks Delta rejects."""
    from pyspark.sql.types import StructType

    for _, kind in _types_within(schema):
        names: dict[str, str] = {}
        for name in kind.names if isinstance(kind, StructType) else ():
            other = names.get(name.lower())
            if other == name:
                raise LakeError(f"topic {topic}: field {name!r} is there twice")
            if other is not None:
                raise LakeError(f"topic {topic}: fields {other!r} and {name!r} differ in case only; declare a --schema")
            names[name.lower()] = name
            if table_format == "delta" and any(mark in REFUSED_BY_DELTA for mark in name):
                raise LakeError(
                    f"topic {topic}: Delta refuses the field name {name!r}; declare a --schema, or use --format iceberg"
                )


def check_types(topic: str, schema: StructType, table_format: str) -> None:
    """Raises LakeError for a field whose type JSON cannot be converted to, or the table cannot have.

    The refusal must come before the schema is settled, as in `check_evolution`.
    """
    for path, kind in _types_within(schema):
        why = _refusal(kind, table_format)
        if why is not None:
            raise LakeError(f"topic {topic}: field {path or 'value'} cannot be {kind.simpleString()}: {why}")


def _refusal(kind: DataType, table_format: str) -> str | None:
    """Why a field cannot have a type; None if it can."""
    from pyspark.sql import types as T

    refused: dict[str, tuple[type[DataType], ...]] = {
        "delta": (T.CalendarIntervalType, T.DayTimeIntervalType, T.YearMonthIntervalType),
        "iceberg": (T.CalendarIntervalType, T.DayTimeIntervalType, T.YearMonthIntervalType, T.NullType, T.VariantType),
        "parquet": (T.CalendarIntervalType, T.NullType),
    }
    match kind:
        case T.StructType() if not kind.fields:
            return "it has no field"
        case T.MapType() if not isinstance(kind.keyType, T.StringType):
            return "keys in JSON are strings"
        case T.CharType() | T.VarcharType():
            return "declare it as STRING"
        case T.ByteType():
            return "Spark's parser would make -128 of 128; declare it as SMALLINT"
        case T.StringType() if table_format == "delta" and kind.collation != T.StringType().collation:
            return "Delta has no collations"
        case _ if isinstance(kind, refused[table_format]):
            return f"tables in format {table_format} cannot hold it"
    return None


def check_evolution(topic: str, before: StructType, now: StructType, table_format: str, prefix: str = "") -> None:
    """Raises LakeError for a field that changes its type, unless to a wider one where all readers of the format can.

    Fields may come and go, and be required or not. The refusal must come before the schema is settled: a batch planned
    with a schema that the table cannot take could never be written.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    from odradek_pipeline.lake.widening import may_become

    old = {part.name.lower(): part.dataType for part in before.fields}
    for part in now.fields:
        kinds = old.get(part.name.lower()), part.dataType
        while isinstance(kinds[1], ArrayType | MapType) and type(kinds[0]) is type(kinds[1]):
            kinds = _inner(kinds[0]), _inner(kinds[1])
        name = f"{prefix}{part.name}"
        if isinstance(kinds[0], StructType) and isinstance(kinds[1], StructType):
            check_evolution(topic, kinds[0], kinds[1], table_format, f"{name}.")
        elif kinds[0] is not None and kinds[0] != kinds[1] and not may_become(kinds[0], kinds[1], table_format):
            types = kinds[0].simpleString(), kinds[1].simpleString()
            raise LakeError(f"topic {topic}: field {name} is {types[0]} in the table and cannot become {types[1]}")


def _inner(kind: Any) -> DataType:
    """The type of an array's elements or a map's values; JSON's keys are always strings."""
    from pyspark.sql.types import ArrayType

    inner: DataType = kind.elementType if isinstance(kind, ArrayType) else kind.valueType
    return inner


def required_paths(schema: StructType, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of fields declared NOT NULL, outer ones first; not those within arrays and maps."""
    from pyspark.sql.types import StructType

    for part in schema.fields:
        path = (*prefix, part.name)
        if not part.nullable:
            yield path
        if isinstance(part.dataType, StructType):
            yield from required_paths(part.dataType, path)


def decimals_as_text(kind: Any) -> Any:
    """The type with its decimals alone, at any depth, as strings; None if it has none."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructField, StructType

    match kind:
        case DecimalType():
            return StringType()
        case StructType():
            parts = ((part.name, decimals_as_text(part.dataType)) for part in kind.fields)
            fields = [StructField(name, part) for name, part in parts if part is not None]
            return StructType(fields) if fields else None
        case ArrayType():
            inner = decimals_as_text(kind.elementType)
            return None if inner is None else ArrayType(inner)
        case MapType():
            inner = decimals_as_text(kind.valueType)
            return None if inner is None else MapType(StringType(), inner)
    return None


def has_struct(kind: DataType) -> bool:
    """Whether a type is a struct, or has one nested in it."""
    from pyspark.sql.types import StructType

    return any(isinstance(part, StructType) for _, part in _types_within(kind))


def has_map(kind: DataType) -> bool:
    """Whether a type is a map, or has one nested in it."""
    from pyspark.sql.types import MapType

    return any(isinstance(part, MapType) for _, part in _types_within(kind))


def _types_within(kind: DataType, path: str = "") -> Iterator[tuple[str, DataType]]:
    """The type and all types nested in it, with the path of the field that has each."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield path, kind
    match kind:
        case StructType():
            for part in kind.fields:
                yield from _types_within(part.dataType, f"{path}.{part.name}" if path else part.name)
        case ArrayType():
            yield from _types_within(kind.elementType, path)
        case MapType():
            yield from _types_within(kind.valueType, path)


def as_json(schema: StructType | None) -> dict[str, Any] | None:
    return None if schema is None else schema.jsonValue()

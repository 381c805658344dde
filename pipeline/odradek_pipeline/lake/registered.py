"""Values and keys that are written with schemas of a registry: which schemas a batch needs, and its rows.

A batch is written with the schemas that are known; a record of another one fails it before anything is committed.
Then its names are looked for, asked of the registry and kept (`schema_ids`), and it is written again: so a batch
without news is read once.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import structlog

from odradek_pipeline.lake import records, schemas, unknown
from odradek_pipeline.lake.decoders import (
    ColumnDecoder,
    Decoder,
    JsonDecoder,
    ProtobufDecoder,
    append_protobuf,
    decoder_of,
)
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.record_names import distinct, named
from odradek_pipeline.lake.schema_files import schema_of_file
from odradek_pipeline.lake.schema_ids import ONLY, Entry, SchemaIds, Side
from odradek_pipeline.lake.widening import NoColumn, union
from odradek_pipeline.registry import RegisteredSchema, Registry
from odradek_pipeline.schemas.client import RegistryAway
from odradek_pipeline.schemas.errors import SchemaError
from odradek_pipeline.schemas.lookup import JSON, PROTOBUF
from odradek_pipeline.schemas.registry_specs import KEY, VALUE, RegisteredSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

logger = structlog.get_logger(__name__)

NEW = "odradek: a schema that is not known yet"
NAME, PAYLOAD, DECODED = "_name_{}", "_payload_{}", "_decoded_{}"
LATEST_SECONDS = 300.0
"""How long the latest version of a subject counts as such."""

LONGEST_PAUSE_S = 10.0
Write = Callable[["DataFrame", int], None]


@dataclass(slots=True)
class RegisteredTopic:
    """A topic's sides with schemas of a registry, or of files without one. `stopping` ends the wait for a registry.

    `keeps`: what is in the unknown fields of JSON values is kept. `by_key`: the table has one row a key, so keys are
    compared.
    """

    topic: str
    specs: Mapping[str, RegisteredSpec]
    registry: Registry | None
    ids: SchemaIds
    table_format: str
    stopping: threading.Event
    keeps: bool = False
    by_key: bool = False
    _generation: int = 0
    _sides: dict[str, Side] = field(default_factory=dict)
    _only: dict[str, RegisteredSchema] = field(default_factory=dict)
    _asked: float = 0.0
    _has_table: bool = False
    _look_first: bool = False
    _decoders: dict[tuple[str, str], Decoder] = field(default_factory=dict)

    def begin(self, generation: int, planned: int, has_table: bool) -> None:
        """Take up what was known when batch `planned` was written. Raises LakeError, RegistryAway."""
        self._generation = generation
        self._has_table = has_table
        self._decoders.clear()
        known = {side: Side() for side in self.specs} | self.ids.load(generation, planned)
        self._sides = {name: side.lasting() for name, side in known.items()}  # a batch that comes again has its own
        self._check_messages()
        self._look_first = not has_table
        self._ask_latest()

    def _check_messages(self) -> None:
        """Raises LakeError if values are to be other messages than those that the table has."""
        for side, spec in self.specs.items():
            for entry in self._sides[side].entries.values():
                if entry.schema is not None and entry.schema.message != spec.message:
                    was, now = (name or "the first one of its schema" for name in (entry.schema.message, spec.message))
                    raise LakeError(
                        f"topic {self.topic}: {side}s are of message {was} in its table, and cannot be of {now} now: "
                        "give another --lake"
                    )

    def write(self, batch: DataFrame, number: int, again: bool, write: Write) -> None:
        """Write a batch, after what it brings is kept. `again`: it may be in the table already."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if again and self.ids.has(self._generation, number):
            self._sides |= self.ids.load(self._generation, number)
            write(batch, number)
        elif self._look_first or self._latest_changed():
            self._settle(batch, number)
            write(batch, number)
        else:
            try:
                write(batch, number)
            except (PySparkException, Py4JJavaError):
                if not self._settle(batch, number):
                    raise
                write(batch, number)
        self._has_table = True
        self._look_first = any(side.lasting() != side for side in self._sides.values())
        self._sides = {name: side.lasting() for name, side in self._sides.items()}

    def judged(self, batch: DataFrame) -> DataFrame:
        """The batch, judged by what it is besides (`records`), with the columns of the sides that have schemas.

        A side of which no schema is known yet has no column: its type would be that of the table for good.
        """
        from pyspark.sql import functions as F

        for side in self.specs:
            batch = self._decode(batch, side)
            found = F.col(DECODED.format(side))
            problem = self._problem(side, found["problem"])
            into, named = (records.VALUE, records.SCHEMA_ID) if side == VALUE else (records.KEY, records.KEY_SCHEMA_ID)
            columns = {into: found["value"], named: self._id(side)}
            if side == VALUE:
                columns |= {records.PROBLEM: problem, records.UNKNOWN: F.when(problem.isNull(), found["unknown"])}
                if self.keeps and self.specs[side].kind == JSON:
                    columns[records.KEPT] = F.when(problem.isNull(), found["kept"])
            else:
                columns[records.PROBLEM] = F.coalesce(F.col(records.PROBLEM), F.concat(F.lit("key: "), problem))
            batch = batch.withColumns(columns)
            if self._sides[side].column is None:
                batch = batch.drop(into)
        return batch

    def _decode(self, batch: DataFrame, side: str) -> DataFrame:
        from pyspark.sql import functions as F

        spec = self.specs[side]
        name, payload = named(side, spec.kind) if spec.by_id else (F.when(F.col(side).isNotNull(), ONLY), F.col(side))
        batch = batch.withColumns({NAME.format(side): name, PAYLOAD.format(side): payload})
        column = self._sides[side].column
        entries = {key: entry for key, entry in self._sides[side].entries.items() if entry.schema is not None}
        if column is None or not entries:
            return batch.withColumn(DECODED.format(side), _nothing())
        if spec.kind == PROTOBUF:
            return self._in_python(batch, side, entries, column)
        return batch.withColumn(DECODED.format(side), self._cases(side, entries, column))

    def _cases(self, side: str, entries: Mapping[str, Entry], column: DataType) -> Column:
        from pyspark.sql import functions as F

        case: Any = F
        name, payload = F.col(NAME.format(side)), F.col(PAYLOAD.format(side))
        for key, entry in entries.items():
            decoder = cast(ColumnDecoder, self._decoder(side, key))
            case = case.when(name == key, decoder.decoded(payload, column, _misfit(entry)))
        found: Column = case
        return found

    def _in_python(self, batch: DataFrame, side: str, entries: Mapping[str, Entry], column: DataType) -> DataFrame:
        readings = {
            key: cast(ProtobufDecoder, self._decoder(side, key)).reading(self.specs[side].by_id, _misfit(entry))
            for key, entry in entries.items()
        }
        name, payload, into = (form.format(side) for form in (NAME, PAYLOAD, DECODED))
        return append_protobuf(batch, name, payload, into, readings, cast("StructType", column))

    def _decoder(self, side: str, key: str) -> Decoder:
        entry = self._sides[side].entries[key]
        if entry.schema is None:
            raise RuntimeError("an entry without a schema has no decoder")
        found = self._decoders.get((side, key))
        if found is None:
            found = decoder_of(entry.schema)
            if isinstance(found, JsonDecoder):
                found = replace(found, keeps=self.keeps)
            self._decoders[side, key] = found
        return found

    def _problem(self, side: str, otherwise: Column) -> Column:
        """Why a record is a dead letter; fails for one with a schema that is not known yet."""
        from pyspark.sql import functions as F

        name = F.col(NAME.format(side))
        problem = F.when(F.col(side).isNull(), F.lit(None).cast("string")).when(name.isNull(), "no schema prefix")
        for key, entry in self._sides[side].entries.items():
            problem = problem.when(name == key, F.lit(entry.problem) if entry.problem else otherwise)
        return problem.otherwise(F.raise_error(F.lit(NEW)).cast("string"))

    def _id(self, side: str) -> Column:
        from pyspark.sql import functions as F

        found = F.lit(None).cast("int")
        case: Any = F
        for key, entry in self._sides[side].entries.items():
            if entry.schema is not None and entry.schema.id is not None:
                case = case.when(F.col(NAME.format(side)) == key, F.lit(entry.schema.id))
        return found if case is F else case

    def _settle(self, batch: DataFrame, number: int) -> bool:
        """Learn and keep what a batch brings; whether that was anything."""
        before = {name: side.lasting() for name, side in self._sides.items()}
        now = dict(before)
        for side, spec in self.specs.items():
            if spec.by_id:
                for name in distinct(batch, side):
                    if name not in now[side].entries:
                        now[side] = self._learned(batch, side, now[side], name, self._fetch(side, name))
            elif side in self._only:
                now[side] = self._learned(batch, side, now[side], ONLY, self._only.pop(side))
        self._sides = now
        if now == before:
            return False
        self.ids.save(self._generation, number, before, now)
        return True

    def _learned(self, batch: DataFrame, side: str, now: Side, name: str, schema: RegisteredSchema | None) -> Side:
        """The side with a schema; where the table can have no column for it, with that as its problem."""
        known = f"schema GUID {uuid.UUID(name)}" if len(name) == 32 else f"schema id {name}"
        if schema is None:
            logger.warning("schema is unknown to the registry", topic=self.topic, side=side, schema=name)
            return now.with_entry(name, Entry(problem=f"{known} is unknown", is_unknown=True), now.column)
        what = "the schema" if schema.id is None else f"schema {schema.id}"
        wanted = self.specs[side].kind
        if schema.kind != wanted:
            return now.with_entry(name, Entry(problem=f"{what} is of type {schema.kind}, not {wanted}"), now.column)
        try:
            decoder = decoder_of(schema)
            column = self._column(side, now.column, decoder.column)
            if wanted != PROTOBUF:
                _check(batch, cast(ColumnDecoder, decoder), column)
        except (NoColumn, LakeError) as error:
            why = error.message if isinstance(error, LakeError) else str(error)
            if name == ONLY:
                raise LakeError(f"topic {self.topic}: {what} has no column for {side}s: {why}") from None
            logger.warning("schema does not fit the table", topic=self.topic, side=side, schema=name, error=why)
            return now.with_entry(name, Entry(problem=f"{what} does not fit the table: {why}"), now.column)
        logger.info("schema", topic=self.topic, side=side, schema=name, column=column.simpleString()[:1000])
        return now.with_entry(name, Entry(schema), column)

    def _column(self, side: str, column: DataType | None, new: DataType) -> DataType:
        from pyspark.sql.types import StructField, StructType

        if self.by_key and side == KEY and schemas.has_map(new):
            raise NoColumn("a map in it, and the keys of rows are compared, which maps cannot be")
        if column is not None:
            new = union(column, new, self.table_format if self._has_table else None)
        around = StructType([StructField("value", new)])
        schemas.check_names(self.topic, around, self.table_format)
        schemas.check_types(self.topic, around, self.table_format)
        return new

    def _fetch(self, side: str, name: str) -> RegisteredSchema | None:
        """The schema that records name so. Waits for a registry that is away. Raises LakeError."""
        spec = self.specs[side]
        subject = spec.subject_of(self.topic, side)
        for attempt in range(1_000_000):
            try:
                registry = self._registry()
                is_guid = len(name) == 32
                found = registry.by_guid(str(uuid.UUID(name))) if is_guid else registry.by_id(int(name), subject)
                return None if found is None else replace(found, message=spec.message)
            except RegistryAway as error:
                pause = min(LONGEST_PAUSE_S, 0.5 * 2.0 ** min(attempt, 10))
                logger.warning("registry is away; waiting", topic=self.topic, error=str(error), retry_in_seconds=pause)
                if self.stopping.wait(pause):
                    raise
            except SchemaError as error:
                raise LakeError(f"topic {self.topic}: {error}") from None
        raise RuntimeError("unreachable")

    def _registry(self) -> Registry:
        if self.registry is None:
            raise RuntimeError("there are only schemas of files")
        return self.registry

    def _ask_latest(self) -> None:
        """Look up the schemas that all records have. Raises LakeError, RegistryAway."""
        self._asked = time.monotonic()
        for side, spec in self.specs.items():
            if spec.by_id:
                continue
            found = schema_of_file(self.topic, spec) if spec.file else self._latest(side, spec)
            known = self._sides[side].entries.get(ONLY)
            if known is None or known.schema != found:
                self._only[side] = found

    def _latest_changed(self) -> bool:
        """Whether records have another schema from now on; a registry that is away has the one that it had."""
        if not self._only and time.monotonic() - self._asked > LATEST_SECONDS:
            try:
                self._ask_latest()
            except RegistryAway as error:
                logger.warning("registry is away; its latest schemas stay what they were", error=str(error))
        return bool(self._only)

    def _latest(self, side: str, spec: RegisteredSpec) -> RegisteredSchema:
        subject = spec.subject_of(self.topic, side)
        try:
            found = self._registry().latest(subject)
        except RegistryAway:
            raise
        except SchemaError as error:
            raise LakeError(f"topic {self.topic}: {error}") from None
        if found is None:
            raise LakeError(f"topic {self.topic}: the registry has no subject {subject}")
        return replace(found, message=spec.message)


def _check(batch: DataFrame, decoder: ColumnDecoder, column: DataType) -> None:
    """Raises NoColumn if Spark would not take a schema; a plan that it refuses could write no record of the topic."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    from odradek_pipeline.reasons import reason

    try:
        shown = batch.select(decoder.decoded(F.col("value"), column, "").alias("it")).schema["it"].dataType
    except PySparkException as error:
        raise NoColumn(f"Spark cannot read it: {reason(error)}") from None
    found = shown["value"].dataType if isinstance(shown, StructType) else shown
    if found.simpleString() != column.simpleString():
        raise NoColumn(f"Spark reads it as {found.simpleString()[:500]}")


def _misfit(entry: Entry) -> str:
    if entry.schema is None or entry.schema.id is None:
        return "does not fit the schema"
    return f"does not fit schema {entry.schema.id}"


def _nothing() -> Column:
    """Decoded, where no record can be."""
    from pyspark.sql import functions as F

    return F.lit(None).cast(f"struct<value:string,problem:string,unknown:array<string>,kept:{unknown.MAP}>")

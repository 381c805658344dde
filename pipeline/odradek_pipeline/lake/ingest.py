"""How one topic gets into its tables: what all formats share."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from odradek_pipeline.files import Files
from odradek_pipeline.kafka import Admin
from odradek_pipeline.lake import envelope, partitioning, records, schemas, widening
from odradek_pipeline.lake.naming import LakeError
from odradek_pipeline.lake.partitioning import BY_DATE, UNDIVIDED, Partitioning
from odradek_pipeline.lake.schema_ids import SchemaIds
from odradek_pipeline.lake.settings import ICEBERG, LakeSettings
from odradek_pipeline.lake.state import Checkpoint, TopicState, new_state

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from odradek_pipeline.lake.registered import RegisteredTopic
    from odradek_pipeline.registry import Registry

logger = structlog.get_logger(__name__)

RECORDS = "records"
REGISTERED = "registered"
MOST_NAMES = 100
"""So many unknown fields of a topic are named; where keys are data, there is no end of them."""


@dataclass(frozen=True, slots=True)
class IngestServices:
    """The services that the ingests of a job share.

    `counted` is called for each batch: topic, records, dead letters among them, records with unknown fields, and how
    many have each of these by name.
    """

    spark: SparkSession
    files: Files
    admin: Admin
    settings: LakeSettings
    counted: Callable[[str, int, int, int, Mapping[str, int]], None]
    registry: Registry | None = None


class Ingest(ABC):
    """A topic's run. Call `prepare` before every `start`; both raise LakeError for what only the user can fix.

    `appeared_later`: the topic was created while the job ran, so all of its records came after the job's start.
    `upsert`: the table has one row a key.
    """

    upsert = False

    def __init__(self, around: IngestServices, topic: str) -> None:
        self.topic = topic
        self.failure: LakeError | None = None
        self.appeared_later = False
        self._around = around
        self._settings = around.settings
        self._checkpoint = Checkpoint(around.files, around.settings.checkpoint(topic))
        self._state: TopicState | None = None
        self._named: list[str] = []
        self._inferred_again = False
        self._stopping = threading.Event()
        self._registered = self._registered_topic()
        self._divided: Partitioning = BY_DATE

    @abstractmethod
    def start(self) -> list[StreamingQuery]:
        """Start the topic's queries; the progress of the first one is the topic's."""

    @abstractmethod
    def _table_exists(self) -> bool: ...

    @abstractmethod
    def progressed(self, part: int, progress: StreamingQueryProgress) -> None:
        """Called for every batch of the `part`-th query."""

    def prepare(self) -> bool:
        """Settle topic id and schema. False if there is no record yet from which to infer a schema."""
        topic_id = self._topic_id()
        state = self._checkpoint.load()
        if state is None and self._table_exists():
            raise LakeError(
                f"topic {self.topic}: its table exists, but {self._checkpoint.folder} does not know what is in it. "
                "Give the --checkpoints it was written with, or another --lake"
            )
        schema = self._resolve_schema(state)
        if schema == {}:
            return False
        self._divided = self._division(state, schema)
        if state is None:
            made = new_state(self.topic, topic_id, self._settings.table_format, schema)
            kept_in = self._settings.unknown_fields
            by = partitioning.text_of(self._divided)
            state = replace(made, partitioning=by, upsert=self.upsert, unknown_fields=kept_in)
            self._checkpoint.save(state)
        else:
            state = self._carry_on(state, topic_id, schema)
        self._state = state
        self.failure = None
        self._stopping.clear()
        if self._registered is not None:
            self._registered.begin(state.generation, self._checkpoint.last_planned(state), self._table_exists())
        return True

    def stop(self) -> None:
        """End what the topic's queries wait for, if they wait for a registry; they are stopped next."""
        self._stopping.set()

    def _registered_topic(self) -> RegisteredTopic | None:
        """None if no part of the records has schemas of a registry."""
        specs = self._settings.registered(self.topic)
        if not specs:
            return None
        from odradek_pipeline.lake.registered import RegisteredTopic

        registry = self._around.registry
        ids = SchemaIds(self._around.files, self._settings.checkpoint(self.topic))
        keeps = bool(self._settings.unknown_fields)
        kind = self._settings.table_format
        return RegisteredTopic(self.topic, specs, registry, ids, kind, self._stopping, keeps, self.upsert)

    def check_topic(self, topic_id: str | None) -> None:
        """Raises LakeError unless this is the id of the topic that the run began with."""
        if self._state is None or topic_id == self._state.topic_id:
            return
        what = "was deleted" if topic_id is None else "was deleted and recreated, so its offsets mean other records"
        raise LakeError(
            f"topic {self.topic} {what}. What the table has of it stays; with --follow-recreated a new start reads "
            "the new topic from its beginning into the same table"
        )

    @property
    def state(self) -> TopicState:
        if self._state is None:
            raise RuntimeError("prepare() comes first")
        return self._state

    def _topic_id(self) -> str:
        found = self._around.admin.topic_ids([self.topic]).get(self.topic)
        if found is None:
            raise LakeError(f"topic {self.topic} does not exist")
        return found

    def _carry_on(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> TopicState:
        if state.topic != self.topic or state.table_format != self._settings.table_format:
            raise LakeError(f"{self._checkpoint.folder} is of topic {state.topic} in format {state.table_format}")
        if self._checkpoint.last_committed(state) >= 0 and not self._table_exists():
            raise LakeError(
                f"topic {self.topic}: its table is gone, but {self._checkpoint.folder} says that it was written; "
                "remove that folder too to begin again"
            )
        if state.topic_id != topic_id and not self._settings.follow_recreated:
            self._state = state
            self.check_topic(topic_id)
        if state.upsert != self.upsert:
            has = "one row a key: give --upsert" if state.upsert else "every record, and cannot become one by --upsert"
            raise LakeError(f"topic {self.topic}: its table has {has}, or another --lake")
        if schema != state.newest_schema:
            self._check_change(state, schema)
        before = state
        if state.topic_id != topic_id:
            state = self._follow(state, topic_id, schema)
        elif schema != state.newest_schema:
            state = state.with_schema(schema, self._checkpoint.last_planned(state) + 1)
        if (text := partitioning.text_of(self._divided)) != state.partitioning:
            if self._table_exists():
                self._divide_anew(state.partitioning)
            state = replace(state, partitioning=text)
        if state != before:
            self._checkpoint.save(state)
        return state

    def _division(self, state: TopicState | None, schema: dict[str, object] | None) -> Partitioning:
        """How the table is, or is to be, divided; rows by key are not unless asked: dates change."""
        from pyspark.sql.types import StructType

        given = self._settings.partitioning(self.topic)
        if given is None and state is not None:
            return partitioning.from_text(state.partitioning)
        if given is None:
            return UNDIVIDED if self.upsert else BY_DATE
        value = None if schema is None or REGISTERED in schema else StructType.fromJson(schema)
        later = self._settings.registered(self.topic)
        partitioning.check(self.topic, given, records.columns(value), self._settings.table_format == ICEBERG, later)
        return given

    def _divide_anew(self, before: str) -> None:
        """Divide the table, which exists, in the new way. Raises LakeError where a format cannot."""
        raise LakeError(
            f"topic {self.topic}: its table is divided by {before or 'nothing'}, and only an Iceberg table can change "
            "that: leave out --partition-by, or give another --lake"
        )

    def _follow(self, state: TopicState, topic_id: str, schema: dict[str, object] | None) -> TopicState:
        logger.warning("topic was recreated; reading it from its beginning", topic=self.topic, topic_id=topic_id)
        return state.next_generation(topic_id, schema)

    def _check_change(self, state: TopicState, schema: dict[str, object] | None) -> None:
        if _sort(schema) != _sort(state.newest_schema):
            raise LakeError(
                f"topic {self.topic}: its table has {_sort(state.newest_schema)} and cannot change to {_sort(schema)}"
            )
        from pyspark.sql.types import StructType

        for earlier in state.schemas:
            if earlier.schema is not None and schema is not None and REGISTERED not in schema:
                before, now = StructType.fromJson(earlier.schema), StructType.fromJson(schema)
                schemas.check_evolution(self.topic, before, now, self._settings.table_format)
        logger.info("schema changed", topic=self.topic)

    def _resolve_schema(self, state: TopicState | None) -> dict[str, object] | None:
        """The schema's JSON; None for raw bytes; empty if it is to be inferred and there is no record yet.

        Of schemas of a registry it is only told which parts have them: what they are is kept by `schema_ids`.
        """
        spec = schemas.spec_of(self._settings.specs, self.topic)
        registered = self._settings.registered(self.topic)
        if registered:
            if spec.json:
                raise LakeError(f"topic {self.topic}: with --key-schema, its --schema is raw or a registry's, not json")
            return {REGISTERED: " and ".join(f"{side}s" for side in sorted(registered))}
        if not spec.json:
            return None
        if spec.inferred and state is not None and state.newest_schema is not None:
            return self._grown(state.newest_schema)
        struct = self._inferred(self._sample()) if spec.inferred else schemas.declared_struct(spec)
        if struct is None:
            return {}
        schema = schemas.as_json(struct)
        if state is None or schema != state.newest_schema:  # otherwise the table has these already, so it can have them
            schemas.check_names(self.topic, struct, self._settings.table_format)
            schemas.check_types(self.topic, struct, self._settings.table_format)
        return schema

    def _inferred(self, sample: DataFrame) -> StructType | None:
        struct = schemas.infer(self._around.spark, sample)
        if struct is not None and envelope.has_one(self._settings.envelopes, self.topic):
            return envelope.within(struct)
        return struct

    def _grown(self, before: dict[str, object]) -> dict[str, object]:
        """The inferred schema with the fields that the newest records have besides, once in a run of the job."""
        from pyspark.sql.types import StructType

        if not self._settings.infer_again or self._inferred_again:
            return before
        self._inferred_again = True
        first, last = self._around.admin.offsets(self.topic)
        ends = spread(first, last, self._settings.infer_records)
        newest = {partition: last[partition] - (ends[partition] - first[partition]) for partition in first}
        found = self._inferred(self._range(newest, last))
        if found is None:
            return before
        old = StructType.fromJson(before)
        new = widening.grown(old, found, self._settings.table_format)
        if new.simpleString() == old.simpleString():
            return before
        try:
            schemas.check_names(self.topic, new, self._settings.table_format)
            schemas.check_types(self.topic, new, self._settings.table_format)
        except LakeError as error:
            logger.warning("the schema stays as it is", topic=self.topic, reason=error.message)
            return before
        logger.info("schema inferred again", topic=self.topic, schema=new.simpleString()[:1000])
        return new.jsonValue()

    def _sample(self) -> DataFrame:
        """The first records of every partition, `--infer-records` in all if there are as many.

        Offsets may have gaps, from compaction for instance; then more of them are read.
        """
        first, last = self._around.admin.offsets(self.topic)
        wanted = self._settings.infer_records
        while True:
            ends = spread(first, last, wanted)
            sample = self._range(first, ends)
            if ends == last or sample.count() >= self._settings.infer_records:
                return sample
            wanted *= 8

    def _range(self, start: Mapping[int, int], end: Mapping[int, int]) -> DataFrame:
        """The records of the topic between offsets."""
        reader = self._around.spark.read.format("kafka").options(**self._settings.cluster.connector_options())
        reader = reader.option("startingOffsets", json.dumps({self.topic: start}))
        reader = reader.option("endingOffsets", json.dumps({self.topic: end}))
        return reader.option("subscribe", self.topic).option("failOnDataLoss", "false").load()

    def _name_unknown(self, judged: DataFrame) -> dict[str, int]:
        """Log the unknown fields that were not named before; how many records have each."""
        found = records.unnamed_counts(judged, self._named, MOST_NAMES - len(self._named))
        if found:
            self._named += found
            where = self._settings.unknown_fields
            what = f"kept in column {where}" if where else "left out"
            logger.warning(f"fields that the schema does not name are {what}", topic=self.topic, fields=found)
        return found

    def _good(self, judged: DataFrame, *more: Column) -> DataFrame:
        """The rows of the good records."""
        return records.good_rows(judged, *more, kept_in=self._settings.unknown_fields)

    def lost(self) -> str | None:
        """Which offsets that are still to be read are gone from the broker; None if they are all there.

        Spark's queries only tell it in words, which change from version to version.
        """
        first, last = self._around.admin.offsets(self.topic)
        for part in self.parts:
            wanted = self._checkpoint.next_offsets(self.state, part).get(self.topic)
            if wanted is None:
                continue
            for partition in sorted(first):
                offset = wanted.get(partition, 0)
                if offset < first[partition]:
                    return (
                        f"partition {partition} begins at offset {first[partition]}, and {offset} is the next to read"
                    )
                if offset > last[partition]:
                    return f"partition {partition} ends at offset {last[partition]}, and {offset} is the next to read"
        return None

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the topic's queries, by which their checkpoints are told apart."""
        return (RECORDS,)

    def _stream(self) -> DataFrame:
        settings = self._settings
        reader = self._around.spark.readStream.format("kafka").options(**settings.cluster.connector_options())
        reader = reader.option("subscribe", self.topic).option("maxOffsetsPerTrigger", settings.max_offsets)
        reader = reader.option("failOnDataLoss", str(not settings.allow_data_loss).lower())
        whole = self.appeared_later or self.state.generation
        reader = reader.option("startingOffsets", "earliest" if whole else settings.starting)
        if settings.min_partitions is not None:
            reader = reader.option("minPartitions", settings.min_partitions)
        return reader.load()

    def _triggered(self, writer: DataStreamWriter, part: str) -> DataStreamWriter:
        writer = writer.queryName(f"{self.topic} {part}")
        writer = writer.option("checkpointLocation", self._checkpoint.spark_folder(self.state, part))
        if self._settings.available_now:
            return writer.trigger(availableNow=True)
        return writer.trigger(processingTime=f"{round(self._settings.interval * 1000)} milliseconds")

    def _struct(self, batch: int) -> StructType | None:
        from pyspark.sql.types import StructType

        schema = self.state.schema_of(batch)
        return None if schema is None else StructType.fromJson(schema)

    def _judged(self, batch: DataFrame, number: int) -> DataFrame | None:
        """The records of a batch with what is wrong with them (`records`); None where nothing can be."""
        if self._registered is not None:
            return self._registered.judged(records.raw_judged(batch))
        struct = self._struct(number)
        return None if struct is None else records.json_judged(batch, struct, bool(self._settings.unknown_fields))


def _sort(schema: Mapping[str, object] | None) -> str:
    """In words, what a table has."""
    if schema is None:
        return "raw values"
    if REGISTERED in schema:
        return f"a registry's schemas for {schema[REGISTERED]}"
    return "parsed JSON values"


def spread(first: Mapping[int, int], last: Mapping[int, int], wanted: int) -> dict[int, int]:
    """Where to end in each partition to have so many offsets in all; those with fewer leave more for the others."""
    ends = {}
    for left, partition in enumerate(sorted(first, key=lambda partition: last[partition] - first[partition])):
        share = min(last[partition] - first[partition], -(-wanted // (len(first) - left)))
        ends[partition] = first[partition] + share
        wanted -= share
    return ends

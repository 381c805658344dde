"""Checks of the batches of a Produce request, by themselves and as a log would store them.

Large batches are checked in worker threads, since decompressing, walking and compressing them may take more than 5 ms:
only a few at once, in the order in which they came, as the checks that are written in Python share the interpreter's
lock with the loop. How much of them is in memory is bounded by `protocol.records.walk`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker.replication.partition import Partition
from protocol.errors import (
    InvalidRequest,
    KafkaError,
    RecordError,
    TransactionalIdAuthorization,
    UnsupportedCompressionType,
)
from protocol.produce_fetch.parts import TopicKey
from protocol.produce_fetch.produce_messages import PartitionRecords, ProduceRequest
from protocol.records.batch import ATTRIBUTES_LOW_AT, COMPRESSION_MASK, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin
from storage.log.validator import Validated, first_batch_size, single_batch_size, validate
from storage.workers import Workers

FIRST_VERSION_WITH_ZSTD = 7
NOTHING = memoryview(b"")


def first_compression(records: memoryview) -> int:
    """The codec's id in the first whole batch of magic 2; 0 without one."""
    if first_batch_size(records) and records[MAGIC_AT] == MAGIC:
        return records[ATTRIBUTES_LOW_AT] & COMPRESSION_MASK
    return 0


def check_records(version: int, records: memoryview) -> None:
    """Check one partition's data by itself. A log would refuse it as well, except for zstd.

    Raises UnsupportedCompressionType for zstd in a version that does not have it, and what `single_batch_size` does.
    """
    if version < FIRST_VERSION_WITH_ZSTD and first_compression(records) == Compression.ZSTD:
        raise UnsupportedCompressionType
    single_batch_size(records)


def malformed(version: int, records: memoryview | None) -> KafkaError | None:
    try:
        check_records(version, records or NOTHING)
    except KafkaError as error:
        return error
    return None


def distinct(request: ProduceRequest) -> list[tuple[TopicKey, list[PartitionRecords]]]:
    """The request's partitions, by topics that are named once. Raises InvalidRequest for a partition named twice."""
    topics = request.topics
    if len(topics) == 1 and 0 < len(topics[0][1]) == len(dict(topics[0][1])):
        return topics
    merged: dict[TopicKey, dict[int, memoryview | None]] = {}
    for key, partitions in topics:
        known = merged.setdefault(key, {}) if partitions else {}
        for index, records in partitions:
            if index in known:
                raise InvalidRequest(f"Partition {index} of topic {key} is named twice.")
            known[index] = records
    return [(key, list(partitions.items())) for key, partitions in merged.items()]


AT_ONCE = 2


class SchemaCheckError(RecordError):
    """It cannot be said whether records name the right schemas; the client is told why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message, on_wire=True)
        self.code = code  # type: ignore[misc]


class SchemaCheck(Protocol):
    """Knows the schemas that records may name (`broker/registry/validation.py`)."""

    async def wrong_schemas(self, topic: str, batch: memoryview) -> KafkaError | None:
        """What is wrong with the schemas of a batch, or that they cannot be read."""


class LargeBatches:
    """Validates batches for partitions in worker threads; `schemas` is there where the node has a schema registry."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers.lane("large batches")
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.schemas: SchemaCheck | None = None

    async def validate(self, partition: Partition, batch: memoryview, now_ms: int) -> Validated:
        """The batch as the partition stores it under the configuration that it has when this returns.

        Raises what `storage.log.validator.validate` does, and InvalidRecord for records that name wrong schemas. Other
        appends go on meanwhile: whatever depends on the log's state is checked when this is over.
        """
        wrong = await self._wrong_schemas(partition.topic, batch) if partition.log.config.validates_schemas else None
        async with self._turn:
            while True:
                config = partition.log.config
                check = partial(validate, batch, config, AppendOrigin.CLIENT, now_ms, partition.log.name)
                validated = await self._workers.call(check)
                if partition.log.config is config:
                    break
        if wrong is not None:  # what every topic refuses has been raised before
            raise wrong
        return validated

    async def _wrong_schemas(self, topic: str, batch: memoryview) -> KafkaError | None:
        if self.schemas is None:
            why = "validates schemas, and this broker has no schema registry: set schema.registry.listeners"
            return SchemaCheckError(ErrorCode.invalid_config, f"The topic {topic} {why}.")
        return await self.schemas.wrong_schemas(topic, batch)


def transactional_id_of(request: ProduceRequest) -> str | None:
    """The transactional id if a batch is transactional; what fails the request as a whole is found here.

    No partition has been looked at. Raises CorruptMessage if a partition's data starts with what cannot be a batch,
    TransactionalIdAuthorization if a batch is transactional and the request names no transactional id.
    """
    for _, partitions in request.topics:
        for _, records in partitions:
            if records is None or not first_batch_size(records):
                continue
            if records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG and records[MAGIC_AT] == MAGIC:
                if request.transactional_id is None:
                    raise TransactionalIdAuthorization
                return request.transactional_id  # Kafka looks for one such batch, and for nothing after it
    return None

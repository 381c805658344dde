"""The log as a CoordinatorContext sees it. The broker has an adapter for a partition; tests have one in memory.

A coordinator's records as batches, the way Kafka's CoordinatorRuntime writes them.

Replays a log into a state machine (Kafka's CoordinatorLoaderImpl).
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from coordinator.runtime.coordinator_shard import CoordinatorShard, RecordRow
from coordinator.runtime.outcome import NO_PRODUCER, CoordinatorRecord, Position, ProducerEpoch
from protocol.coordinator_records.record_schema import record_id
from protocol.errors import KafkaError
from protocol.primitives import INT16, Buffer
from protocol.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    read_header,
)
from protocol.records.build import (
    ControlRecordType,
    EndTransactionMarker,
    Record,
    build_end_marker,
    encode_record,
    iter_records,
    pack_batch,
    read_end_marker,
)
from protocol.records.compression import Compression

if TYPE_CHECKING:
    from timing.clock import Clock


Unlisten = Callable[[], None]


class LogPort(Protocol):
    """One internal partition, led by this node."""

    @property
    def high_watermark(self) -> int:
        """The high watermark: nothing below it can be lost."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that can be appended."""

    def append(self, batch: bytearray) -> int:
        """Append one whole batch, and return the offset of its first record; never awaits.

        Raises KafkaError, and then nothing of it is in the log.
        """

    def listen(self, advanced: Callable[[int], None], failed: Callable[[KafkaError], None]) -> Unlisten:
        """Call `advanced` with the high watermark as it rises (even during an append), `failed` if it never will."""

    def batches(self) -> AsyncIterator[bytes | bytearray | memoryview]:
        """The log from its start to its present end, in pieces of whole batches. Raises KafkaError."""


_MOST_BYTES_BESIDE_KEY_AND_VALUE = 32
"""A record's other fields, as varints at their longest: size 5, attributes 1, timestamp delta 10, offset delta 5, key
and value size 5 each, number of headers 1."""

KeyAndValue = tuple[bytes, bytes | None]


def encode_batches(
    records: Sequence[CoordinatorRecord],
    now_ms: int,
    producer: ProducerEpoch | None,
    compression: Compression,
    limit: int | None,
    base_sequence: int = 0,
) -> list[tuple[bytearray, Sequence[CoordinatorRecord]]]:
    """(batch, its records) pairs: one, or with `limit` as many as needed to keep each batch within that many bytes.

    A single record that is larger gets a batch of its own. `base_sequence` goes into every batch, and nobody checks it
    (AppendOrigin.COORDINATOR).
    """
    encoded = [
        (schema.encode_key(key), None if value is None else schema.encode_value(value))
        for schema, key, value in records
    ]
    if limit is None:
        return [(_batch(encoded, now_ms, producer, compression, base_sequence), records)]
    batches = []
    first = 0
    for end in _ends(encoded, limit):
        batch = _batch(encoded[first:end], now_ms, producer, compression, base_sequence)
        batches.append((batch, records[first:end]))
        first = end
    return batches


def _ends(encoded: Sequence[KeyAndValue], limit: int) -> Iterator[int]:
    size = HEADER_SIZE
    for index, (key, value) in enumerate(encoded):
        more = len(key) + len(value or b"") + _MOST_BYTES_BESIDE_KEY_AND_VALUE
        if size + more > limit and size > HEADER_SIZE:
            yield index
            size = HEADER_SIZE
        size += more
    yield len(encoded)


def _batch(
    encoded: Sequence[KeyAndValue],
    now_ms: int,
    producer: ProducerEpoch | None,
    compression: Compression,
    base_sequence: int,
) -> bytearray:
    producer_id, producer_epoch = producer or NO_PRODUCER
    return pack_batch(
        b"".join([encode_record(delta, 0, key, value) for delta, (key, value) in enumerate(encoded)]),
        len(encoded),
        last_offset_delta=len(encoded) - 1,
        attributes=0 if producer is None else TRANSACTIONAL_FLAG,
        compression=compression,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_end_marker(producer: ProducerEpoch, coordinator_epoch: int, committed: bool, now_ms: int) -> bytearray:
    """The control batch that ends the producer's transaction (Kafka's EndTransactionMarker); `now_ms` is wall time."""
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return build_end_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp=now_ms,
    )


logger = structlog.get_logger(__name__)

TURN_MS = 5.0
"""How long a log is replayed before the event loop gets a turn."""

RECORDS_A_STEP = 200


async def replay_log(
    log: LogPort, rows: Mapping[int, RecordRow], state: CoordinatorShard, name: str, clock: Clock
) -> int:
    """Replay a log; return the number of records. Raises KafkaError from the log, ValueError for malformed records."""
    replay = LogReplay(rows, state, name)
    began_ms = clock.monotonic_ms()
    async for piece in log.batches():
        for _ in replay.steps(piece):
            if clock.monotonic_ms() - began_ms > TURN_MS:
                await clock.sleep(0)
                began_ms = clock.monotonic_ms()
    return replay.records


class LogReplay:
    """Replays the batches of one log, in order. `records` counts them.

    Of consecutive values under one key, only the last is decoded and replayed where the record type allows it
    (`RecordRow.last_value_counts`): a log of a million commits of few offsets is read in a fraction of the time.
    """

    def __init__(self, rows: Mapping[int, RecordRow], state: CoordinatorShard, name: str) -> None:
        self.records = 0
        self._rows = rows
        self._state = state
        self._name = name
        self._held_types = {INT16.pack(number) for number, row in rows.items() if row.last_value_counts}
        self._held: dict[bytes, Record] = {}

    def steps(self, piece: Buffer) -> Iterator[None]:
        """Replay a piece of whole batches, at most a few hundred records in each step."""
        held, held_types = self._held, self._held_types
        at = 0
        while at < len(piece):
            header = read_header(piece, at)
            is_plain = not header.attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
            for number, record in enumerate(iter_records(piece, header, at), 1):
                key = record.key
                if is_plain and key and record.value is not None and (key in held or key[:2] in held_types):
                    held[key] = record
                else:
                    yield from self._release()
                    self._replay(record, header)
                if not number % RECORDS_A_STEP:
                    yield
            self.records += header.record_count
            at += header.size
            yield
        yield from self._release()

    def _release(self) -> Iterator[None]:
        """Replay the values held back, in the order in which their keys came."""
        for number, record in enumerate(self._held.values(), 1):
            self._replay_record(record)
            if not number % RECORDS_A_STEP:
                yield
        self._held.clear()

    def _replay(self, record: Record, header: BatchHeader) -> None:
        if header.is_control:
            self._replay_control(record, header)
        elif header.is_transactional:
            self._replay_record(record, header.producer_id, header.producer_epoch)
        else:
            self._replay_record(record)

    def _replay_control(self, record: Record, header: BatchHeader) -> None:
        marker = read_end_marker(record)
        if marker is not None:
            committed = marker.type is ControlRecordType.COMMIT
            self._state.replay_end_marker(header.producer_id, header.producer_epoch, committed)

    def _replay_record(self, record: Record, producer_id: int = NO_PRODUCER_ID, producer_epoch: int = -1) -> None:
        """Replay a record; skip one of unknown type, so that an older broker can read a newer one's log (KIP-915)."""
        if record.key is None:
            raise ValueError(f"a record of {self._name} at offset {record.offset} has no key")
        try:
            row = self._rows.get(record_id(record.key))
        except struct.error as error:
            raise ValueError(f"the key of the record of {self._name} at offset {record.offset} is too short") from error
        if row is None:
            logger.warning("record of unknown type skipped", shard=self._name, offset=record.offset)
            return
        schema = row.schema
        value = None if record.value is None else schema.decode_value(record.value)
        key = schema.decode_key(record.key)
        row.replay(self._state, key, value, Position(record.offset, producer_id, producer_epoch))

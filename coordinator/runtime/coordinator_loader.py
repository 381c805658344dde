"""Replays a log into a state machine (Kafka's CoordinatorLoaderImpl)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import structlog

from coordinator.runtime.coordinator_shard import CoordinatorShard, RecordRow
from coordinator.runtime.outcome import Position
from protocol.coordinator_records.record_schema import record_id
from protocol.primitives import INT16, Buffer
from protocol.records.batch import CONTROL_FLAG, NO_PRODUCER_ID, TRANSACTIONAL_FLAG, BatchHeader, read_header
from protocol.records.build import ControlRecordType, Record, iter_records, read_end_marker

if TYPE_CHECKING:
    from coordinator.runtime.log_port import LogPort
    from timing.clock import Clock

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

"""Replays a log into a state machine (Kafka's CoordinatorLoaderImpl)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog

from coordinator.runtime.outcome import Position
from coordinator.runtime.state_machine import RecordRow, StateMachine
from protocol.internal.schema import record_id
from protocol.primitives import Buffer
from protocol.records.batch import NO_PRODUCER_ID, BatchHeader, read_header
from protocol.records.build import Record, iter_records
from protocol.records.markers import ControlRecordType, read_end_marker

if TYPE_CHECKING:
    from coordinator.runtime.log_port import LogPort

logger = structlog.get_logger(__name__)


async def replay_log(log: LogPort, rows: Mapping[int, RecordRow], state: StateMachine, name: str) -> int:
    """The number of records replayed. Raises KafkaError from the log, and ValueError for malformed records."""
    count = 0
    async for piece in log.batches():
        count += replay_batches(piece, rows, state, name)
    return count


def replay_batches(piece: Buffer, rows: Mapping[int, RecordRow], state: StateMachine, name: str) -> int:
    """Replays a piece of whole batches; the number of their records."""
    at = count = 0
    while at < len(piece):
        header = read_header(piece, at)
        for record in iter_records(piece, header, at):
            if header.is_control:
                _replay_control(record, header, state)
            else:
                _replay_record(record, header, rows, state, name)
        count += header.record_count
        at += header.size
    return count


def _replay_control(record: Record, header: BatchHeader, state: StateMachine) -> None:
    marker = read_end_marker(record)
    if marker is not None:
        state.replay_end_marker(header.producer_id, header.producer_epoch, marker.type is ControlRecordType.COMMIT)


def _replay_record(
    record: Record, header: BatchHeader, rows: Mapping[int, RecordRow], state: StateMachine, name: str
) -> None:
    """A record of unknown type is skipped, so that an older broker can read a newer one's log (KIP-915)."""
    if record.key is None:
        raise ValueError(f"a record of {name} at offset {record.offset} has no key")
    try:
        row = rows.get(record_id(record.key))
    except struct.error as error:
        raise ValueError(f"the key of the record of {name} at offset {record.offset} is too short") from error
    if row is None:
        logger.warning("record of unknown type skipped", shard=name, offset=record.offset)
        return
    schema = row.schema
    value = None if record.value is None else schema.decode_value(record.value)
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    row.replay(state, schema.decode_key(record.key), value, Position(record.offset, producer_id, header.producer_epoch))

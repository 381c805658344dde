"""The records of `__share_group_state` (KIP-932): a snapshot of a share partition, and updates of it since.

Each type has one version. Both values are flexible, their keys are not.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple
from uuid import UUID

from ..primitives import INT16, INT32
from . import fields
from .fields import NO_TAGS, FieldReader
from .record_schema import RecordSchema

SHARE_SNAPSHOT_ID = 0
SHARE_UPDATE_ID = 1

UNKNOWN_COUNT = -1
NO_START_OFFSET = -1

_VERSION = INT16.pack(0)
_SNAPSHOT_START = Struct(">iiiqqq")
_UPDATE_START = Struct(">iiq")
_BATCH = Struct(">qqbh")
_COMPLETE_COUNT_TAG = 0


class SharePartitionKey(NamedTuple):
    """A partition as a share group sees it."""

    group_id: str
    topic_id: UUID
    partition: int


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, both inclusive, in one state.

    States: 0 available, 2 acknowledged, 3 archiving, 4 archived.
    """

    first: int
    last: int
    state: int
    delivery_count: int


class ShareSnapshotValue(NamedTuple):
    """All that is known of a share partition. Times are milliseconds.

    `complete_count` is the number of offsets from the start offset on whose delivery is complete; -1 if not known.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...]
    complete_count: int = UNKNOWN_COUNT


class ShareUpdateValue(NamedTuple):
    """What has changed since the snapshot; `start_offset` is -1 if that has not."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]
    complete_count: int = UNKNOWN_COUNT


def _encode_key(record_id: int, key: SharePartitionKey) -> bytes:
    return INT16.pack(record_id) + fields.string(key.group_id) + key.topic_id.bytes + INT32.pack(key.partition)


def _read_key(data: bytes) -> SharePartitionKey:
    reader = FieldReader(data, 2)
    return SharePartitionKey(reader.string(), reader.uuid(), reader.int32())


def _encode_batches(batches: tuple[StateBatch, ...], complete_count: int) -> bytes:
    tags = {} if complete_count == UNKNOWN_COUNT else {_COMPLETE_COUNT_TAG: INT32.pack(complete_count)}
    encoded = fields.compact_array([_BATCH.pack(*batch) + NO_TAGS for batch in batches])
    return encoded + fields.tagged_fields(tags)


def _read_batches(reader: FieldReader) -> tuple[tuple[StateBatch, ...], int]:
    batches = tuple(_read_batch(reader) for _ in range(reader.array_size()))
    count = reader.tags().get(_COMPLETE_COUNT_TAG)
    return batches, UNKNOWN_COUNT if count is None else int(INT32.unpack(count)[0])


def _read_batch(reader: FieldReader) -> StateBatch:
    batch = StateBatch(reader.int64(), reader.int64(), reader.int8(), reader.int16())
    reader.tags()
    return batch


def _encode_snapshot(value: ShareSnapshotValue) -> bytes:
    start = _SNAPSHOT_START.pack(*value[:6])
    return _VERSION + start + _encode_batches(value.batches, value.complete_count)


def _read_snapshot(data: bytes) -> ShareSnapshotValue:
    epoch, state_epoch, leader_epoch, start_offset, created_ms, written_ms = _SNAPSHOT_START.unpack_from(data, 2)
    batches, count = _read_batches(FieldReader(data, 2 + _SNAPSHOT_START.size, flexible=True))
    return ShareSnapshotValue(epoch, state_epoch, leader_epoch, start_offset, created_ms, written_ms, batches, count)


def _encode_update(value: ShareUpdateValue) -> bytes:
    return _VERSION + _UPDATE_START.pack(*value[:3]) + _encode_batches(value.batches, value.complete_count)


def _read_update(data: bytes) -> ShareUpdateValue:
    epoch, leader_epoch, start_offset = _UPDATE_START.unpack_from(data, 2)
    batches, count = _read_batches(FieldReader(data, 2 + _UPDATE_START.size, flexible=True))
    return ShareUpdateValue(epoch, leader_epoch, start_offset, batches, count)


SHARE_SNAPSHOT: RecordSchema[SharePartitionKey, ShareSnapshotValue] = RecordSchema(
    name="ShareSnapshot",
    ids=(SHARE_SNAPSHOT_ID,),
    encode_key=lambda key: _encode_key(SHARE_SNAPSHOT_ID, key),
    read_key=_read_key,
    encode_value=_encode_snapshot,
    read_value={0: _read_snapshot},
)

SHARE_UPDATE: RecordSchema[SharePartitionKey, ShareUpdateValue] = RecordSchema(
    name="ShareUpdate",
    ids=(SHARE_UPDATE_ID,),
    encode_key=lambda key: _encode_key(SHARE_UPDATE_ID, key),
    read_key=_read_key,
    encode_value=_encode_update,
    read_value={0: _read_update},
)

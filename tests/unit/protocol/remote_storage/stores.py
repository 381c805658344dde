"""What each remote store is held to, whatever it is made of."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from protocol.remote_storage.segment import RemoteSegment, TopicIdPartition
from protocol.remote_storage.store import IndexKind, RemoteObjectMissingError, RemoteStore, SegmentData
from protocol.topic_partition import EpochEntry

PARTITION = TopicIdPartition("some-topic.a_b", UUID(int=7 << 64), 3)
LOG = bytes(range(256)) * 40
INDEXES = {
    IndexKind.OFFSET: b"o" * 16,
    IndexKind.TIMESTAMP: b"t" * 24,
    IndexKind.PRODUCER_SNAPSHOT: b"p" * 10,
    IndexKind.LEADER_EPOCH: b"0\n1\n0 0\n",
}
TRANSACTIONS = {**INDEXES, IndexKind.TRANSACTION: b"a" * 34}


def segment(number: int, start: int = 0) -> RemoteSegment:
    epochs = (EpochEntry(0, start),)
    return RemoteSegment(PARTITION, UUID(int=number << 64 | 1), start, start + 99, 1, 5, 6, epochs, len(LOG))


def data(indexes: dict[IndexKind, bytes] = INDEXES, log: bytes = LOG) -> SegmentData:
    return SegmentData(len(log), lambda size, position: log[position : position + size], indexes)


def check_store(store: RemoteStore) -> None:
    """Copy, read, list and delete."""
    store.check()
    assert list(store.objects()) == []
    first, second = segment(1), segment(2, 100)
    plain = replace(first, txn_index_empty=True)
    store.copy(first, data())
    store.copy(second, data(TRANSACTIONS))

    assert store.read(first, 0, len(LOG)) == LOG
    assert store.read(first, 1000, 77) == LOG[1000:1077]
    assert store.read(second, len(LOG) - 5, 100) == LOG[-5:]
    for kind, content in TRANSACTIONS.items():
        assert store.index(second, kind) == content
    with pytest.raises(RemoteObjectMissingError):
        store.index(first, IndexKind.TRANSACTION)

    found = list(store.objects())
    assert {one.name for one in found} == {*store.names(plain), *store.names(second)}
    assert {one.segment_id for one in found} == {first.id, second.id}
    assert {(one.topic_id, one.partition) for one in found} == {(PARTITION.topic_id, 3)}

    store.copy(first, data(log=LOG[:-1]))  # a copy that is made again replaces what there is
    assert store.read(first, 0, len(LOG) - 1) == LOG[:-1]

    store.delete(first)
    store.delete(first)
    store.delete(segment(3))
    with pytest.raises(RemoteObjectMissingError):
        store.read(first, 0, 10)
    assert {one.segment_id for one in store.objects()} == {second.id}
    store.delete(second)
    assert list(store.objects()) == []

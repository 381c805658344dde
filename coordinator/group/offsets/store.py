"""Committed offsets and those that wait for their transaction: the durable state, changed by replay alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coordinator.runtime.outcome import Position
from protocol.internal.group_records import OffsetCommitKey, OffsetCommitValue
from protocol.records.batch import NO_PRODUCER_ID

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    """A commit and where its record stands, which decides between commits inside and outside of transactions."""

    value: OffsetCommitValue
    record_offset: int


class OffsetStore:
    """Kafka's OffsetMetadataManager without its requests.

    Offsets by group, and inside by (topic, partition); pending ones by producer id first.
    """

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        self._open_transactions: dict[str, set[int]] = {}

    # -- reading

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        offsets = self._by_group.get(group)
        return None if offsets is None else offsets.get((topic, partition))

    def of_group(self, group: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._by_group.get(group, _NONE)

    def groups(self) -> Mapping[str, Mapping[TopicPartition, CommittedOffset]]:
        return self._by_group

    def __len__(self) -> int:
        """Committed offsets of all groups."""
        return sum(map(len, self._by_group.values()))

    def has_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has a commit for it."""
        return any((topic, partition) in pending for pending in self._pending_of(group))

    def pending_of_group(self, group: str) -> list[TopicPartition]:
        """What open transactions have commits for, each once."""
        return list(dict.fromkeys(key for pending in self._pending_of(group) for key in pending))

    def groups_with_pending(self) -> list[str]:
        return list(self._open_transactions)

    def has_open_transactions(self, group: str) -> bool:
        return group in self._open_transactions

    def _pending_of(self, group: str) -> Iterator[dict[TopicPartition, CommittedOffset]]:
        for producer_id in self._open_transactions.get(group, ()):
            pending = self._pending[producer_id].get(group)
            if pending is not None:
                yield pending

    # -- replay

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None, position: Position) -> None:
        group, topic, partition = key
        if value is None:
            self._remove(group, (topic, partition))
        elif position.producer_id == NO_PRODUCER_ID:
            offsets = self._by_group.get(group)
            if offsets is None:
                offsets = self._by_group[group] = {}
            offsets[topic, partition] = CommittedOffset(value, position.offset)
        else:
            pending = self._pending.setdefault(position.producer_id, {}).setdefault(group, {})
            pending[topic, partition] = CommittedOffset(value, position.offset)
            self._open_transactions.setdefault(group, set()).add(position.producer_id)

    def _remove(self, group: str, key: TopicPartition) -> None:
        """A tombstone takes the pending commits along."""
        offsets = self._by_group.get(group)
        if offsets is not None and offsets.pop(key, None) is not None and not offsets:
            del self._by_group[group]
        for pending in self._pending_of(group):
            pending.pop(key, None)

    def replay_end_marker(self, producer_id: int, committed: bool) -> None:
        """Of a pending and a plain commit the later record counts, since compaction may have removed the other."""
        ended = self._pending.pop(producer_id, {})
        for group, pending in ended.items():
            transactions = self._open_transactions[group]
            transactions.discard(producer_id)
            if not transactions:
                del self._open_transactions[group]
            if committed and pending:
                offsets = self._by_group.setdefault(group, {})
                for key, offset in pending.items():
                    existing = offsets.get(key)
                    if existing is None or offset.record_offset > existing.record_offset:
                        offsets[key] = offset


_NONE: Mapping[TopicPartition, CommittedOffset] = {}

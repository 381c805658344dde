"""Committed offsets of groups, from the records of `__consumer_offsets` (Kafka's OffsetCommitKey and -Value)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from odradek_pipeline.protocol.records.batch import BatchHeader
from odradek_pipeline.protocol.records.build import ControlRecordType, Record, iter_records, read_control_batch

MOST = 1_000
OFFSETS_TOPIC = "__consumer_offsets"
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_OFFSET = struct.Struct(">hq")
_OFFSET_COMMITS = (0, 1)


class Commit(NamedTuple):
    """A group's offset of a partition; None if it was removed. `at` is where, and `timestamp` (ms) when it was."""

    group: str
    topic: str
    partition: int
    offset: int | None
    at: int
    timestamp: int


def commits_in(batch: bytes | memoryview, header: BatchHeader) -> Iterator[Commit]:
    """The commits in a batch of `__consumer_offsets`. Raises ValueError for a batch that cannot be read."""
    for record in iter_records(batch, header):
        found = commit_of(record)
        if found is not None:
            yield found


def commit_of(record: Record) -> Commit | None:
    """The commit in a record; None for any other record of the topic."""
    key, value = record.key, record.value
    try:
        if key is None or _SHORT.unpack_from(key)[0] not in _OFFSET_COMMITS:
            return None
        group, at = _string(key, _SHORT.size)
        topic, at = _string(key, at)
        partition = _INT.unpack_from(key, at)[0]
        offset = None if value is None else _OFFSET.unpack_from(value)[1]
    except struct.error as error:
        raise ValueError(f"the record at offset {record.offset} is no offset commit: {error}") from error
    return Commit(group, topic, partition, offset, record.offset, record.timestamp)


def _string(data: bytes, at: int) -> tuple[str, int]:
    size = _SHORT.unpack_from(data, at)[0]
    at += _SHORT.size
    return data[at : at + size].decode(errors="replace"), at + size


class CommitWatch:
    """Notes commits that go back: what a group does that was reset, or whose coordinator has lost commits."""

    def __init__(self, found: list[dict[str, Any]]) -> None:
        self._found = found
        self._last: dict[tuple[str, str, int], int] = {}
        self._pending: dict[int, list[Commit]] = {}

    def see(self, header: BatchHeader, batch: bytes) -> None:
        """The next batch of a partition of `__consumer_offsets`; a transaction's commits count when it ends."""
        if not header.is_control:
            commits = list(commits_in(batch, header))
            if header.is_transactional:
                self._pending.setdefault(header.producer_id, []).extend(commits)
            else:
                self._take(commits)
            return
        control = read_control_batch(batch, header)
        pending = self._pending.pop(header.producer_id, [])
        if control is not None and control[0] is not None and control[0].type is ControlRecordType.COMMIT:
            self._take(pending)

    def _take(self, commits: list[Commit]) -> None:
        for commit in commits:
            place = commit.group, commit.topic, commit.partition
            if commit.offset is None:
                self._last.pop(place, None)
                continue
            before = self._last.get(place)
            if before is not None and commit.offset < before and len(self._found) < MOST:
                self._found.append(
                    {
                        "group": commit.group,
                        "topic": commit.topic,
                        "partition": commit.partition,
                        "at": commit.at,
                        "from": before,
                        "to": commit.offset,
                    }
                )
            self._last[place] = commit.offset

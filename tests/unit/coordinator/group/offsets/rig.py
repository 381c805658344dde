"""Offsets in one shard of the group coordinator, over a log in memory and in virtual time."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.offsets.offsets import Commit, Fetched, OffsetToCommit
from coordinator.runtime.outcome import ProducerEpoch
from protocol.coordinator_records.group_records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from tests.unit.coordinator.group.rig import Rig

NONE = ErrorCode.none
GROUP = "readers"


def offset(
    partition: int, value: int, topic: str = "topic", metadata: str | None = "", epoch: int = -1
) -> OffsetToCommit:
    return OffsetToCommit(topic, partition, value, epoch, metadata)


class OffsetRig(Rig):
    """Answers are there at once unless the log holds its high watermark back."""

    def ask_commit(self, *offsets: OffsetToCommit, group: str = GROUP, **fields: Any) -> Future[list[ErrorCode]]:
        commit = Commit(group, offsets, **fields)
        return self.runtime.write(0, lambda state: state.offsets.commit(commit))

    def commit(self, *offsets: OffsetToCommit, group: str = GROUP, **fields: Any) -> list[ErrorCode]:
        return self.ask_commit(*offsets, group=group, **fields).result()

    def commit_in_transaction(self, producer_id: int, *offsets: OffsetToCommit, group: str = GROUP) -> list[ErrorCode]:
        return self.commit(*offsets, group=group, transaction=ProducerEpoch(producer_id, 0))

    def end(self, producer_id: int, *, committed: bool) -> None:
        self.runtime.end_transaction(0, ProducerEpoch(producer_id, 0), 0, committed).result()

    def fetch(
        self, group: str = GROUP, wanted: Sequence[tuple[str, int]] | None = None, *, stable: bool = False
    ) -> Fetched:
        return self.runtime.read(0, lambda state: state.offsets.fetch(group, wanted, stable)).result()

    def committed(self, group: str = GROUP) -> dict[tuple[str, int], int]:
        return {key: found.value.offset for key, found in self.fetch(group).offsets.items()}

    def delete(self, wanted: Mapping[str, Sequence[int]], group: str = GROUP) -> Mapping[tuple[str, int], ErrorCode]:
        return self.runtime.write(0, lambda state: state.offsets.delete(group, wanted)).result()

    def delete_groups(self, *groups: str) -> dict[str, ErrorCode]:
        return self.runtime.write(0, lambda state: state.offsets.delete_groups(groups)).result()

    def topic_deleted(self, topic: str) -> None:
        self.topics_deleted(topic)

    def topics_deleted(self, *topics: str) -> None:
        self.runtime.write(0, lambda state: state.offsets.topics_deleted(topics)).result()

    def group_ids(self) -> set[str]:
        return self.runtime.read(0, lambda state: {group.group_id for group in state.groups.all()}).result()

    def offset_records(self) -> list[tuple[OffsetCommitKey, OffsetCommitValue | None]]:
        """What the log holds of offsets, oldest first; None is a tombstone."""
        return [
            (OFFSET_COMMIT.decode_key(one.key), None if one.value is None else OFFSET_COMMIT.decode_value(one.value))
            for one in self.log.records()
            if one.key is not None and one.key[:2] == b"\0\1" and len(one.key) > 4
        ]

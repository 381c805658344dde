"""Commits, reads and deletions of offsets, and their expiry (Kafka's OffsetMetadataManager).

`Offsets` has an operation for each request. `OffsetExpiry` looks for offsets that have not been used for
`offsets.retention.minutes`, and for groups with nothing left (KIP-211; Kafka's
GroupCoordinatorShard.cleanupGroupMetadata and OffsetExpirationConditionImpl).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from coordinator.group.directory import Group, GroupDirectory
from coordinator.group.kinds import GroupConfig, GroupCounts, OwnedPartition
from coordinator.group.offsets.store import CommittedOffset, OffsetStore
from coordinator.runtime.outcome import CoordinatorRecord, Effects, Outcome, ProducerEpoch
from protocol.coordinator_records.group_records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from protocol.errors import GroupIdNotFound, IllegalGeneration, KafkaError, StaleMemberEpoch
from protocol.java_strings import utf16_length
from protocol.records.batch import NO_TIMESTAMP
from protocol.topic_partition import PartitionKey
from timing.clock import Clock


class OffsetToCommit(NamedTuple):
    """One offset as a client sends it; `leader_epoch` is -1 if the client does not send it."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    topic_id: UUID | None = None
    """The topic's id; None where it does not matter, or is not known."""


class Commit(NamedTuple):
    """An OffsetCommit or, with `transaction`, a TxnOffsetCommit.

    `retention_ms` is set by the client (OffsetCommit 2-4), None for the broker's. `knows_member_epochs`: the request's
    version, 9 or later of OffsetCommit, 6 of TxnOffsetCommit, has GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH instead of
    ILLEGAL_GENERATION.
    """

    group_id: str
    offsets: Sequence[OffsetToCommit]
    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    retention_ms: int | None = None
    knows_member_epochs: bool = True
    transaction: ProducerEpoch | None = None


class Fetched(NamedTuple):
    """Offsets of one group, in the order of the request; `unstable` ones wait for a transaction."""

    offsets: Mapping[PartitionKey, CommittedOffset]
    unstable: Collection[PartitionKey] = frozenset()


class Offsets:
    """Operations of one shard. Each returns an Outcome or raises KafkaError; only replay changes the state."""

    def __init__(
        self, store: OffsetStore, groups: GroupDirectory, config: GroupConfig, clock: Clock, counts: GroupCounts
    ) -> None:
        self.store = store
        self._groups = groups
        self._config = config
        self._clock = clock
        self._counts = counts

    # -- commit

    def commit(self, commit: Commit) -> Outcome[list[ErrorCode]]:
        """Handle a commit: an error code for each offset, in order.

        Raises what `Group.validate_offset_commit` does, and GroupIdNotFound or IllegalGeneration for a generation of an
        unknown group. A commit to an unknown group without a generation is a simple consumer's.
        """
        effects = self._validate(commit)
        now_ms = self._clock.wall_ms()
        expires = NO_TIMESTAMP if commit.retention_ms is None else now_ms + commit.retention_ms
        limit = self._config.offset_metadata_max_bytes
        records: list[CoordinatorRecord] = []
        codes: list[ErrorCode] = []
        for topic, partition, offset, leader_epoch, metadata, topic_id in commit.offsets:
            note = metadata or ""
            if utf16_length(note) > limit:
                codes.append(ErrorCode.offset_metadata_too_large)
                continue
            codes.append(ErrorCode.none)
            key = OffsetCommitKey(commit.group_id, topic, partition)
            value = OffsetCommitValue(offset, leader_epoch, note, now_ms, expires, topic_id)
            records.append(CoordinatorRecord(OFFSET_COMMIT, key, value))
        self._counts.offset_commits += len(records)
        return Outcome(records, codes, effects, commit.transaction)

    def _validate(self, commit: Commit) -> Effects | None:
        group = self._groups.find(commit.group_id)
        if group is None:
            if commit.generation < 0:
                return None
            if commit.knows_member_epochs:
                raise GroupIdNotFound(f"Group {commit.group_id} not found.")
            raise IllegalGeneration
        try:
            group.validate_offset_commit(
                commit.member_id,
                commit.group_instance_id,
                commit.generation,
                transactional=commit.transaction is not None,
                knows_member_epochs=commit.knows_member_epochs,
                partitions=(
                    OwnedPartition(offset.topic, offset.topic_id, offset.partition) for offset in commit.offsets
                ),
            )
        except StaleMemberEpoch:
            if commit.transaction is None or commit.knows_member_epochs:
                raise
            raise IllegalGeneration from None
        if commit.transaction is not None or not commit.member_id:
            return None
        return _keeps_session_alive(group, commit.member_id)

    # -- fetch

    def fetch(
        self,
        group_id: str,
        wanted: Iterable[PartitionKey] | None,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Fetched:
        """The offsets of `wanted`, or of the whole group if that is None. Unknown ones are left out.

        Raises what `Group.validate_offset_fetch` does for a member of a consumer group.
        """
        group = self._groups.find(group_id)
        if group is not None:
            group.validate_offset_fetch(member_id, member_epoch)
        committed = self.store.of_group(group_id)
        if wanted is None:
            offsets = {
                (topic, index): offset
                for topic in sorted(committed)
                for index, offset in sorted(committed[topic].items())
            }
        else:
            offsets = {key: committed[key[0]][key[1]] for key in wanted if key[1] in committed.get(key[0], ())}
        if not require_stable or not self.store.has_open_transactions(group_id):
            return Fetched(offsets)
        asked = offsets if wanted is None else wanted
        return Fetched(offsets, {key for key in asked if self.store.has_pending(group_id, *key)})

    # -- delete

    def delete(self, group_id: str, wanted: Mapping[str, Sequence[int]]) -> Outcome[Mapping[PartitionKey, ErrorCode]]:
        """Handle an OffsetDelete (KIP-496): an error code for every partition of every topic in `wanted`.

        Raises GroupIdNotFound and GroupNotEmpty.
        """
        group = self.group(group_id)
        group.validate_offset_delete()
        codes: dict[PartitionKey, ErrorCode] = {}
        records: list[CoordinatorRecord] = []
        for topic, partitions in wanted.items():
            subscribed = group.is_subscribed_to_topic(topic)
            for partition in partitions:
                code = ErrorCode.group_subscribed_to_topic if subscribed else ErrorCode.none
                known = (topic, partition) in codes
                codes[topic, partition] = code
                if not subscribed and not known and self._is_held(group_id, topic, partition):
                    records.append(tombstone(group_id, topic, partition))
        return Outcome(records, codes, self._deleted(len(records)))

    def _is_held(self, group_id: str, topic: str, partition: int) -> bool:
        store = self.store
        return store.get(group_id, topic, partition) is not None or store.has_pending(group_id, topic, partition)

    def group(self, group_id: str) -> Group:
        """Raises GroupIdNotFound."""
        group = self._groups.find(group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def all_tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """The tombstones for every offset of a group, pending ones too."""
        return [tombstone(group_id, topic, partition) for topic, partition in self.store.places_of_group(group_id)]

    def delete_groups(self, group_ids: Iterable[str]) -> Outcome[dict[str, ErrorCode]]:
        """Handle a DeleteGroups: an error code for each group."""
        codes: dict[str, ErrorCode] = {}
        records: list[CoordinatorRecord] = []
        offsets = 0
        for group_id in dict.fromkeys(group_ids):
            try:
                group = self.group(group_id)
                group.validate_delete()
            except KafkaError as error:
                codes[group_id] = error.code
                continue
            codes[group_id] = ErrorCode.none
            tombstones = self.all_tombstones(group_id)
            offsets += len(tombstones)
            records += tombstones
            records += self._groups.deletion(group_id)
        return Outcome(records, codes, self._deleted(offsets))

    def topics_deleted(self, topics: Collection[str]) -> Outcome[None]:
        """Remove every group's offsets of topics that are gone."""
        places = self.store.places_of_topics(frozenset(topics))
        return Outcome([tombstone(*place) for place in places], atomic=False)

    def _deleted(self, offsets: int) -> Effects:
        def count(error: KafkaError | None) -> None:
            if error is None:
                self._counts.offset_deletions += offsets

        return count


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OFFSET_COMMIT, OffsetCommitKey(group_id, topic, partition), None)


def _keeps_session_alive(group: Group, member_id: str) -> Effects:
    return lambda error: group.offset_commit_accepted(member_id) if error is None else None


GROUPS_IN_A_TURN = 500
"""Groups that are looked at before the loop serves others."""


class OffsetExpiry:
    """One shard's search for what has expired."""

    def __init__(self, store: OffsetStore, groups: GroupDirectory, config: GroupConfig, counts: GroupCounts) -> None:
        self._store = store
        self._groups = groups
        self._config = config
        self._counts = counts
        self._left: list[str] = []

    @property
    def is_under_way(self) -> bool:
        """Whether some groups were not looked at yet."""
        return bool(self._left)

    def expire(self, now_ms: int) -> Outcome[None]:
        """The tombstones for expired offsets, and for empty groups that keep none, of the next groups."""
        if not self._left:
            self._left = [group.group_id for group in self._groups.all()]
        some = self._left[-GROUPS_IN_A_TURN:]
        del self._left[-GROUPS_IN_A_TURN:]
        records: list[CoordinatorRecord] = []
        expired = 0
        for group_id in some:
            group = self._groups.find(group_id)
            if group is None or group.lives_until_deleted:
                continue
            tombstones = self._expired(group, now_ms)
            records += tombstones
            expired += len(tombstones)
            remaining = self._store.count_of_group(group.group_id) - len(tombstones)
            if not remaining and group.is_empty and not self._store.has_open_transactions(group.group_id):
                records += self._groups.deletion(group.group_id)

        def count(error: KafkaError | None) -> None:
            if error is None:
                self._counts.offset_expirations += expired

        return Outcome(records, effects=count, atomic=False)

    def _expired(self, group: Group, now_ms: int) -> list[CoordinatorRecord]:
        """The tombstones for one group. Offsets of subscribed topics stay, and those a transaction will replace."""
        group_id = group.group_id
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self._store.of_group(group_id).items()
            for partition, offset in partitions.items()
            if self._is_over(group, offset, now_ms)
            and not group.is_subscribed_to_topic(topic)
            and not self._store.has_pending(group_id, topic, partition)
        ]

    def _is_over(self, group: Group, offset: CommittedOffset, now_ms: int) -> bool:
        since = group.offset_expires_from(offset.value.commit_timestamp)
        if since is None:
            return False
        if offset.value.expire_timestamp != NO_TIMESTAMP:  # a retention set by the client, from before KIP-211
            return now_ms >= offset.value.expire_timestamp
        return now_ms - since >= self._config.offsets_retention_ms

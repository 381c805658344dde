"""Topics and their partitions (Kafka's `TopicsImage`, `TopicsDelta`, `PartitionRegistration`).

Maps are persistent: a change of one partition copies a few nodes of a tree, however many partitions there are, and
images that readers still hold stay as they were.

An index has the partitions of which something holds that decisions ask for (`Fact`): that a broker is in sync, that
there is no leader. So what concerns one broker costs what that broker has, and not what the cluster has (Kafka's
`BrokersToIsrs`). The partitions of a topic are the bits of one number, which is small and changed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from metadata.maps import Map
from metadata.topic_names import collision_key, is_internal
from protocol.metadata.topics import LEADER_UNCHANGED, NO_LEADER, RECOVERY_UNCHANGED, PartitionChangeRecord

Record = Any
"""A record of `protocol.metadata.topics`, whose fields are checked where it is made."""

_NOT_ELIGIBLE = PartitionChangeRecord(topic_id=None, eligible_leader_replicas=(), last_known_elr=())
"""What a ClearElrRecord is to each partition that has eligible leader replicas."""


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """The cluster's knowledge of a partition; nodes are ids, and `directories` has one id for each of `replicas`.

    `leader` is -1 if there is none. `elr` are the eligible leader replicas of KIP-966.
    """

    replicas: tuple[int, ...]
    directories: tuple[UUID | None, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def directory_of(self, broker_id: int) -> UUID | None:
        """The id of the directory that has this broker's replica, as far as the controller knows."""
        known = dict(zip(self.replicas, self.directories, strict=False))
        return known.get(broker_id)

    @classmethod
    def of(cls, record: Record) -> PartitionRegistration:
        """The partition of a PartitionRecord."""
        return cls(
            record.replicas,
            record.directories,
            record.isr,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
            record.removing_replicas,
            record.adding_replicas,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
        )

    def merge(self, change: Record) -> PartitionRegistration:
        """The partition after a PartitionChangeRecord."""
        elected = change.leader != LEADER_UNCHANGED
        recovery = change.leader_recovery_state
        return PartitionRegistration(
            self.replicas if change.replicas is None else change.replicas,
            self.directories if change.directories is None else change.directories,
            self.isr if change.isr is None else change.isr,
            change.leader if elected else self.leader,
            self.leader_epoch + elected,
            self.partition_epoch + 1,
            self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
            self.removing_replicas if change.removing_replicas is None else change.removing_replicas,
            self.adding_replicas if change.adding_replicas is None else change.adding_replicas,
            self.elr if change.eligible_leader_replicas is None else change.eligible_leader_replicas,
            self.last_known_elr if change.last_known_elr is None else change.last_known_elr,
        )


Fact = tuple[int, int]
"""Something that holds of a partition: one of those below, with a broker's id or 0."""
_IN_SYNC, _ELIGIBLE = 0, 1
LEADERLESS: Fact = 2, 0
"""The partition has no leader."""
NOT_PREFERRED: Fact = 3, 0
"""Another than the first replica leads, or none."""
REASSIGNING: Fact = 4, 0
"""Replicas are being added or removed."""


def in_sync(broker_id: int) -> Fact:
    """The broker is in the ISR."""
    return _IN_SYNC, broker_id


def eligible(broker_id: int) -> Fact:
    """The broker is an eligible leader replica (KIP-966)."""
    return _ELIGIBLE, broker_id


def facts_of(partition: PartitionRegistration) -> set[Fact]:
    """All that holds of a partition."""
    facts = {(_IN_SYNC, broker_id) for broker_id in partition.isr}
    for broker_id in partition.elr:
        facts.add((_ELIGIBLE, broker_id))
    if partition.leader != partition.replicas[0]:
        facts.add(NOT_PREFERRED)
        if not partition.has_leader:
            facts.add(LEADERLESS)
    if partition.adding_replicas or partition.removing_replicas:
        facts.add(REASSIGNING)
    return facts


Index = Map[Fact, Map[UUID, int]]
"""By fact and topic id the partitions of which it holds, as bits; no number is 0, and no map is empty."""


def in_order(partitions: Map[int, PartitionRegistration]) -> Iterator[tuple[int, PartitionRegistration]]:
    """(index, partition), by index."""
    return ((index, partitions[index]) for index in range(len(partitions)))


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; its partitions are numbered from 0 without gaps."""

    name: str
    id: UUID
    partitions: Map[int, PartitionRegistration] = Map()

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    def in_order(self) -> Iterator[tuple[int, PartitionRegistration]]:
        """(index, partition), by index."""
        return in_order(self.partitions)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics by name; `names` has the name of each id, `collisions` the names that share a key of metrics.

    `index` has the partitions by what holds of them.
    """

    by_name: Map[str, TopicImage] = Map()
    names: Map[UUID, str] = Map()
    collisions: Map[str, frozenset[str]] = Map()
    index: Index = Map()

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[TopicImage]:
        """Every topic, in no particular order."""
        return self.by_name.values().__iter__()

    def get(self, name: str) -> TopicImage | None:
        return self.by_name.get(name)

    def by_id(self, topic_id: UUID | None) -> TopicImage | None:
        name = None if topic_id is None else self.names.get(topic_id)
        return None if name is None else self.by_name[name]

    def sorted(self) -> list[TopicImage]:
        """Every topic, by name."""
        return [self.by_name[name] for name in sorted(self.by_name)]

    def where(self, fact: Fact) -> Iterator[tuple[TopicImage, int]]:
        """(topic, index) of each partition of which it holds, in an order that is the same in every run."""
        for topic_id, bits in self.index.get(fact, _NOWHERE).items():
            topic, left = self.by_name[self.names[topic_id]], bits
            while left:
                lowest = left & -left
                yield topic, lowest.bit_length() - 1
                left ^= lowest

    def count(self, fact: Fact) -> int:
        """The number of partitions of which it holds."""
        return sum(bits.bit_count() for bits in self.index.get(fact, _NOWHERE).values())

    def colliding_with(self, name: str) -> str | None:
        """The first existing topic that would share its metric names with `name` (itself included), if any."""
        key = collision_key(name)
        return None if key is None else min(self.collisions.get(key, ()), default=None)


_NOWHERE: Map[UUID, int] = Map()


class TopicDelta:
    """Changes of records to one topic; `before` is None for a new one."""

    __slots__ = ("after", "before", "changed")

    def __init__(self, before: TopicImage | None, after: TopicImage) -> None:
        self.before = before
        self.after = after
        self.changed: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration:
        """The partition as it is now. Raises KeyError."""
        found = self.changed.get(index)
        return self.after.partitions[index] if found is None else found

    def finish(self) -> TopicImage:
        """The topic with all changes."""
        if self.changed:
            partitions = self.after.partitions.mutate()
            for index, new in self.changed.items():
                partitions[index] = new
            self.after = replace(self.after, partitions=partitions.finish())
        return self.after


class TopicsDelta:
    """Changes of records to the topics.

    Attributes:
        changed: new topics, and those in which a partition changed or appeared, by id.
        deleted: topics that were there before, by id.
    """

    def __init__(self, image: TopicsImage) -> None:
        self._image = image
        self.changed: dict[UUID, TopicDelta] = {}
        self.deleted: dict[UUID, TopicImage] = {}

    def create(self, record: Record) -> None:
        self.changed[record.topic_id] = TopicDelta(None, TopicImage(record.name, record.topic_id))

    def remove(self, record: Record) -> str:
        """Remove a topic; return its name. Raises KeyError."""
        new = self.changed.pop(record.topic_id, None)
        before = self._image.by_id(record.topic_id)
        if before is not None:
            self.deleted[record.topic_id] = before
        return before.name if new is None and before is not None else new.after.name if new else _unknown(record)

    def put_partition(self, record: Record) -> None:
        self._topic(record.topic_id).changed[record.partition_id] = PartitionRegistration.of(record)

    def change_partition(self, record: Record) -> None:
        topic = self._topic(record.topic_id)
        topic.changed[record.partition_id] = topic.partition(record.partition_id).merge(record)

    def clear_elr(self, record: Record) -> None:
        """Forget the eligible leader replicas of one topic, or of all: a change of each partition that has some."""
        for topic_id in self._named(record.topic_name):
            found = self._topic(topic_id)
            for index in {*found.after.partitions, *found.changed}:
                partition = found.partition(index)
                if partition.elr or partition.last_known_elr:
                    found.changed[index] = partition.merge(_NOT_ELIGIBLE)

    def _named(self, name: str) -> list[UUID]:
        """The topic of this name, or all that there are now; raises KeyError."""
        if not name:
            return list({*self.changed, *self._image.names} - self.deleted.keys())
        known = self._image.get(name)
        if known is not None and known.id not in self.deleted:
            return [known.id]
        found = [topic_id for topic_id, delta in self.changed.items() if delta.after.name == name]
        if not found:
            raise KeyError(f"no topic has the name {name}")
        return found

    def _topic(self, topic_id: UUID) -> TopicDelta:
        found = self.changed.get(topic_id)
        if found is None:
            topic = self._image.by_id(topic_id)
            if topic is None or topic_id in self.deleted:
                raise KeyError(f"no topic has the id {topic_id}")
            found = self.changed[topic_id] = TopicDelta(topic, topic)
        return found

    def apply(self) -> TopicsImage:
        by_name, names = self._image.by_name.mutate(), self._image.names.mutate()
        collisions = self._image.collisions
        for topic in self.deleted.values():
            del by_name[topic.name], names[topic.id]
            collisions = _without(collisions, topic.name)
        for delta in self.changed.values():
            topic = delta.finish()
            by_name[topic.name] = topic
            if delta.before is None:
                names[topic.id] = topic.name
                collisions = _with(collisions, topic.name)
        return TopicsImage(by_name.finish(), names.finish(), collisions, self._indexed())

    def _indexed(self) -> Index:
        """The index after the changes, of which only the changed partitions are looked at."""
        flips: dict[Fact, dict[UUID, int]] = {}
        for topic in self.deleted.values():
            for index, partition in topic.partitions.items():
                _flip(flips, topic.id, index, facts_of(partition))
        for delta in self.changed.values():
            known = None if delta.before is None else delta.before.partitions
            for index, after in delta.changed.items():
                before = None if known is None else known.get(index)
                _flip(flips, delta.after.id, index, facts_of(after) ^ (set() if before is None else facts_of(before)))
        if not flips:
            return self._image.index
        found = self._image.index.mutate()
        for fact, by_topic in flips.items():
            places = found.get(fact, _NOWHERE).mutate()
            for topic_id, bits in by_topic.items():
                left = places.get(topic_id, 0) ^ bits
                if left:
                    places[topic_id] = left
                else:
                    places.pop(topic_id, None)
            if places:
                found[fact] = places.finish()
            else:
                found.pop(fact, None)
        return found.finish()


def _flip(flips: dict[Fact, dict[UUID, int]], topic_id: UUID, index: int, facts: set[Fact]) -> None:
    """Note that these facts hold of a partition now if they did not before, and the other way round."""
    for fact in facts:
        by_topic = flips.setdefault(fact, {})
        by_topic[topic_id] = by_topic.get(topic_id, 0) ^ 1 << index


def _unknown(record: Record) -> str:
    raise KeyError(f"no topic has the id {record.topic_id}")


def _with(collisions: Map[str, frozenset[str]], name: str) -> Map[str, frozenset[str]]:
    key = collision_key(name)
    return collisions if key is None else collisions.set(key, collisions.get(key, frozenset()) | {name})


def _without(collisions: Map[str, frozenset[str]], name: str) -> Map[str, frozenset[str]]:
    key = collision_key(name)
    if key is None:
        return collisions
    left = collisions[key] - {name}
    return collisions.set(key, left) if left else collisions.delete(key)

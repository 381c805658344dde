"""The existing topics: a view of `/topics/<name>` in the metadata store, and its only writer.

A deleted topic leaves `/deleted-topics/<id>`, until none of its folders has its name any more.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from broker.metadata.store import Change, MetadataStore, VersionConflictError, Versioned
from metadata import topic_names
from protocol.errors import UnknownTopicOrPartition
from protocol.java_collections import LEAST_SLOTS, in_timeline_order, timeline_slots
from protocol.topic_partition import TopicPartition
from storage.folders.strays import Standing

PREFIX = "/topics/"
DELETED_PREFIX = "/deleted-topics/"


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """The nodes of one partition, by id; the leader is -1 if there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as stored; `configs` holds only its own overrides."""

    name: str
    id: uuid.UUID
    partitions: tuple[PartitionAssignment, ...]
    configs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_internal(self) -> bool:
        return topic_names.is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


Listener = Callable[[Topic | None, Topic | None], None]


class Host(Protocol):
    """Keeps the logs of partitions."""

    async def prepare(self, topics: Iterable[Topic]) -> None:
        """Make the logs that these topics lack. Raises KafkaStorage if one cannot be made."""

    async def discard(self) -> None:
        """Remove the logs that were prepared but not used."""


def assign(replicas: Iterable[int]) -> PartitionAssignment:
    """A new partition: all replicas in sync, led by the first one, at epoch 0."""
    nodes = tuple(replicas)
    return PartitionAssignment(leader=nodes[0], leader_epoch=0, replicas=nodes, isr=nodes)


class Topics:
    """The topics. Reads are from memory, and see a change as soon as the call that made it returns.

    `revision` is that of the store's last commit seen here: the store itself may be ahead for a moment. A topic is one
    key, so after a crash every change is whole or absent. Each change raises VersionConflictError if another writer
    came between (see `store.retrying`), and MetadataStoreError if it cannot be made durable.

    Attributes:
        deleted: the ids of deleted topics of which a folder may still be there.
    """

    def __init__(self, store: MetadataStore) -> None:
        self.revision = store.revision
        self._store = store
        self._by_name: dict[str, Topic] = {}  # in the order in which they were made
        self._slots = LEAST_SLOTS
        self._by_id: dict[uuid.UUID, Topic] = {}
        self.deleted: set[uuid.UUID] = set()
        self._versions: dict[str, int] = {}
        self._collisions: defaultdict[str, set[str]] = defaultdict(set)
        self._listeners: list[Listener] = []
        self._host: Host | None = None
        self._growing = asyncio.Lock()  # one at a time, so that two never prepare the same log

    @classmethod
    async def open(cls, store: MetadataStore) -> Topics:
        topics = cls(store)
        store.watch(DELETED_PREFIX, topics._on_deleted)
        store.watch(PREFIX, topics._on_change)
        topics._on_deleted(Change(store.revision, await store.list(DELETED_PREFIX)))
        for key, versioned in (await store.list(PREFIX)).items():
            topics._put(key, versioned)
        return topics

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        return None if topic_id is None else self._by_id.get(topic_id)

    def standing(self, partition: TopicPartition, topic_id: uuid.UUID | None) -> Standing:
        """Whether a folder of that partition and topic id, if it has one, is a topic's."""
        topic = self.get(partition.topic)
        if topic is not None and partition.partition < len(topic.partitions) and topic_id in (topic.id, None):
            return Standing.HOSTED
        return Standing.DELETED if topic_id in self.deleted else Standing.STRAY

    def all(self) -> Collection[Topic]:
        """Every topic, in no particular order."""
        return self._by_name.values()

    def in_order(self) -> list[Topic]:
        """Every topic, in the order of the map that Kafka's controller has them in, which never shrinks."""
        return [self._by_name[name] for name in in_timeline_order(list(self._by_name), self._slots)]

    def colliding_with(self, name: str) -> str | None:
        """The first existing topic that would share its metric names with `name` (itself included), if any."""
        key = topic_names.collision_key(name)
        return None if key is None else min(self._collisions.get(key, ()), default=None)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener(old, new)` after each later change; None means that the topic does not exist."""
        self._listeners.append(listener)

    def host_by(self, host: Host) -> None:
        """Ask `host` for the logs of every later topic and partition."""
        self._host = host

    async def create(self, topics: Collection[Topic], beside: Collection[str] = ()) -> None:
        """Create all topics or none. Raises KafkaStorage if a log cannot be made.

        Raises VersionConflictError if one of them now exists, or another that collides and is not among those `beside`.
        """
        async with self._growing:
            for topic in topics:
                colliding = self.colliding_with(topic.name)
                if topic.name in self._by_name or (colliding is not None and colliding not in beside):
                    raise VersionConflictError(PREFIX + topic.name, 0, self._versions[colliding or topic.name])
            await self._grow(dict.fromkeys((topic.name for topic in topics), 0), topics)

    async def delete(self, topics: Collection[Topic]) -> None:
        """Delete all topics or none. Raises UnknownTopicOrPartition if one does not exist with its id."""
        for topic in topics:
            if self.get(topic.name) is None or self._by_name[topic.name].id != topic.id:
                raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        if not topics:
            return
        await self._store.commit(
            {PREFIX + topic.name: self._versions[topic.name] for topic in topics},
            {DELETED_PREFIX + str(topic.id): b"{}" for topic in topics},
            [PREFIX + topic.name for topic in topics],
        )

    async def forget_deleted(self, topic_ids: Collection[uuid.UUID]) -> None:
        """Forget deleted topics of which no folder is left under its name."""
        await self._store.commit({}, {}, [DELETED_PREFIX + str(topic_id) for topic_id in topic_ids])

    async def create_partitions(self, added: Mapping[str, Collection[PartitionAssignment]]) -> None:
        """Append partitions to existing topics, all or none. Raises KafkaStorage if a log cannot be made."""
        async with self._growing:
            grown = [
                replace(self._existing(name), partitions=(*self._existing(name).partitions, *partitions))
                for name, partitions in added.items()
            ]
            await self._grow({topic.name: self._versions[topic.name] for topic in grown}, grown)

    async def _grow(self, expected: Mapping[str, int], topics: Collection[Topic]) -> None:
        """Commit topics once the logs of their new partitions exist, since a visible partition must be usable."""
        if self._host is None:
            await self._commit(expected, puts=topics)
            return
        try:
            await self._host.prepare(topics)
            await self._commit(expected, puts=topics)
        except BaseException:
            await self._host.discard()
            raise

    async def raise_leader_epochs(self) -> None:
        """Raise every leader's epoch by two after a start, as in KRaft, where the leader goes and is elected again."""
        raised = [
            replace(
                topic,
                partitions=tuple(replace(one, leader_epoch=one.leader_epoch + 2) for one in topic.partitions),
            )
            for topic in self.all()
        ]
        await self._commit({topic.name: self._versions[topic.name] for topic in raised}, puts=raised)

    async def set_configs(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the overrides of existing topics, all or none."""
        changed = [
            replace(self._existing(name), configs=MappingProxyType(dict(new)))
            for name, new in configs.items()
            if new != self._existing(name).configs
        ]
        await self._commit({topic.name: self._versions[topic.name] for topic in changed}, puts=changed)

    def _existing(self, name: str) -> Topic:
        topic = self._by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition("This server does not host this topic-partition.")
        return topic

    async def _commit(self, expected: Mapping[str, int], puts: Collection[Topic]) -> None:
        if not expected:
            return
        await self._store.commit(
            {PREFIX + name: version for name, version in expected.items()},
            {PREFIX + topic.name: _encode(topic) for topic in puts},
        )

    def _on_deleted(self, change: Change) -> None:
        for key, versioned in change.keys.items():
            topic_id = uuid.UUID(key.removeprefix(DELETED_PREFIX))
            (self.deleted.discard if versioned is None else self.deleted.add)(topic_id)

    def _on_change(self, change: Change) -> None:
        self.revision = change.revision
        moved = [(self._by_name.get(key.removeprefix(PREFIX)), self._put(key, new)) for key, new in change.keys.items()]
        for old, new in moved:
            for listener in tuple(self._listeners):
                listener(old, new)

    def _put(self, key: str, versioned: Versioned | None) -> Topic | None:
        name = key.removeprefix(PREFIX)
        old = self._by_name.get(name)
        if old is not None:
            del self._by_id[old.id], self._versions[name]
            self._forget_collisions(name)
        if versioned is None:
            self._by_name.pop(name, None)
            return None
        if old is None:
            self._slots = timeline_slots(self._slots, len(self._by_name))
        topic = _decode(name, versioned.value)
        self._by_name[name] = self._by_id[topic.id] = topic
        self._versions[name] = versioned.version
        collision_key = topic_names.collision_key(name)
        if collision_key is not None:
            self._collisions[collision_key].add(name)
        return topic

    def _forget_collisions(self, name: str) -> None:
        key = topic_names.collision_key(name)
        if key is None:
            return
        self._collisions[key].discard(name)
        if not self._collisions[key]:
            del self._collisions[key]


def _encode(topic: Topic) -> bytes:
    partitions = [
        {"leader": p.leader, "leader_epoch": p.leader_epoch, "replicas": p.replicas, "isr": p.isr}
        for p in topic.partitions
    ]
    return json.dumps({"id": str(topic.id), "partitions": partitions, "configs": dict(topic.configs)}).encode()


def _decode(name: str, value: bytes) -> Topic:
    fields = json.loads(value)
    partitions = tuple(
        PartitionAssignment(p["leader"], p["leader_epoch"], tuple(p["replicas"]), tuple(p["isr"]))
        for p in fields["partitions"]
    )
    return Topic(name, uuid.UUID(fields["id"]), partitions, MappingProxyType(fields["configs"]))

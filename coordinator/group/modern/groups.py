"""The modern groups of one shard of the group coordinator, and what operations on them need.

How it works: `ModernGroups` keeps the groups of all kinds, with the sessions of their members. What it is given
(`ModernGroupServices`) is the same for all shards of a node. Topics are seen through `TopicsPort` (Kafka's
MetadataImage). A group notices that one of its topics changed by a hash (KIP-1101, Kafka's coordinator.group.Utils),
which is in the record of the group, so it must be Kafka's to the bit: XXH3, 64 bits, over what hash4j streams into it.
That is little-endian throughout; a string is its UTF-16 units followed by their number (HashStream64.putString).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from xxhash import xxh3_64_intdigest

from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.config import ConsumerGroupConfig, ModernGroupConfig, ShareGroupConfig, StreamsGroupConfig
from coordinator.group.group_port import GroupType
from coordinator.group.modern.group import MemberState, ModernGroup
from coordinator.group.modern.timeouts import Overdue, Timeouts
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import Outcome
from protocol.errors import GroupIdNotFound, KafkaError
from protocol.java_strings import utf16

_MAGIC = b"\x00"
_INT32 = Struct("<i")
_INT64 = Struct("<q")
_SIGN = 1 << 63


class TopicImage(NamedTuple):
    """A topic; `racks` are those of each partition's replicas, sorted; replicas without a rack add none."""

    name: str
    id: UUID
    racks: Sequence[Sequence[str]]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class TopicsPort(Protocol):
    """The current topics."""

    @property
    def version(self) -> int:
        """A number that rises with every change of a topic and never falls, even across restarts."""

    @property
    def newest(self) -> int:
        """The version at which the last topic was created; at first, the version at startup."""

    def by_name(self, name: str) -> TopicImage | None: ...

    def by_id(self, topic_id: UUID) -> TopicImage | None: ...

    def names(self) -> Iterable[str]:
        """Every topic's name, internal ones included."""


def topic_hash(image: TopicImage) -> int:
    """Kafka's hash of a topic, a signed long: over its id, its name and the racks of each partition."""
    parts = [
        _MAGIC,
        image.id.bytes[7::-1],
        image.id.bytes[:7:-1],
        _string(image.name),
        _INT32.pack(image.partition_count),
    ]
    for index, racks in enumerate(image.racks):
        parts.append(_INT32.pack(index))
        for rack in racks:
            encoded = _string(rack)
            parts += (encoded[-4:], encoded)
    return _signed(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """Kafka's hash of a group's topics, a signed long, from their hashes by name; 0 without topics."""
    if not hashes:
        return 0
    return _signed(b"".join(_INT64.pack(hashes[name]) for name in sorted(hashes)))


def _string(text: str) -> bytes:
    units = utf16(text)
    return units + _INT32.pack(len(units) // 2)


def _signed(data: bytes) -> int:
    return (xxh3_64_intdigest(data) ^ _SIGN) - _SIGN


G = TypeVar("G", bound=ModernGroup[Any, Any])

StateTopics = Mapping[UUID, Collection[int]]
"""Partition indexes by topic id."""


class ShareStatePort(Protocol):
    """What share groups ask of the share coordinator, which may be on another node.

    The end of a request is told to `done`, with an error if there was one: later, and perhaps never.
    """

    def initialize(
        self, group_id: str, topics: StateTopics, state_epoch: int, done: Callable[[KafkaError | None], None]
    ) -> None:
        """Make a state for these partitions, whose start offset the first fetch decides."""

    def delete(self, group_id: str, topics: StateTopics) -> None:
        """Forget the state of these partitions, as a group that is deleted wants it."""


@dataclass(slots=True)
class ModernGroupMetrics:
    """Counts over all shards of a node; the broker registers gauges that read them.

    `rebalances`: rises of consumer groups' epochs for new subscriptions or topics (Kafka's
    `consumer-group-rebalance-count`). `expired_members`: members removed after a timeout.
    """

    rebalances: int = 0
    expired_members: int = 0

    def count_rebalance(self) -> None:
        self.rebalances += 1

    def count_expired_member(self) -> None:
        self.expired_members += 1


@dataclass(frozen=True, slots=True)
class ModernGroupServices:
    """What the shards of a node share."""

    topics: TopicsPort
    share_state: ShareStatePort
    new_member_id: Callable[[], str]
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)
    metrics: ModernGroupMetrics = field(default_factory=ModernGroupMetrics)


class ModernGroups:
    """Keeps the groups of all kinds, of which a name stands for only one. `classic` are the shard's classic groups.

    `by_id` is durable state: only the replay of records changes it. `fence` is the operation that removes a member
    whose time is over.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        classic: ClassicGroups,
        services: ModernGroupServices,
        fence: Callable[[ModernGroups, Overdue], Outcome[None] | None],
    ) -> None:
        self.context = context
        self.classic = classic
        self.services = services
        self.topics = services.topics
        self.share_state = services.share_state
        self.new_member_id = services.new_member_id
        self.consumer_config = services.consumer
        self.metrics = services.metrics
        self.by_id: dict[str, ModernGroup[Any, Any]] = {}
        self.timeouts = Timeouts(context, lambda overdue: fence(self, overdue))
        self._configs: dict[GroupType, ModernGroupConfig] = {
            GroupType.CONSUMER: services.consumer,
            GroupType.SHARE: services.share,
            GroupType.STREAMS: services.streams,
        }
        self._topic_hashes: dict[str, int] = {}

    def config_of(self, group: ModernGroup[Any, Any]) -> ModernGroupConfig:
        return self._configs[group.group_type]

    # -- groups

    def find(self, kind: type[G], group_id: str) -> G | None:
        """The group, if there is one of that kind."""
        group = self.by_id.get(group_id)
        return group if group is not None and isinstance(group, kind) else None

    def find_only(self, kind: type[G], group_id: str) -> G | None:
        """As `find`. Raises GroupIdNotFound for a group of another kind, even an empty one."""
        group = self.by_id.get(group_id) or self.classic.find(group_id)
        if group is None or isinstance(group, kind):
            return group
        raise GroupIdNotFound(f"Group {group_id} is not a {kind.group_type.value} group.")

    def get(self, kind: type[G], group_id: str) -> G:
        """Raises GroupIdNotFound."""
        group = self.find_only(kind, group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def all(self, kind: type[G]) -> list[G]:
        """The groups of that kind."""
        return [group for group in self.by_id.values() if isinstance(group, kind)]

    # -- topics

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Kafka's hash over those of the named topics that exist."""
        hashes = {}
        for name in names:
            known = self._topic_hashes.get(name)
            if known is None and (image := self.topics.by_name(name)) is not None:
                known = self._topic_hashes[name] = topic_hash(image)
            if known is not None:
                hashes[name] = known
        return group_hash(hashes)

    def topic_changed(self, name: str) -> None:
        """Groups that need the topic check it again at their next heartbeat."""
        self._topic_hashes.pop(name, None)
        for group in self.by_id.values():
            if group.needs_topic(name):
                group.is_fresh = False

    def partition_count(self, name: str) -> int | None:
        topic = self.topics.by_name(name)
        return None if topic is None else topic.partition_count

    def mark_fresh(self, group_id: str) -> None:
        group = self.by_id.get(group_id)
        if group is not None:
            group.is_fresh = True

    # -- sessions

    def start_session(self, group: ModernGroup[Any, Any], member: Any) -> None:
        timeout_ms = group.session_timeout_of(member, self._configs[group.group_type])
        self.timeouts.start_session(group.group_id, member.member_id, timeout_ms)

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire."""
        for group in self.by_id.values():
            for member in group.members.values():
                self.start_session(group, member)
                if member.state is MemberState.UNREVOKED:
                    self.timeouts.start_rebalance(group.group_id, member)

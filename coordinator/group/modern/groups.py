"""The modern groups of one shard of the group coordinator, and what operations on them need.

`ModernGroups` keeps the groups of all kinds, with the sessions of their members. What it is given
(`ModernGroupServices`) is the same for all shards of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import UUID

from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.kinds import (
    ConsumerGroupConfig,
    GroupType,
    ModernGroupConfig,
    ShareGroupConfig,
    StreamsGroupConfig,
)
from coordinator.group.modern.group import A, M, MemberState, ModernGroup
from coordinator.group.modern.topics import TopicsPort, group_hash, topic_hash
from coordinator.runtime.coordinator_context import CoordinatorContext
from protocol.errors import GroupIdNotFound, KafkaError

G = TypeVar("G", bound=ModernGroup[Any, Any])

StateTopics = Mapping[UUID, Collection[int]]
"""Partition indexes by topic id."""


class ShareStatePort(Protocol):
    """What share groups ask of the share coordinator, which may be on another node.

    The end of a request is told to `done`, with an error if there was one: later, and perhaps never.
    """

    def initialize(
        self,
        group_id: str,
        topics: StateTopics,
        state_epoch: int,
        done: Callable[[KafkaError | None], None],
        *,
        grown: Collection[UUID],
    ) -> None:
        """Make a state for these partitions. The first fetch decides where they start; those of `grown` start at 0."""

    def delete(self, group_id: str, topics: StateTopics) -> None:
        """Forget the state of these partitions, as a group that is deleted wants it."""


@dataclass(frozen=True, slots=True)
class ModernGroupServices:
    """What the shards of a node share."""

    topics: TopicsPort
    share_state: ShareStatePort
    new_member_id: Callable[[], str]
    consumer: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    share: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    streams: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)


class ModernGroups:
    """Keeps the groups of all kinds, of which a name stands for only one. `classic` are the shard's classic groups.

    `by_id` is durable state: only the replay of records changes it.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        classic: ClassicGroups,
        services: ModernGroupServices,
    ) -> None:
        self.context = context
        self.classic = classic
        self.services = services
        self.topics = services.topics
        self.share_state = services.share_state
        self.new_member_id = services.new_member_id
        self.consumer_config = services.consumer
        self.counts = classic.counts
        self.by_id: dict[str, ModernGroup[Any, Any]] = {}
        self.timeouts = classic.timeouts
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
        group = self.by_id.get(group_id) or self.classic.by_id.get(group_id)
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

    def hash_for(self, group: ModernGroup[M, A], members: Collection[M]) -> int:
        """The hash of the topics that a target for these members is made from."""
        return self.metadata_hash(group.topics_of(members, self.topics))

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
                    timeout_ms = member.rebalance_timeout_ms
                    self.timeouts.start_rebalance(group.group_id, member.member_id, member.epoch, timeout_ms)

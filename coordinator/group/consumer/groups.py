"""The consumer groups of one shard of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coordinator.group.classic.groups import ClassicGroups
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.metadata_hash import group_hash, topic_hash
from coordinator.group.consumer.metrics import ConsumerGroupMetrics
from coordinator.group.consumer.records import group_tombstones
from coordinator.group.consumer.states import MemberState
from coordinator.group.consumer.timeouts import Overdue, Timeouts
from coordinator.group.consumer.topics_port import TopicsPort
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import GroupIdNotFound, KafkaError


class ConsumerGroups:
    """Keeps the groups, and what operations on them need. `classic` are the shard's classic groups.

    `by_id` is durable state: only the replay of records changes it. `fence` is the operation that removes a member
    whose time is over.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: ConsumerGroupConfig,
        topics: TopicsPort,
        new_member_id: Callable[[], str],
        classic: ClassicGroups,
        metrics: ConsumerGroupMetrics,
        fence: Callable[[ConsumerGroups, Overdue], Outcome[None] | None],
    ) -> None:
        self.context = context
        self.config = config
        self.topics = topics
        self.new_member_id = new_member_id
        self.classic = classic
        self.metrics = metrics
        self.by_id: dict[str, ConsumerGroup] = {}
        self.timeouts: Timeouts[ConsumerMember] = Timeouts(
            context, self._session_timeout_of, lambda overdue: fence(self, overdue)
        )
        self._topic_hashes: dict[str, int] = {}

    # -- groups

    def find(self, group_id: str) -> ConsumerGroup | None:
        return self.by_id.get(group_id)

    def add(self, group_id: str) -> ConsumerGroup:
        group = self.by_id[group_id] = ConsumerGroup(group_id)
        return group

    def get(self, group_id: str) -> ConsumerGroup:
        """Raises GroupIdNotFound."""
        group = self.by_id.get(group_id)
        if group is None:
            raise self.not_found(group_id)
        return group

    def not_found(self, group_id: str, what: str = "Group") -> KafkaError:
        """The error for a missing consumer group; `what` is Kafka's word for the group that does not exist."""
        if self.classic.find(group_id) is not None:
            return GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return GroupIdNotFound(f"{what} {group_id} not found.")

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return tuple(group_tombstones(self.by_id[group_id]))

    # -- topics

    def metadata_hash(self, names: Iterable[str]) -> int:
        """Kafka's hash over those of the named topics that exist."""
        hashes = {}
        for name in names:
            found = self._topic_hashes.get(name)
            if found is None and (image := self.topics.by_name(name)) is not None:
                found = self._topic_hashes[name] = topic_hash(image)
            if found is not None:
                hashes[name] = found
        return group_hash(hashes)

    def topic_changed(self, name: str) -> None:
        """Groups that subscribe to the topic check it again at their next heartbeat."""
        self._topic_hashes.pop(name, None)
        for group in self.by_id.values():
            if name in group.subscribed_topics:
                group.is_fresh = False

    def mark_fresh(self, group_id: str) -> None:
        group = self.by_id.get(group_id)
        if group is not None:
            group.is_fresh = True

    # -- sessions

    def _session_timeout_of(self, group_id: str, member: ConsumerMember) -> int:
        if member.classic is None:
            return self.config.session_timeout_of(group_id)
        return member.classic.session_timeout_ms

    # -- load

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire."""
        for group in self.by_id.values():
            for member in group.members.values():
                self.timeouts.start_session(group.group_id, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self.timeouts.start_rebalance(group.group_id, member)

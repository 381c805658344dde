"""The streams groups of one shard of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from coordinator.group.consumer.timeouts import Overdue, Timeouts
from coordinator.group.consumer.topics_port import TopicsPort
from coordinator.group.streams.config import StreamsGroupConfig
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import StreamsMember
from coordinator.group.streams.records import group_tombstones
from coordinator.group.streams.states import MemberState
from coordinator.group.streams.topology import required_topics
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import GroupIdNotFound

_INITIAL_DELAY = "streams-initial-rebalance"


class StreamsGroups:
    """Keeps the groups. `by_id` is durable state: only the replay of records changes it.

    `metadata_hash` is Kafka's hash over those of the named topics that exist. `fence` is the operation that removes a
    member whose time is over, `assign` the one that makes a group's first target once its delay is over.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: StreamsGroupConfig,
        topics: TopicsPort,
        metadata_hash: Callable[[Iterable[str]], int],
        fence: Callable[[StreamsGroups, Overdue], Outcome[None] | None],
        assign: Callable[[StreamsGroups, str], Outcome[None] | None],
    ) -> None:
        self.context = context
        self.config = config
        self.topics = topics
        self.metadata_hash = metadata_hash
        self.by_id: dict[str, StreamsGroup] = {}
        self.timeouts: Timeouts[StreamsMember] = Timeouts(
            context, lambda group_id, _: config.session_timeout_of(group_id), lambda overdue: fence(self, overdue)
        )
        self._assign = assign

    def find(self, group_id: str) -> StreamsGroup | None:
        return self.by_id.get(group_id)

    def get(self, group_id: str) -> StreamsGroup:
        """Raises GroupIdNotFound."""
        group = self.by_id.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Streams group {group_id} not found.")
        return group

    def add(self, group_id: str) -> StreamsGroup:
        group = self.by_id[group_id] = StreamsGroup(group_id)
        return group

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return tuple(group_tombstones(self.by_id[group_id]))

    def topic_changed(self, name: str) -> None:
        """Groups that need the topic look at their topology again at their next heartbeat."""
        for group in self.by_id.values():
            if group.topology is not None and name in required_topics(group.topology):
                group.is_fresh = False

    def partition_count(self, name: str) -> int | None:
        topic = self.topics.by_name(name)
        return None if topic is None else topic.partition_count

    # -- the delay of the first assignment

    def is_delayed(self, group_id: str) -> bool:
        return (_INITIAL_DELAY, group_id) in self.context.timers

    def start_delay(self, group_id: str, delay_ms: int) -> None:
        self.context.timers.schedule((_INITIAL_DELAY, group_id), delay_ms, lambda _: self._assign(self, group_id))

    # -- load

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire."""
        for group in self.by_id.values():
            for member in group.members.values():
                self.timeouts.start_session(group.group_id, member)
                if member.state is MemberState.UNREVOKED_TASKS:
                    self.timeouts.start_rebalance(group.group_id, member)

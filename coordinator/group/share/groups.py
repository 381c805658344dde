"""The share groups of one shard of the group coordinator, and the sessions of their members."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from uuid import UUID

from coordinator.group.consumer.topics_port import TopicsPort
from coordinator.group.share.config import ShareGroupConfig
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import group_tombstones, without_topics
from coordinator.group.share.records import state as state_record
from coordinator.group.share.state_port import ShareStatePort
from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import GroupIdNotFound

_SESSION = "share-session"

RETRY_MS = 500
"""Delay in ms before a removal that could not be written is retried."""


class ShareGroups:
    """Keeps the groups. `by_id` is durable state: only the replay of records changes it.

    `metadata_hash` is Kafka's hash over those of the named topics that exist. `fence` is the operation that removes a
    member whose session is over.
    """

    def __init__(
        self,
        context: CoordinatorContext[Any],
        config: ShareGroupConfig,
        topics: TopicsPort,
        metadata_hash: Callable[[Iterable[str]], int],
        state: ShareStatePort,
        fence: Callable[[ShareGroups, str, str], Outcome[None] | None],
    ) -> None:
        self.context = context
        self.config = config
        self.topics = topics
        self.metadata_hash = metadata_hash
        self.state = state
        self.by_id: dict[str, ShareGroup] = {}
        self._fence = fence
        self._session_ends: dict[tuple[str, str], float] = {}

    def find(self, group_id: str) -> ShareGroup | None:
        return self.by_id.get(group_id)

    def get(self, group_id: str) -> ShareGroup:
        """Raises GroupIdNotFound."""
        group = self.by_id.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"Share group {group_id} not found.")
        return group

    def add(self, group_id: str) -> ShareGroup:
        group = self.by_id[group_id] = ShareGroup(group_id)
        return group

    def deletion(self, group_id: str) -> Sequence[CoordinatorRecord]:
        return tuple(group_tombstones(self.by_id[group_id]))

    def topic_changed(self, name: str) -> None:
        """Groups that subscribe to the topic check it again at their next heartbeat."""
        for group in self.by_id.values():
            if group.is_subscribed_to_topic(name):
                group.is_fresh = False

    def topics_deleted(self, topic_ids: Collection[UUID]) -> Outcome[None]:
        """Forget that these topics have a state: they are gone, and the share coordinator forgets it by itself."""
        left = {group_id: without_topics(group.state, topic_ids) for group_id, group in self.by_id.items()}
        changed = [
            state_record(group_id, value) for group_id, value in left.items() if value != self.by_id[group_id].state
        ]
        return Outcome(changed, atomic=False)

    # -- sessions

    def start_session(self, group_id: str, member_id: str) -> None:
        timeout_ms = self.config.session_timeout_of(group_id)
        self._schedule(group_id, member_id, timeout_ms)

    def _schedule(self, group_id: str, member_id: str, delay_ms: float) -> None:
        def due(_: Any) -> Outcome[None] | None:
            return self._fence(self, group_id, member_id)

        self._session_ends[group_id, member_id] = self.context.clock.monotonic_ms() + delay_ms
        self.context.timers.schedule((_SESSION, group_id, member_id), delay_ms, due)

    def left_ms(self, group_id: str, member_id: str) -> float | None:
        """How long the member's session lasts without another sign of life; None if it has none."""
        ends_ms = self._session_ends.get((group_id, member_id))
        return None if ends_ms is None else ends_ms - self.context.clock.monotonic_ms()

    def end_session_later(self, group_id: str, member_id: str) -> None:
        """The removal could not be written."""
        self._schedule(group_id, member_id, RETRY_MS)

    def end_session(self, group_id: str, member_id: str) -> None:
        self._session_ends.pop((group_id, member_id), None)
        self.context.timers.cancel((_SESSION, group_id, member_id))

    def expire_session(self, group_id: str, member_id: str) -> Outcome[None] | None:
        """The operation by which the member's session is over now."""
        self.end_session(group_id, member_id)
        return self._fence(self, group_id, member_id)

    def loaded(self) -> None:
        """Members found in the log count as alive until their sessions expire."""
        for group in self.by_id.values():
            for member_id in group.members:
                self.start_session(group.group_id, member_id)

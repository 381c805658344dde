"""The rig for share groups: members that send heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.group.kinds import ShareGroupConfig
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.heartbeat import ShareHeartbeat, ShareHeartbeatAnswer, check_request, share_group_heartbeat
from protocol.coordinator_records.record_schema import Partitions
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.offsets.rig import OffsetRig

GROUP = "sharers"


class ShareRig(OffsetRig):
    """`await ShareRig.having({"a": 4}, session_timeout_ms=...)`: topics with so many partitions, and settings."""

    @classmethod
    async def having(cls, topics: Mapping[str, int], *, assignment_interval_ms: int = 0, **config: Any) -> ShareRig:
        rig = cls(initial_rebalance_delay_ms=0)
        rig.share_config = ShareGroupConfig(assignment_interval=lambda: assignment_interval_ms, **config)
        for name, partitions in topics.items():
            rig.topics.create(name, partitions)
        await rig.restart()
        return rig

    def beat(
        self, member: str = "m", epoch: int = 0, topics: Sequence[str] | None = None, group: str = GROUP
    ) -> ShareHeartbeatAnswer:
        """Send a heartbeat. Raises KafkaErrors."""
        subscribed = None if topics is None else tuple(topics)
        request = ShareHeartbeat(group, member, epoch, None, subscribed, "client", "/host")
        check_request(request)
        return ask(self.runtime, lambda state: share_group_heartbeat(state.groups.modern, request)).result()

    def joined(self, member: str, *topics: str) -> ShareHeartbeatAnswer:
        """A member that has joined, and was assigned something once the states were made."""
        answer = self.beat(member, 0, topics)
        return self.beat(member, answer.member_epoch)

    @property
    def sharers(self) -> ShareGroup:
        group = self.shard.groups.modern.find(ShareGroup, GROUP)
        assert group is not None
        return group

    def of(self, **partitions: Sequence[int]) -> Partitions:
        """Partitions by topic names: `of(a=(0, 1))`."""
        found = {}
        for name, indexes in partitions.items():
            image = self.topics.by_name(name)
            assert image is not None
            found[image.id] = frozenset(indexes)
        return found

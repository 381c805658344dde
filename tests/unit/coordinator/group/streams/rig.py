"""The rig for streams groups: members that send heartbeats, and a broker that makes internal topics if it is let."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.group.kinds import StreamsGroupConfig
from coordinator.group.streams.group import (
    NO_TASKS,
    StreamsGroup,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
    check_request,
    task_ids,
)
from coordinator.group.streams.heartbeat import streams_group_heartbeat
from coordinator.group.streams.topology import Status
from protocol.coordinator_records.streams_group_records import StreamsGroupTopologyValue, Subtopology, Tasks, TopicInfo
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.offsets.rig import OffsetRig
from tests.unit.coordinator.group.rig import GROUP


def topology(*sources: str, stateful: bool = False, epoch: int = 0) -> StreamsGroupTopologyValue:
    """One subtopology `0` that reads these topics, and keeps its state in `c`."""
    changelogs = (TopicInfo("c", 0, 0, ()),) if stateful else ()
    return StreamsGroupTopologyValue(epoch, (Subtopology("0", sources, changelogs=changelogs),))


def active(*partitions: int) -> Tasks:
    return NO_TASKS._replace(active=task_ids([("0", index) for index in partitions]))


class StreamsRig(OffsetRig):
    """`await StreamsRig.having({"a": 4}, session_timeout_ms=...)`: topics with so many partitions, and settings.

    There is no delay and no interval unless they are given. Internal topics are made at once while `makes_topics`.
    """

    makes_topics = True

    @classmethod
    async def having(cls, topics: Mapping[str, int], *, assignment_interval_ms: int = 0, **config: Any) -> StreamsRig:
        rig = cls(initial_rebalance_delay_ms=0)
        rig.streams_config = StreamsGroupConfig(
            **{"initial_rebalance_delay_ms": 0, "assignment_interval": lambda: assignment_interval_ms, **config}
        )
        for name, partitions in topics.items():
            rig.topics.create(name, partitions)
        await rig.restart()
        return rig

    def send(self, member: str, epoch: int, **fields: Any) -> StreamsHeartbeatAnswer:
        """Send a heartbeat. Raises KafkaErrors."""
        request = StreamsHeartbeat(GROUP, member, epoch, client_id="client", client_host="/host", **fields)
        check_request(request)
        answer = ask(self.runtime, lambda state: streams_group_heartbeat(state.groups.modern, request)).result()
        if self.makes_topics:
            for topic in answer.to_create:
                self.create(topic.name, topic.partitions)
        return answer

    def create(self, name: str, partitions: int) -> None:
        self.topics.create(name, partitions)
        self.topic_changed(name)

    def topic_changed(self, name: str) -> None:
        self.shard.groups.modern.topic_changed(name)
        self.shard.groups.modern.topic_changed(name)

    def join(
        self, member: str, wanted: StreamsGroupTopologyValue | None = None, **fields: Any
    ) -> StreamsHeartbeatAnswer:
        """Join with a process of its own."""
        return self.send(
            member,
            0,
            **{
                "rebalance_timeout_ms": 60_000,
                "topology": topology("a") if wanted is None else wanted,
                "owned": NO_TASKS,
                "process_id": f"process of {member}",
                **fields,
            },
        )

    @property
    def streams(self) -> StreamsGroup:
        group = self.shard.groups.modern.find(StreamsGroup, GROUP)
        assert group is not None
        return group


class Client:
    """A member that does what it is told: it owns what it is assigned, and says so."""

    def __init__(self, rig: StreamsRig, name: str, wanted: StreamsGroupTopologyValue | None = None) -> None:
        self.rig, self.name, self.wanted = rig, name, wanted
        self.epoch = 0
        self.owned = NO_TASKS
        self.statuses: tuple[Status, ...] = ()

    def beat(self, **fields: Any) -> StreamsHeartbeatAnswer:
        if self.epoch:
            answer = self.rig.send(self.name, self.epoch, **{"owned": self.owned, **fields})
        else:
            answer = self.rig.join(self.name, self.wanted, **fields)
        self.epoch = answer.member_epoch
        self.statuses = tuple(problem.status for problem in answer.statuses)
        if answer.assigned is not None:
            self.owned = answer.assigned
        return answer

    @property
    def partitions(self) -> list[int]:
        return sorted(self.owned.active.get("0", ()))


def settle(clients: Iterable[Client]) -> None:
    """Let all send heartbeats until nothing changes."""
    for _ in range(6):
        for client in clients:
            client.beat()

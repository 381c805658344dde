"""A streams group's topology, and members that own what they are assigned."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_heartbeat.v0.request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig

GROUP = "app"
CONFIG = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    pairs = tuple(KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items())
    return TopicInfo(name=name, partitions=partitions, replication_factor=1, topic_configs=pairs)


def topology(*changelogs: TopicInfo, source: str = "t") -> Topology:
    """A word count: `0` reads a topic and writes a repartition topic, which `1` reads and keeps its state of."""
    nothing: dict[str, Any] = {"source_topic_regex": (), "copartition_groups": ()}
    first = Subtopology(
        subtopology_id="0",
        source_topics=(source,),
        state_changelog_topics=(),
        repartition_sink_topics=("app-r",),
        repartition_source_topics=(),
        **nothing,
    )
    joined = CopartitionGroup(source_topics=(), source_topic_regex=(), repartition_source_topics=(0,))
    second = Subtopology(
        subtopology_id="1",
        source_topics=(),
        state_changelog_topics=changelogs,
        repartition_sink_topics=(),
        repartition_source_topics=(internal("app-r", cleanup_policy="delete"),),
        **{**nothing, "copartition_groups": (joined,)},
    )
    return Topology(epoch=0, subtopologies=(first, second))


STATEFUL = topology(internal("app-c", cleanup_policy="compact"))


class Member:
    """A member that owns what it is assigned."""

    def __init__(self, rig: Rig, name: str = "m", version: int = 1) -> None:
        self._client: Client = rig.connect()
        self._name = name
        self._version = version
        self.epoch = 0
        self.active: tuple[TaskIds, ...] = ()

    async def beat(self, **fields: Any) -> Any:
        joins = self.epoch == 0
        answer = await self._client.ask(
            "streams_group_heartbeat",
            self._version,
            **{
                "group_id": GROUP,
                "member_id": self._name,
                "member_epoch": self.epoch,
                "endpoint_information_epoch": -1,
                "instance_id": None,
                "rack_id": None,
                "rebalance_timeout": timedelta(seconds=60 if joins else -0.001),
                "topology": STATEFUL if joins else None,
                "active_tasks": self.active,
                "standby_tasks": (),
                "warmup_tasks": (),
                "process_id": f"process of {self._name}",
                "user_endpoint": Endpoint(host=self._name, port=7),
                "client_tags": (),
                "task_offsets": None,
                "task_end_offsets": None,
                "shutdown_application": False,
                **fields,
            },
        )
        await settle()
        if answer.error_code is ErrorCode.none and "member_epoch" not in fields:
            self.epoch = answer.member_epoch
            if answer.active_tasks is not None:
                self.active = tuple(
                    TaskIds(subtopology_id=each.subtopology_id, partitions=each.partitions)
                    for each in answer.active_tasks
                )
        return answer

    @property
    def tasks(self) -> dict[str, tuple[int, ...]]:
        return {each.subtopology_id: tuple(each.partitions) for each in self.active}

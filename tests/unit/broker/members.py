"""Members of groups for tests of a whole node, of either protocol: each says what a client would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kio.schema.consumer_group_heartbeat.v1.request import TopicPartitions
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from protocol.consumer_protocol import serialize_assignment
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer

SESSION_S = 10
REBALANCE_S = 60
TICK_MS = 1
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
JOIN, SYNC, HEARTBEAT = ("join_group", 9), ("sync_group", 5), ("consumer_group_heartbeat", 1)


def subscription(*topics: str) -> bytes:
    """A ConsumerProtocolSubscription of version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class ClassicMember:
    """A member of a classic group, on a connection of its own."""

    def __init__(self, rig: Rig, group: str, *topics: str, client_id: str = "c1", instance: str | None = None) -> None:
        self._rig = rig
        self.client = rig.connect()
        self.group = group
        self.topics = topics
        self.client_id = client_id
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    async def send_join(self) -> None:
        """Send a JoinGroup with a member id; its answer may have to wait."""
        await self._rig.node.coordinators.groups.ensure_topic()
        if not self.member_id and self.instance is None:
            self._join()
            await settle()
            (reply,) = self.client.replies()
            self.member_id = answer(reply, *JOIN).member_id
        self._join()
        await self._rig.clock.run(TICK_MS)  # the initial rebalance delay of 0

    def _join(self) -> None:
        self.client.send(
            *JOIN,
            client_id=self.client_id,
            group_id=self.group,
            session_timeout=timedelta(seconds=SESSION_S),
            rebalance_timeout=timedelta(seconds=REBALANCE_S),
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription(*self.topics)),),
            reason=None,
        )

    def joined(self) -> Any:
        """The answer to the JoinGroup that was sent."""
        (reply,) = self.client.replies()
        told = answer(reply, *JOIN)
        self.member_id, self.generation, self.leader = told.member_id, told.generation_id, told.leader
        return told

    async def sync(self, assignments: Mapping[str, Mapping[str, Sequence[int]]] | None = None) -> None:
        """Send a SyncGroup; the leader's has the partitions by member id and topic."""
        self.client.send(
            *SYNC,
            client_id=self.client_id,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=who, assignment=serialize_assignment(0, partitions.items()))
                for who, partitions in (assignments or {}).items()
            ),
        )
        await settle()

    async def enter(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Be the only member, with these partitions."""
        await self.send_join()
        assert self.joined().error_code.name == "none"
        await self.sync({self.member_id: partitions})
        (reply,) = self.client.replies()
        assert answer(reply, *SYNC).error_code.name == "none"

    async def heartbeat(self) -> str:
        told = await self.client.ask(
            "heartbeat",
            4,
            client_id=self.client_id,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        return str(told.error_code.name)

    async def commit(self, topic: str, offsets: Mapping[int, int]) -> list[str]:
        return await commit(self.client, self.group, topic, offsets, self.generation, self.member_id)


class ConsumerMember:
    """A member of a group of the consumer protocol."""

    def __init__(self, rig: Rig, group: str, *topics: str, client_id: str = "c1", instance: str | None = None) -> None:
        self._rig = rig
        self.client = rig.connect()
        self.group = group
        self.topics = topics
        self.client_id = client_id
        self.instance = instance
        self.member_id = f"member-of-{client_id}-padded"[:22]
        self.epoch = 0

    async def heartbeat(self, owned: Sequence[TopicPartitions] | None = None) -> Any:
        """Join, or go on; at first nothing is owned."""
        await self._rig.node.coordinators.groups.ensure_topic()
        joins = self.epoch == 0
        self.client.send(
            *HEARTBEAT,
            client_id=self.client_id,
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rack_id=None,
            rebalance_timeout=timedelta(seconds=REBALANCE_S) if joins else timedelta(milliseconds=-1),
            subscribed_topic_names=self.topics if joins else None,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=() if joins else owned,
        )
        await self._rig.clock.run(TICK_MS)  # the linger of 0
        (reply,) = self.client.replies()
        told = answer(reply, *HEARTBEAT)
        if told.error_code.name == "none":
            self.epoch = told.member_epoch
        return told


async def commit(
    client: Client, group: str, topic: str, offsets: Mapping[int, int], generation: int = -1, member_id: str = ""
) -> list[str]:
    """Commit; the error of each partition."""
    await client.rig.node.coordinators.groups.ensure_topic()
    partitions = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        for index, offset in offsets.items()
    )
    told = await client.ask(
        "offset_commit",
        9,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=None,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=partitions),),
    )
    return [partition.error_code.name for topic in told.topics for partition in topic.partitions]

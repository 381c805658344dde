"""A share group on a whole node: its topic, and members that know what they must send next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.share_acknowledge.v2.request import AcknowledgementBatch as Acknowledged
from kio.schema.share_acknowledge.v2.request import AcknowledgePartition, AcknowledgeTopic
from kio.schema.share_fetch.v2.request import AcknowledgementBatch, FetchPartition, FetchTopic

from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, produce

GROUP = "sharers"
CONFIG = {
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
SET = 0


class Member:
    """A share consumer of one topic, which knows what it must send next. It acknowledges records of partition 0."""

    def __init__(self, rig: Rig, topic: UUID, name: str = "m", *, partitions: int = 1) -> None:
        self._client: Client = rig.connect()
        self._topic = topic
        self._name = name
        self._partitions = partitions
        self._heartbeat_epoch = 0
        self.epoch = 0

    async def join(self) -> None:
        for topics in (("t",), None, None):
            await self.beat(topics)

    async def leave(self) -> None:
        self._heartbeat_epoch = -1
        await self.beat(None)

    async def beat(self, topics: tuple[str, ...] | None) -> None:
        answer = await self._client.ask(
            "share_group_heartbeat",
            1,
            group_id=GROUP,
            member_id=self._name,
            member_epoch=self._heartbeat_epoch,
            rack_id=None,
            subscribed_topic_names=topics,
        )
        assert answer.error_code is ErrorCode.none
        self._heartbeat_epoch = answer.member_epoch

    def send_fetch(
        self,
        *acknowledged: tuple[int, int, int],
        wait_ms: int = 0,
        epoch: int | None = None,
        records: int = 500,
        min_bytes: int = 1,
    ) -> None:
        given = tuple(
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(kind,))
            for first, last, kind in acknowledged
        )
        partitions = tuple(
            FetchPartition(partition_index=index, acknowledgement_batches=() if index else given)
            for index in range(self._partitions)
        )
        self._client.send(
            "share_fetch",
            2,
            group_id=GROUP,
            member_id=self._name,
            share_session_epoch=self.epoch if epoch is None else epoch,
            max_wait=timedelta(milliseconds=wait_ms),
            min_bytes=min_bytes,
            max_bytes=8 << 20,
            max_records=records,
            batch_size=records,
            share_acquire_mode=0,
            is_renew_ack=False,
            topics=(FetchTopic(topic_id=self._topic, partitions=partitions),),
            forgotten_topics_data=(),
        )
        self.epoch += 1

    async def fetch(self, *acknowledged: tuple[int, int, int], **options: Any) -> Any:
        """The partition's part of the answer, None if there is none; the whole answer if it is an error."""
        self.send_fetch(*acknowledged, **options)
        await settle()
        return self.fetched()

    def fetched(self) -> Any:
        (reply,) = self._client.replies()
        found = answer(reply, "share_fetch", 2)
        if found.error_code is not ErrorCode.none:
            return found
        return found.responses[0].partitions[0] if found.responses else None

    @property
    def is_waiting(self) -> bool:
        return not self._client.transport.sent[self._client._read :]

    async def acknowledge(self, first: int, last: int, *kinds: int, final: bool = False) -> ErrorCode:
        given = Acknowledged(first_offset=first, last_offset=last, acknowledge_types=kinds)
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=(given,))
        found = await self._client.ask(
            "share_acknowledge",
            2,
            group_id=GROUP,
            member_id=self._name,
            share_session_epoch=-1 if final else self.epoch,
            is_renew_ack=RENEW in kinds,
            topics=(AcknowledgeTopic(topic_id=self._topic, partitions=(partition,)),),
        )
        self.epoch = 0 if final else self.epoch + 1
        if found.error_code is not ErrorCode.none:
            return ErrorCode(found.error_code)
        return ErrorCode(found.responses[0].partitions[0].error_code)

    def hang_up(self) -> None:
        self._client.transport.reset()


def acquired(partition: Any) -> list[tuple[int, int, int]]:
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]


class Shared:
    """A node with topic t, a group that reads it from the start, and a member."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    async def started(self, configs: Mapping[str, str] | None = None, *, partitions: int = 1) -> Shared:
        await self.rig.create("t", partitions)
        await self.rig.node.coordinators.groups.ensure_topic()
        await self.configure(**{"share.auto.offset.reset": "earliest", **(configs or {})})
        return self

    async def configure(self, **configs: str) -> None:
        await self._alter(32, GROUP, configs)

    async def configure_cluster(self, **configs: str) -> None:
        await self._alter(4, "", configs)

    async def allow_dead_letters(self, topic: str) -> None:
        """Let share groups use the topic as their queue."""
        await self._alter(2, topic, {"errors.deadletterqueue.group.enable": "true"})

    async def _alter(self, resource_type: int, name: str, configs: Mapping[str, str]) -> None:
        changes = tuple(AlterableConfig(name=key, config_operation=SET, value=value) for key, value in configs.items())
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=changes)
        done = await self.rig.connect().ask("incremental_alter_configs", 1, resources=(resource,), validate_only=False)
        assert [one.error_code.name for one in done.responses] == ["none"], done.responses

    @property
    def topic_id(self) -> UUID:
        topic = self.rig.node.cluster.cache.topic("t")
        assert topic is not None
        return topic.id

    async def member(self, name: str = "m", *, partitions: int = 1) -> Member:
        member = Member(self.rig, self.topic_id, name, partitions=partitions)
        await member.join()
        return member

    async def delete_group(self) -> ErrorCode:
        answer = await self.rig.connect().ask("delete_groups", 2, groups_names=(GROUP,))
        return ErrorCode(answer.results[0].error_code)

    async def produce(self, *values: bytes) -> None:
        done = await self.rig.connect().ask("produce", 9, **produce("t", {0: batch(*values)}))
        assert done.responses[0].partition_responses[0].error_code is ErrorCode.none

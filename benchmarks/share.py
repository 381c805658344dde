"""Share groups (KIP-932), beside Apache Kafka's: `python -m benchmarks.share --help`.

The members speak by hand, one connection each. One member takes all records of a partition, 500 at a time, and accepts
them with its next fetch; one acknowledges ten records at a time by a request of its own; 100 members share a partition;
and one holds 100,000 records of 50 partitions, while the broker's memory is looked at.
"""

from __future__ import annotations

import asyncio
import statistics
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop
from confluent_kafka import Producer
from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.metadata.v12 import MetadataRequest
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.share_acknowledge.v1 import ShareAcknowledgeRequest
from kio.schema.share_acknowledge.v1 import request as acknowledge
from kio.schema.share_fetch.v1 import ShareFetchRequest
from kio.schema.share_fetch.v1 import request as fetch
from kio.schema.share_group_heartbeat.v1 import ShareGroupHeartbeatRequest

from benchmarks.by_hand import Asker, together
from benchmarks.compare import compare
from benchmarks.contenders import Contender
from benchmarks.groups import coordinated
from benchmarks.measures import Topic, cpu_seconds
from broker.peers.call import entity_call
from protocol.schema import Entity

GROUP_RESOURCE = 32
ACCEPT = 1
RECORDS = 20_000
ACKNOWLEDGEMENTS = 500
SHARERS, SHARED_RECORDS = 100, 10_000
HELD_PARTITIONS, HELD_OF_EACH = 50, 2_000
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}

Acquired = dict[int, tuple[tuple[int, int], ...]]
"""Ranges of offsets by partition."""


class Member(Asker):
    """One member of a share group, on its connection, that reads partitions of one topic."""

    def __init__(self, group: str, topic_id: UUID, partitions: int = 1) -> None:
        super().__init__()
        self._group = group
        self._member_id = str(uuid.uuid4())
        self._topic_id = topic_id
        self._partitions = partitions
        self._epoch = 0

    async def call(self, request: Entity) -> Any:
        made = entity_call(request)
        return made.read(bytes(4) + await self.ask(bytes(made.frame(made.highest, 0, b"bench"))), made.highest)

    async def join(self, topic: str) -> None:
        """Join, and go on until all partitions have a state that can be fetched."""
        epoch, count = 0, 0
        while count < self._partitions:
            answer = await self.call(
                ShareGroupHeartbeatRequest(
                    group_id=self._group,
                    member_id=self._member_id,
                    member_epoch=epoch,
                    rack_id=None,
                    subscribed_topic_names=(topic,),
                )
            )
            if answer.error_code.name == "none":
                epoch = answer.member_epoch
                found = () if answer.assignment is None else answer.assignment.topic_partitions
                count = max(count, sum(len(one.partitions) for one in found))
            await asyncio.sleep(0.02)

    async def fetch(self, accepted: Acquired, records: int, wait_ms: int = 500) -> Acquired:
        """Accept what was acquired before, and acquire more."""
        partitions = tuple(
            fetch.FetchPartition(
                partition_index=index,
                acknowledgement_batches=tuple(
                    fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,))
                    for first, last in accepted.get(index, ())
                ),
            )
            for index in range(self._partitions)
            if index in accepted or self._epoch == 0
        )
        topics = (fetch.FetchTopic(topic_id=self._topic_id, partitions=partitions),) if partitions else ()
        answer = await self.call(
            ShareFetchRequest(
                group_id=self._group,
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                max_wait=timedelta(milliseconds=wait_ms),
                min_bytes=1,
                max_bytes=50 << 20,
                max_records=records,
                batch_size=records,
                topics=topics,
                forgotten_topics_data=(),
            )
        )
        assert answer.error_code.name == "none", answer
        self._epoch += 1
        return {
            one.partition_index: tuple((each.first_offset, each.last_offset) for each in one.acquired_records)
            for topic in answer.responses
            for one in topic.partitions
            if one.acquired_records
        }

    async def acknowledge(self, acquired: Acquired) -> None:
        """Accept records by a request of their own."""
        partitions = tuple(
            acknowledge.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=tuple(
                    acknowledge.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,))
                    for first, last in ranges
                ),
            )
            for index, ranges in acquired.items()
        )
        answer = await self.call(
            ShareAcknowledgeRequest(
                group_id=self._group,
                member_id=self._member_id,
                share_session_epoch=self._epoch,
                topics=(acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=partitions),),
            )
        )
        assert answer.error_code.name == "none", answer
        self._epoch += 1


async def connect(port: int, group: str, topic_id: UUID, partitions: int = 1) -> Member:
    loop = asyncio.get_running_loop()
    _, member = await loop.create_connection(lambda: Member(group, topic_id, partitions), "127.0.0.1", port)
    return member


async def prepared(port: int, topic: str) -> tuple[str, UUID]:
    """A new group that reads from the start, and the topic's id."""
    group = f"bench-{uuid.uuid4().hex[:8]}"
    await coordinated(port, group)
    asker = await connect(port, group, UUID(int=0))
    change = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=(change,))
    await asker.call(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False))
    wanted = MetadataRequestTopic(topic_id=UUID(int=0), name=topic)
    request = MetadataRequest(
        topics=(wanted,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    found = await asker.call(request)
    asker.transport.close()
    return group, found.topics[0].topic_id


def count(acquired: Acquired) -> int:
    return sum(last - first + 1 for ranges in acquired.values() for first, last in ranges)


async def drain(members: Sequence[Member], total: int, records: int) -> float:
    """Records a second that the members accept together, until so many are."""
    left = total

    async def work(member: Member) -> None:
        nonlocal left
        acquired: Acquired = {}
        while left > 0:
            acquired = await member.fetch(acquired, records, wait_ms=100)
            left -= count(acquired)
        await member.fetch(acquired, 1, wait_ms=0)

    began = time.perf_counter()
    await together([work(member) for member in members])
    return total / (time.perf_counter() - began)


async def acknowledgements(member: Member) -> list[float]:
    """Seconds that each took."""
    took = []
    for _ in range(ACKNOWLEDGEMENTS):
        acquired: Acquired = {}
        while not acquired:
            acquired = await member.fetch({}, 10)
        began = time.perf_counter()
        await member.acknowledge(acquired)
        took.append(time.perf_counter() - began)
    return took


def produce(port: int, topic: str, partitions: int, of_each: int, in_batch: int) -> None:
    """Records of 100 bytes, so many in a batch."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "batch.num.messages": in_batch,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
        }
    )
    for index in range(partitions):
        for _ in range(of_each):
            producer.produce(topic, b"x" * 100, partition=index)
        producer.poll(0)
    assert producer.flush(60) == 0, "records are left"


def resident_mb(pid: int) -> float:
    """Memory of the process, in MB."""
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def one_pass(contender: Contender) -> dict[str, float]:
    """Every measure once, by name."""
    port, pid, found = contender.port, contender.pid(), dict[str, float]()
    bootstrap = f"127.0.0.1:{port}"
    with Topic(bootstrap, 1) as topic, Topic(bootstrap, HELD_PARTITIONS) as held:
        produce(port, topic, 1, RECORDS, in_batch=10)
        produce(port, held, HELD_PARTITIONS, HELD_OF_EACH, in_batch=100)
        uvloop.run(measure(port, pid, topic, held, found))
    return found


async def measure(port: int, pid: int, topic: str, held: str, found: dict[str, float]) -> None:
    group, topic_id = await prepared(port, topic)
    member = await connect(port, group, topic_id)
    await member.join(topic)
    before = cpu_seconds(pid)
    found["1 member, 500 at a time: records/s"] = await drain([member], RECORDS, 500)
    found["1 member: broker CPU us/record"] = (cpu_seconds(pid) - before) * 1e6 / RECORDS
    member.transport.close()

    group, topic_id = await prepared(port, topic)
    member = await connect(port, group, topic_id)
    await member.join(topic)
    found["acknowledgement of 10 records: p50 ms"] = statistics.median(await acknowledgements(member)) * 1000
    member.transport.close()

    group, topic_id = await prepared(port, topic)
    members = [await connect(port, group, topic_id) for _ in range(SHARERS)]
    await together([one.join(topic) for one in members])
    before = cpu_seconds(pid)
    found["100 members of a partition: records/s"] = await drain(members, SHARED_RECORDS, 10)
    found["100 members: broker CPU us/record"] = (cpu_seconds(pid) - before) * 1e6 / SHARED_RECORDS
    for one in members:
        one.transport.close()

    group, topic_id = await prepared(port, held)
    member = await connect(port, group, topic_id, HELD_PARTITIONS)
    await member.join(held)
    memory, holds = resident_mb(pid), 0
    while holds < HELD_PARTITIONS * HELD_OF_EACH:
        holds += count(await member.fetch({}, 500))
    found["100,000 records in flight: MB more"] = resident_mb(pid) - memory
    member.transport.close()


if __name__ == "__main__":
    compare("python -m benchmarks.share", __doc__, one_pass, SETTINGS)

"""Requests about a partition that another node leads: each API says so; and about one that nobody has."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition, OffsetForLeaderTopic

from protocol.durations import ZERO
from tests.unit.broker import wire
from tests.unit.broker.cluster_rig import ClusterRig

HERE, ELSEWHERE, NOWHERE = "none", "not_leader_or_follower", "unknown_topic_or_partition"


async def produce(cluster: ClusterRig, client: Any, index: int) -> str:
    answer = await cluster.ask(client, "produce", 9, **wire.produce("orders", {index: wire.batch(b"v")}))
    return name_of(answer.responses[0].partition_responses[0])


async def fetch(cluster: ClusterRig, client: Any, index: int) -> str:
    answer = await cluster.ask(client, "fetch", 12, **wire.fetch([("orders", index, 0)], max_wait_ms=0))
    return name_of(answer.responses[0].partitions[0])


async def list_offsets(cluster: ClusterRig, client: Any, index: int) -> str:
    partition = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1)
    topics = (ListOffsetsTopic(name="orders", partitions=(partition,)),)
    answer = await cluster.ask(client, "list_offsets", 9, replica_id=-1, isolation_level=0, topics=topics)
    return name_of(answer.topics[0].partitions[0])


async def offset_for_leader_epoch(cluster: ClusterRig, client: Any, index: int) -> str:
    partition = OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=0)
    topics = (OffsetForLeaderTopic(topic="orders", partitions=(partition,)),)
    answer = await cluster.ask(client, "offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    return name_of(answer.topics[0].partitions[0])


async def delete_records(cluster: ClusterRig, client: Any, index: int) -> str:
    partition = DeleteRecordsPartition(partition_index=index, offset=0)
    topics = (DeleteRecordsTopic(name="orders", partitions=(partition,)),)
    answer = await cluster.ask(client, "delete_records", 2, topics=topics, timeout=ZERO)
    return name_of(answer.topics[0].partitions[0])


async def describe_producers(cluster: ClusterRig, client: Any, index: int) -> str:
    topics = (TopicRequest(name="orders", partition_indexes=(index,)),)
    answer = await cluster.ask(client, "describe_producers", 0, topics=topics)
    return name_of(answer.topics[0].partitions[0])


def name_of(answer: Any) -> str:
    name: str = answer.error_code.name
    return name


ASKING = [produce, fetch, list_offsets, offset_for_leader_epoch, delete_records, describe_producers]


@pytest.mark.parametrize("ask", ASKING)
async def test_each_request_goes_to_the_leader(ask: Any) -> None:
    async with ClusterRig(brokers=1) as cluster:
        await cluster.create(1, "orders", 2)
        await cluster.clock.run(100)
        client = cluster.nodes[2].connect()
        topic = cluster.nodes[2].node.cluster.cache.image.topics.get("orders")
        assert topic is not None
        for index, partition in topic.in_order():
            assert await ask(cluster, client, index) == (HERE if partition.leader == 2 else ELSEWHERE)
        assert await ask(cluster, client, 7) == NOWHERE

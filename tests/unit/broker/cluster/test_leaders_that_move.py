"""What is decided before a wait, and used after it, while replicas, leaders or coordinators have changed meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from broker.replication.leading.alter_partition import IsrChange
from protocol.durations import MILLISECOND
from tests.doubles.workers import HeldLane
from tests.unit.broker.cluster.three_brokers import (
    ALL_PARTITIONS,
    GROUP,
    MINUTE,
    TRANSACTION,
    Cluster,
    Producer,
    offset_of,
)
from tests.unit.broker.cluster_rig import CONTROLLER
from tests.unit.broker.wire import answer


def led_by(cluster: Cluster, node_id: int) -> int:
    """A partition of topic `t`."""
    return next(index for index in range(ALL_PARTITIONS) if cluster.leader(index) == node_id)


@pytest.mark.long
async def test_markers_are_written_though_the_decision_was_committed_only_after_the_client_was_told_to_retry() -> None:
    async with Cluster(replicas=3, replica_lag_time_max_ms="120000") as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 3), 3)
        await producer.init()
        here = led_by(cluster, 3)
        assert await producer.send(here, b"v") == "none"
        index = cluster.nodes[3].node.coordinators.transactions.partition_for(producer.name)
        followers = [cluster.nodes[node_id].node.replicas for node_id in (1, 2)]
        for replicas in followers:
            replicas.fetchers.leave(replicas.find("__transaction_state", index))
        fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        first = await cluster.ask(
            producer.coordinator, "end_txn", 5, transactional_id=producer.name, committed=True, **fields
        )
        assert first.error_code.name == "coordinator_not_available"
        for replicas in followers:
            replicas.fetchers.follow(replicas.find("__transaction_state", index))
        await cluster.clock.run(5_000)
        partition = cluster.nodes[3].node.replicas.find("t", here)
        assert partition.last_stable_offset == partition.log_end_offset > 1


async def test_deleting_records_of_a_partition_that_is_led_elsewhere_meanwhile_is_not_said_to_be_done() -> None:
    """Followers that have not heard of it may still have the records."""
    async with Cluster(replicas=3) as cluster:
        await cluster.create_replicated("orders")
        leader = cluster.leader(0, "orders")
        other = leader % 3 + 1
        producer = cluster.client(leader)
        await cluster.produce(producer, "orders")
        for node_id in {1, 2, 3} - {leader}:
            replicas = cluster.nodes[node_id].node.replicas
            replicas.fetchers.leave(replicas.find("orders", 0))
        client = cluster.client(leader)
        asked = DeleteRecordsPartition(partition_index=0, offset=1)
        client.send(
            "delete_records",
            2,
            topics=(DeleteRecordsTopic(name="orders", partitions=(asked,)),),
            timeout=60_000 * MILLISECOND,
        )
        await cluster.clock.run(200)
        assert not client.replies()
        await cluster.move("orders", 0, other)
        await cluster.clock.run(1_000)
        found = answer(client.replies()[0], "delete_records", 2).topics[0].partitions[0]
        assert found.error_code.name == "not_leader_or_follower"


@pytest.mark.long
async def test_a_lookup_by_time_is_refused_if_the_partition_is_led_elsewhere_when_it_is_done() -> None:
    cluster = Cluster(replicas=3)
    lanes = {node_id: HeldLane("lookup /data") for node_id in cluster.nodes}
    for node_id, node in cluster.nodes.items():
        node.workers = lanes[node_id]
    async with cluster:
        await cluster.create_replicated("orders")
        leader = cluster.leader(0, "orders")
        await cluster.produce(cluster.client(leader), "orders")
        client = cluster.client(leader)
        asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=1)
        topics = (ListOffsetsTopic(name="orders", partitions=(asked,)),)
        client.send("list_offsets", 9, replica_id=-1, isolation_level=0, topics=topics)
        await cluster.clock.run(10)
        assert not client.replies()
        await cluster.move("orders", 0, leader % 3 + 1)
        await cluster.clock.run(1_000)
        lanes[leader].run_next()
        await cluster.clock.run(100)
        found: Any = answer(client.replies()[0], "list_offsets", 9).topics[0].partitions[0]
        assert found.error_code.name == "not_leader_or_follower"


async def test_offsets_of_a_transaction_whose_group_is_coordinated_elsewhere_meanwhile_are_for_that_coordinator() -> (
    None
):
    """Stock clients end for good when TxnOffsetCommit is answered NOT_LEADER_OR_FOLLOWER."""
    async with Cluster(replicas=3) as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 3), 3)
        await producer.init()
        group = await cluster.named(GROUP, 2)
        index = cluster.nodes[2].node.coordinators.groups.partition_for(group)
        followers = [cluster.nodes[node_id].node.replicas for node_id in (1, 2)]
        state = cluster.nodes[3].node.coordinators.transactions.partition_for(producer.name)
        for replicas in followers:
            replicas.fetchers.leave(replicas.find("__transaction_state", state))
        client = cluster.client(2)
        client.send("txn_offset_commit", 5, **producer.offsets(group, 7))
        await cluster.clock.run(100)
        assert not client.replies()
        await cluster.move("__consumer_offsets", index, 3)
        await cluster.clock.run(100)
        for replicas in followers:
            replicas.fetchers.follow(replicas.find("__transaction_state", state))
        await cluster.clock.run(2_000)
        found = answer(client.replies()[0], "txn_offset_commit", 5)
        assert found.topics[0].partitions[0].error_code.name == "not_coordinator"


async def test_coordinators_of_a_node_that_stops_load_nothing_though_it_follows_the_metadata_on() -> None:
    """What they would append then would come to logs that are being closed, or are closed."""
    async with Cluster(replicas=3) as cluster:
        coordinators = cluster.nodes[2].node.coordinators
        index = next(iter(coordinators.transactions.runtime.contexts())).partition
        coordinators.transactions.stop()
        away = next(number for number in range(ALL_PARTITIONS) if cluster.leader(number, "__transaction_state") == 3)
        await cluster.move("__transaction_state", away, CONTROLLER)
        await cluster.clock.run(1_000)
        assert cluster.leader(index, "__transaction_state") == 2
        assert not coordinators.transactions.runtime.contexts()


async def test_a_node_that_stops_fetches_nothing_and_proposes_nothing_though_it_follows_the_metadata_on() -> None:
    async with Cluster(replicas=3) as cluster:
        await cluster.create_replicated("orders")
        leader = cluster.leader(0, "orders")
        node = cluster.nodes[2].node
        await cluster.during(node.replicas.stop())
        for to in {1, 3} - {leader} | {2}:
            await cluster.move("orders", 0, to)
            await cluster.clock.run(1_000)
            assert cluster.leader(0, "orders") == to
            assert not list(node.replicas.fetchers)
        change = IsrChange(UUID(int=1), 0, 0, 0, ())
        assert not node.replicas.replication.controller.submit(change, lambda outcome: None)


async def test_offsets_of_a_topic_that_is_deleted_while_the_new_coordinator_loads_are_forgotten() -> None:
    """A topic of the same name that is made later must not begin with them."""
    cluster = Cluster(replicas=3)
    cluster.nodes[2].workers = reads = HeldLane("read /data")
    async with cluster:
        group = await cluster.named(GROUP, 3)
        assert await commit_offset(cluster, 3, group, 7) == "none"
        index = cluster.nodes[3].node.coordinators.groups.partition_for(group)
        await cluster.move("__consumer_offsets", index, 2)
        await cluster.clock.run(500)
        context = cluster.nodes[2].node.coordinators.groups.runtime.context(index)
        assert context is not None
        assert context.state is None, "it has loaded"
        wanted = DeleteTopicState(name="t", topic_id=None)
        deleted = await cluster.ask(cluster.client(1), "delete_topics", 6, topics=(wanted,), timeout=MINUTE)
        assert deleted.responses[0].error_code.name == "none"
        await cluster.clock.run(500)
        reads.run_next()
        await cluster.clock.run(500)
        assert await cluster.create(1, "t", 1) == "none"
        await cluster.clock.run(500)
        assert await offset_of(cluster, 2, group) == -1


async def commit_offset(cluster: Cluster, coordinator: int, group: str, offset: int) -> str:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    client = cluster.client(coordinator)
    answer = await cluster.ask(client, "offset_commit", 8, group_id=group, member_id="", topics=topics)
    name: str = answer.topics[0].partitions[0].error_code.name
    return name

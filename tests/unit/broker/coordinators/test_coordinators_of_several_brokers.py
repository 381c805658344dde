"""Transactions and groups whose coordinators, partitions and members are on different brokers."""

from __future__ import annotations

import pytest

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


async def test_a_transaction_over_the_partitions_of_three_brokers() -> None:
    async with Cluster() as cluster:
        assert {cluster.leader(index) for index in range(ALL_PARTITIONS)} == {1, 2, 3}
        for node_id in (1, 2, 3):
            producer = Producer(cluster, await cluster.named(TRANSACTION, node_id), node_id)
            await producer.init()
            for value, commit in ((b"kept-%d" % node_id, True), (b"dropped-%d" % node_id, False)):
                for index in range(ALL_PARTITIONS):
                    assert await producer.send(index, value) == "none"
                await producer.end(commit)
                await cluster.clock.run(500)
                for index in range(ALL_PARTITIONS):
                    partition = cluster.nodes[cluster.leader(index)].node.replicas.find("t", index)
                    assert partition.last_stable_offset == partition.log_end_offset


async def test_an_append_that_the_coordinator_does_not_know_is_refused_whatever_broker_it_comes_to() -> None:
    async with Cluster() as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 1), 1)
        await producer.init()
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"old client", version=11) == "transaction_abortable"
        producer.epoch += 1
        for index in range(ALL_PARTITIONS):
            assert await producer.send(index, b"unknown epoch") == "invalid_producer_epoch"


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_of_a_transaction_are_the_groups_after_its_end(commit: bool) -> None:
    async with Cluster() as cluster:
        group = await cluster.named(GROUP, 2)
        producer = Producer(cluster, await cluster.named(TRANSACTION, 3), 3)
        await producer.init()
        assert await producer.commit_offset(group, 2, 7) == "none"
        assert await producer.send(0, b"v") == "none"
        await producer.end(commit)
        await cluster.clock.run(500)
        committed = await offset_of(cluster, 2, group)
        assert committed == (7 if commit else -1)


async def test_markers_reach_a_leader_that_is_away_when_it_is_back() -> None:
    async with Cluster() as cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 2), 2)
        await producer.init()
        away = next(index for index in range(ALL_PARTITIONS) if cluster.leader(index) == 3)
        assert await producer.send(away, b"v") == "none"
        await cluster.kill(3)
        await producer.end(commit=True)
        await cluster.clock.run(20_000)
        assert cluster.leader(away) == -1
        await cluster.start(3)
        await cluster.clock.run(3_000)
        partition = cluster.nodes[3].node.replicas.find("t", away)
        assert partition.last_stable_offset == partition.log_end_offset > 1


async def test_what_another_broker_coordinates_is_refused_with_not_coordinator() -> None:
    async with Cluster() as cluster:
        name = await cluster.named(TRANSACTION, 1)
        fields = {"transactional_id": name, "transaction_timeout": MINUTE, "producer_id": -1, "producer_epoch": -1}
        answer = await cluster.ask(cluster.client(2), "init_producer_id", 4, **fields)
        assert answer.error_code.name == "not_coordinator"


async def test_what_a_coordinator_knew_is_known_by_the_one_that_is_elected_after_it() -> None:
    async with Cluster(replicas=3) as cluster:
        group, name = await cluster.named(GROUP, 3), await cluster.named(TRANSACTION, 3)
        producer = Producer(cluster, name, 3)
        await producer.init()
        assert await producer.commit_offset(group, 3, 7) == "none"
        await producer.end(commit=True)
        await cluster.clock.run(500)
        here = next(index for index in range(ALL_PARTITIONS) if cluster.leader(index) == CONTROLLER)
        assert await producer.send(here, b"v") == "none"
        await cluster.kill(3)
        await cluster.clock.run(20_000)
        elected = await cluster.coordinator(TRANSACTION, name)
        assert elected != 3
        producer.coordinator = cluster.client(elected)
        await producer.end(commit=True)
        assert await offset_of(cluster, await cluster.coordinator(GROUP, group), group) == 7
        await cluster.clock.run(500)
        partition = cluster.nodes[CONTROLLER].node.replicas.find("t", here)
        assert partition.last_stable_offset == partition.log_end_offset > 1


@pytest.mark.long
async def test_a_coordinator_whose_leadership_moves_away_serves_nobody_there_any_more() -> None:
    async with Cluster(replicas=3) as cluster:
        group = await cluster.named(GROUP, 2)
        index = cluster.nodes[2].node.coordinators.groups.partition_for(group)
        assert index in cluster.nodes[2].node.coordinators.groups.runtime
        await cluster.move("__consumer_offsets", index, 3)
        await cluster.clock.run(1_000)
        assert index not in cluster.nodes[2].node.coordinators.groups.runtime
        assert index in cluster.nodes[3].node.coordinators.groups.runtime
        assert await cluster.coordinator(GROUP, group) == 3
        answer = await cluster.ask(cluster.client(2), "heartbeat", 4, group_id=group, generation_id=1, member_id="m")
        assert answer.error_code.name == "not_coordinator"


async def test_a_coordinator_epoch_is_the_leader_epoch_of_its_partition() -> None:
    """Markers carry it: a leader refuses those of an earlier coordinator."""
    async with Cluster(replicas=3) as cluster:
        name = await cluster.named(TRANSACTION, 2)
        producer = Producer(cluster, name, 2)
        await producer.init()
        away = next(index for index in range(ALL_PARTITIONS) if cluster.leader(index) == 3)
        index = cluster.nodes[2].node.coordinators.transactions.partition_for(name)
        for to, number in ((3, 1), (2, 2)):
            assert await producer.send(away, b"v") == "none"
            await producer.end(commit=True)
            await cluster.clock.run(500)
            entry = cluster.nodes[3].node.replicas.find("t", away).log.producers.producers[producer.producer_id]
            image = cluster.nodes[CONTROLLER].node.cluster.cache.image.topics
            topic = image.get("__transaction_state")
            assert topic is not None
            assert entry.coordinator_epoch == topic.partitions[index].leader_epoch >= number - 1
            await cluster.move("__transaction_state", index, to)
            await cluster.clock.run(1_000)
            producer.coordinator = cluster.client(to)


async def test_an_append_is_made_whose_coordinator_moves_to_its_leader_and_still_loads() -> None:
    """The coordinator's answer comes from the broker it moved away from; no marker ended the transaction since."""
    cluster = Cluster(replicas=3)
    cluster.nodes[2].workers = reads = HeldLane("read /data")
    async with cluster:
        producer = Producer(cluster, await cluster.named(TRANSACTION, 3), 3)
        await producer.init()
        here = next(index for index in range(ALL_PARTITIONS) if cluster.leader(index) == 2)
        transactions = cluster.nodes[2].node.coordinators.transactions
        index = transactions.partition_for(producer.name)
        cluster.network.delay_ms = 50
        leader = cluster.client(2)
        leader.send("produce", 12, **producer.append(here, b"v"))
        state = cluster.nodes[3].node.replicas.find("__transaction_state", index)
        before = state.high_watermark
        while state.high_watermark == before:
            await cluster.clock.run(1)
        cluster.network.delay_ms = 0  # overtakes the coordinator's answer
        service = cluster.nodes[CONTROLLER].node.cluster.controller_service
        assert service is not None
        await service.move_leader("__transaction_state", index, 2)
        await cluster.clock.run(20)
        context = transactions.runtime.context(index)
        assert context is not None
        assert context.state is None, "the shard is loaded"
        assert not leader.replies()
        await cluster.clock.run(100)
        found = answer(leader.replies()[0], "produce", 12)
        assert found.responses[0].partition_responses[0].error_code.name == "none"
        reads.run_next()
        producer.coordinator = cluster.client(2)
        await producer.end(commit=True)

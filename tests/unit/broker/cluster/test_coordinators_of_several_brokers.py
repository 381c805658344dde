"""Transactions and groups whose coordinators, partitions and members are on different brokers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

from tests.doubles.workers import HeldLane
from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.rig import Client
from tests.unit.broker.wire import answer, batch, produce

MINUTE = timedelta(minutes=1)
ALL_PARTITIONS = 6
CONFIG = {"transaction.state.log.num.partitions": "6", "offsets.topic.num.partitions": "6"}
GROUP, TRANSACTION = 0, 1


def internal_topics(replicas: int) -> dict[str, str]:
    factor = str(replicas)
    return {
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "2" if replicas > 2 else "1",
    }


class Cluster(ClusterRig):
    """Three nodes with a topic `t`, two partitions of which each node leads."""

    def __init__(self, replicas: int = 1) -> None:
        super().__init__(brokers=2, config=CONFIG | internal_topics(replicas))

    async def __aenter__(self) -> Cluster:
        await super().__aenter__()
        assert await self.create(1, "t", ALL_PARTITIONS) == "none"
        for key_type in (GROUP, TRANSACTION):
            await self.coordinator(key_type, "any")
        return self

    async def coordinator(self, key_type: int, key: str) -> int:
        """The id of the coordinator."""
        client = self.nodes[1].connect()
        while True:
            answer = await self.ask(client, "find_coordinator", 4, key_type=key_type, coordinator_keys=(key,))
            found = answer.coordinators[0]
            if found.error_code.name == "none":
                return int(found.node_id)
            assert found.error_code.name == "coordinator_not_available"
            await self.clock.run(100)

    async def named(self, key_type: int, node_id: int) -> str:
        """A name whose coordinator is that node."""
        for number in range(100):
            if await self.coordinator(key_type, f"name-{number}") == node_id:
                return f"name-{number}"
        raise AssertionError(f"node {node_id} coordinates nothing")

    def leader(self, index: int, topic: str = "t") -> int:
        known = self.nodes[1].node.cluster.cache.image.topics.get(topic)
        assert known is not None
        return known.partitions[index].leader

    def client(self, node_id: int) -> Client:
        return self.nodes[node_id].connect()


class Producer:
    """A transactional producer, which asks its coordinator and the leaders."""

    def __init__(self, cluster: Cluster, name: str, coordinator: int) -> None:
        self.cluster, self.name = cluster, name
        self.coordinator = cluster.client(coordinator)
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    async def init(self) -> None:
        answer = await self._until(
            "init_producer_id", 4, transactional_id=self.name, transaction_timeout=MINUTE, **self._producer()
        )
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    def _producer(self) -> dict[str, int]:
        return {"producer_id": self.producer_id, "producer_epoch": self.epoch}

    async def _until(self, api: str, version: int, **fields: Any) -> Any:
        while True:
            answer = await self.cluster.ask(self.coordinator, api, version, **fields)
            if answer.error_code.name == "none":
                return answer
            assert answer.error_code.name in ("concurrent_transactions", "coordinator_load_in_progress")
            await self.cluster.clock.run(50)

    def append(self, index: int, value: bytes) -> dict[str, Any]:
        """The fields of a Produce request."""
        sequence = self.sequences.setdefault(index, 0)
        records = batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return {**produce("t", {index: records}), "transactional_id": self.name}

    async def send(self, index: int, value: bytes, version: int = 12) -> str:
        fields = self.append(index, value)
        answer = await self.cluster.ask(self.cluster.client(self.cluster.leader(index)), "produce", version, **fields)
        code: str = answer.responses[0].partition_responses[0].error_code.name
        if code == "none":
            self.sequences[index] += 1
        return code

    async def commit_offset(self, group: str, group_coordinator: int, offset: int) -> str:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        answer = await self.cluster.ask(
            self.cluster.client(group_coordinator),
            "txn_offset_commit",
            5,
            transactional_id=self.name,
            group_id=group,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
            **self._producer(),
        )
        name: str = answer.topics[0].partitions[0].error_code.name
        return name

    async def end(self, commit: bool) -> None:
        answer = await self._until("end_txn", 5, transactional_id=self.name, committed=commit, **self._producer())
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()


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


async def offset_of(cluster: Cluster, node_id: int, group: str) -> int:
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    )
    answer = await cluster.ask(cluster.client(node_id), "offset_fetch", 8, groups=(wanted,), require_stable=True)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


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


async def test_a_coordinator_whose_leadership_moves_away_serves_nobody_there_any_more() -> None:
    async with Cluster(replicas=3) as cluster:
        group = await cluster.named(GROUP, 2)
        index = cluster.nodes[2].node.coordinators.groups.partition_for(group)
        assert index in cluster.nodes[2].node.coordinators.groups.runtime
        service = cluster.nodes[CONTROLLER].node.cluster.controller_service
        assert service is not None
        await cluster.during(service.move_leader("__consumer_offsets", index, 3))
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
            service = cluster.nodes[CONTROLLER].node.cluster.controller_service
            assert service is not None
            await cluster.during(service.move_leader("__transaction_state", index, to))
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

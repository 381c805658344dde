"""Three brokers with a topic whose partitions they share, and a transactional producer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

from tests.unit.broker.cluster_rig import CONTROLLER, ClusterRig
from tests.unit.broker.rig import Client
from tests.unit.broker.wire import batch, produce

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

    def __init__(self, replicas: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        super().__init__(brokers=2, config=CONFIG | internal_topics(replicas) | settings)

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
            answer = await self.ask(client, "find_coordinator", 6, key_type=key_type, coordinator_keys=(key,))
            found = answer.coordinators[0]
            if found.error_code.name == "none":
                return int(found.node_id)
            assert found.error_code.name == "coordinator_not_available", found
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

    async def create_replicated(self, topic: str) -> None:
        """Create a topic of one partition with three replicas, all in sync."""
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=3, assignments=(), configs=())
        fields = {"topics": (wanted,), "timeout": MINUTE, "validate_only": False}
        done = await self.ask(self.client(CONTROLLER), "create_topics", 7, **fields)
        assert done.topics[0].error_code.name == "none"
        await self.clock.run(1_000)

    async def produce(self, client: Client, topic: str) -> None:
        """Append a record to the first partition, acknowledged by all replicas."""
        answer = await self.ask(client, "produce", 9, **produce(topic, {0: batch(b"v")}))
        assert answer.responses[0].partition_responses[0].error_code.name == "none"

    async def move(self, topic: str, index: int, to: int) -> None:
        """Let another replica lead; brokers hear of it as time moves."""
        service = self.nodes[CONTROLLER].node.cluster.controller_service
        assert service is not None
        await self.during(service.move_leader(topic, index, to))


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

    def offsets(self, group: str, offset: int) -> dict[str, Any]:
        """The fields of a TxnOffsetCommit request."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        return {
            "transactional_id": self.name,
            "group_id": group,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": (TxnOffsetCommitRequestTopic(name="t", partitions=(partition,)),),
            **self._producer(),
        }

    async def commit_offset(self, group: str, group_coordinator: int, offset: int) -> str:
        client = self.cluster.client(group_coordinator)
        answer = await self.cluster.ask(client, "txn_offset_commit", 5, **self.offsets(group, offset))
        name: str = answer.topics[0].partitions[0].error_code.name
        return name

    async def end(self, commit: bool) -> None:
        answer = await self._until("end_txn", 5, transactional_id=self.name, committed=commit, **self._producer())
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()

    async def add(self, *partitions: int) -> None:
        """Add partitions to the transaction, as clients of transactions V1 do; they end it with `end_old`."""
        topics = (AddPartitionsToTxnTopic(name="t", partitions=partitions),)
        fields = {f"v3_and_below_{name}": value for name, value in self._producer().items()}
        named = {"v3_and_below_transactional_id": self.name, "v3_and_below_topics": topics}
        answer = await self.cluster.ask(self.coordinator, "add_partitions_to_txn", 3, **named, **fields)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert {each.partition_error_code.name for each in results} == {"none"}

    async def end_old(self, commit: bool) -> None:
        await self._until("end_txn", 4, transactional_id=self.name, committed=commit, **self._producer())


async def offset_of(cluster: Cluster, node_id: int, group: str) -> int:
    wanted = OffsetFetchRequestGroup(
        group_id=group, topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    )
    answer = await cluster.ask(cluster.client(node_id), "offset_fetch", 8, groups=(wanted,), require_stable=True)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)

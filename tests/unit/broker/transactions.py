"""Transactional producers for tests, and what they leave in a partition."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.find_coordinator.v4.response import Coordinator

from tests.doubles.clock import settle
from tests.doubles.workers import QueuedWorkers
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce

CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
MINUTE = timedelta(minutes=1)
V1, V2 = 11, 12


class Producer:
    """One transactional producer on a connection."""

    def __init__(self, client: Client, name: str = "tx") -> None:
        self.client = client
        self.name = name
        self.producer_id, self.epoch = -1, -1

    async def init(self) -> str:
        told = await self.client.ask(
            "init_producer_id",
            4,
            transactional_id=self.name,
            transaction_timeout=MINUTE,
            producer_id=-1,
            producer_epoch=-1,
        )
        if told.error_code.name == "none":
            self.producer_id, self.epoch = told.producer_id, told.producer_epoch
        return str(told.error_code.name)

    def fields(self, value: bytes, sequence: int, topic: str = "t") -> dict[str, Any]:
        """Those of a Produce request."""
        records = batch(
            value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return {**produce(topic, {0: records}), "transactional_id": self.name}

    def send(self, value: bytes, sequence: int, version: int = V2, topic: str = "t") -> None:
        self.client.send("produce", version, **self.fields(value, sequence, topic))

    def told(self, version: int = V2) -> list[str]:
        """The errors of the answers since the last call."""
        return [
            partition.error_code.name
            for reply in self.client.replies()
            for topic in answer(reply, "produce", version).responses
            for partition in topic.partition_responses
        ]

    async def produce(self, value: bytes, sequence: int, version: int = V2) -> list[str]:
        self.send(value, sequence, version)
        await settle()
        return self.told(version)

    async def add_partition(self, topic: str = "t") -> str:
        """Say that partition 0 is to be in the transaction, as clients of version 1 must."""
        told = await self.client.ask(
            "add_partitions_to_txn",
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
        )
        return str(told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code.name)

    async def end(self, commit: bool, version: int = 5) -> str:
        told = await self.client.ask(
            "end_txn",
            version,
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        if told.error_code.name == "none" and version >= 5:
            self.producer_id, self.epoch = told.producer_id, told.producer_epoch
        return str(told.error_code.name)


async def opened(rig: Rig, **configs: str) -> Producer:
    """A topic `t`, and a producer that has just begun."""
    await rig.create("t", 1, **configs)
    return await begun(rig)


async def begun(rig: Rig) -> Producer:
    client = rig.connect()
    client.send("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
    for _ in range(100):
        await settle()
        if isinstance(rig.workers, QueuedWorkers):
            rig.workers.run_all()
    (reply,) = client.replies()
    found: Coordinator = answer(reply, "find_coordinator", 4).coordinators[0]
    assert found.error_code.name == "none"
    producer = Producer(client)
    assert await producer.init() == "none"
    return producer


async def read(rig: Rig, isolation: int) -> bytes:
    told = await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0, isolation_level=isolation))
    return bytes(told.responses[0].partitions[0].records or b"")

"""Producers of a simulated cluster: one that sends and forgets, and one that repeats until it is acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from broker.replicas.records_append import RecordsAppend
from protocol.produce_fetch.produce_messages import PartitionProduceResponse, ProduceResponse
from protocol.records.build import Record, build_batch
from tests.doubles.clock import ManualClock
from tests.simulation.controller import TOPIC
from tests.simulation.invariants import Invariants
from tests.simulation.node import SimulatedNode

TIMEOUT_MS = 2_000
ALL_REPLICAS = -1


class NoMetrics:
    def produced(self, topic: str, messages: int, size: int) -> None: ...
    def produce_failed(self, topic: str) -> None: ...
    def request_error(self, api: str, error: Any) -> None: ...


async def produce(
    node: SimulatedNode, now_ms: int, index: int, batch: bytearray, acks: int, timeout_ms: int = TIMEOUT_MS
) -> PartitionProduceResponse:
    """A node's answer for one partition, as its Produce handler gives it."""
    append = RecordsAppend(node.replicas, NoMetrics(), acks, 9, now_ms, {}, False)
    append.append(TOPIC, TOPIC, [(index, memoryview(batch))])
    if append.unacknowledged:
        await node.replicas.when_committed(append.unacknowledged, timeout_ms, ProduceResponse([]))
    return append.topics[0][1][0]


class IdempotentProducer:
    """Sends batches to one partition, one after the other, each again and again until some leader acknowledges it.

    Attributes:
        sent: every value, in order; all but the last batch of them are acknowledged.
    """

    def __init__(
        self,
        producer_id: int,
        index: int,
        nodes: Mapping[int, SimulatedNode],
        clock: ManualClock,
        rng: random.Random,
        invariants: Invariants,
    ) -> None:
        self._id = producer_id
        self._index = index
        self._nodes = nodes
        self._clock = clock
        self._rng = rng
        self._invariants = invariants
        self.sent: list[bytes] = []
        self._stopping = False
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Return once the last batch is acknowledged."""
        self._stopping = True
        await self._task

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def stop_soon(self) -> None:
        self._stopping = True

    async def _run(self) -> None:
        while not self._stopping:
            count = self._rng.randint(1, 3)
            sequence = len(self.sent)
            values = [f"{self._id}:{sequence + n}".encode() for n in range(count)]
            self.sent += values
            await self._until_acknowledged(values, sequence)
            await self._clock.sleep(self._rng.choice([0, 20, 300]))

    async def _until_acknowledged(self, values: list[bytes], sequence: int) -> None:
        records = [Record(n, self._clock.wall_ms(), None, value) for n, value in enumerate(values)]
        while True:
            answer = await self._ask(
                build_batch(records, producer_id=self._id, producer_epoch=0, base_sequence=sequence)
            )
            if answer is not None and answer.error_code == 0:
                for n, value in enumerate(values):
                    self._invariants.acknowledged[self._index, answer.base_offset + n] = value
                return
            await self._clock.sleep(self._rng.choice([20, 200]))

    async def _ask(self, batch: bytearray) -> PartitionProduceResponse | None:
        """The answer of the leader that some node believes in; None if it is not there, or goes down meanwhile."""
        told = self._rng.choice([node for node in self._nodes.values() if node.is_serving] or [None])
        topic = None if told is None else told.cache.topic(TOPIC)
        leader = None if topic is None else self._nodes.get(topic.partitions[self._index].leader)
        if leader is None or not leader.is_serving:
            return None
        await self._clock.sleep(self._rng.uniform(0, 10))
        if not leader.is_serving:
            return None
        asking = leader.run(produce(leader, self._clock.wall_ms(), self._index, batch, ALL_REPLICAS))
        await asyncio.wait([asking])
        lost = asking.cancelled() or self._rng.random() < 0.1
        return None if lost else asking.result()

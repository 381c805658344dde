"""Producers of a simulated cluster: one that sends and forgets, and those that repeat until they are acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from broker.replication.appends import RecordsAppend
from broker.replication.partition import Role
from protocol.errors import KafkaError
from protocol.produce_fetch.produce_messages import PartitionProduceResponse, ProduceResponse
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from storage.append_types import AppendOrigin
from tests.doubles.clock import ManualClock
from tests.simulation.controller import TOPIC
from tests.simulation.invariants import Invariants
from tests.simulation.node import SimulatedNode

T = TypeVar("T")

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
        last_answer: to the last request.
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
        self.id = producer_id
        self.index = index
        self._nodes = nodes
        self._clock = clock
        self._rng = rng
        self._invariants = invariants
        self.sent: list[bytes] = []
        self.last_answer: PartitionProduceResponse | None = None
        self._epoch = self._epoch_began = 0
        self._leader_epoch = -1  # the newest heard of
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
            await self._send()
            await self._clock.sleep(self._rng.choice([0, 20, 300]))

    async def _send(self, *, transactional: bool = False) -> list[bytes]:
        """Return the values once they are acknowledged."""
        number = len(self.sent)
        values = [f"{self.id}:{number + n}".encode() for n in range(self._rng.randint(1, 3))]
        self.sent += values
        records = [Record(n, self._clock.wall_ms(), None, value) for n, value in enumerate(values)]
        while True:
            batch = build_batch(
                records,
                producer_id=self.id,
                producer_epoch=self._epoch,
                base_sequence=number - self._epoch_began,
                transactional=transactional,
            )
            answer = await self._ask(lambda leader, batch=batch: self._produce_to(leader, batch))  # type: ignore[misc]
            self.last_answer = answer
            if answer is not None and answer.error_code == 0:
                for n, value in enumerate(values):
                    self._invariants.acknowledged[self.index, answer.base_offset + n] = value
                return values
            if answer is not None and answer.error_code == ErrorCode.out_of_order_sequence_number:
                self._epoch, self._epoch_began = self._epoch + 1, number  # what it had sent before was deleted
            await self._clock.sleep(self._rng.choice([20, 200]))

    def _produce_to(self, leader: SimulatedNode, batch: bytearray) -> Awaitable[PartitionProduceResponse]:
        return produce(leader, self._clock.wall_ms(), self.index, batch, ALL_REPLICAS)

    async def _ask(self, ask: Callable[[SimulatedNode], Awaitable[T]]) -> T | None:
        """The answer of the leader that some node believes in; None if it is not there, or goes down meanwhile.

        As stock clients (KIP-320), it does not go back to a leader of an earlier epoch: such a one may lack a batch
        that a later leader has taken, and would call the next one out of order.
        """
        told = self._rng.choice([node for node in self._nodes.values() if node.is_serving] or [None])
        topic = None if told is None else told.cache.topic(TOPIC)
        if topic is None or topic.partitions[self.index].leader_epoch < self._leader_epoch:
            return None
        self._leader_epoch = topic.partitions[self.index].leader_epoch
        leader = self._nodes.get(topic.partitions[self.index].leader)
        if leader is None or not leader.is_serving:
            return None
        await self._clock.sleep(self._rng.uniform(0, 10))
        if not leader.is_serving:
            return None
        asking = leader.run(ask(leader))
        await asyncio.wait([asking])
        lost = asking.cancelled() or self._rng.random() < 0.1
        return None if lost else asking.result()


class TransactionalProducer(IdempotentProducer):
    """As an idempotent one, in transactions that are committed or aborted.

    Attributes:
        committed: the values of committed transactions, in order.
    """

    committed: list[bytes]

    async def _run(self) -> None:
        self.committed = []
        while not self._stopping:
            values: list[bytes] = []
            for _ in range(self._rng.randint(1, 3)):
                values += await self._send(transactional=True)
                await self._clock.sleep(self._rng.choice([0, 20]))
            is_committed = self._rng.random() < 0.6
            while not await self._ask(lambda leader, is_committed=is_committed: self._end(leader, is_committed)):  # type: ignore[misc]
                await self._clock.sleep(self._rng.choice([20, 200]))
            self.committed += values if is_committed else []

    async def _end(self, leader: SimulatedNode, is_committed: bool) -> bool:
        """Write the marker; whether it is committed."""
        partition = leader.replicas.get(TOPIC, self.index)
        if partition is None:
            return False
        kind = ControlRecordType.COMMIT if is_committed else ControlRecordType.ABORT
        marker = build_end_marker(
            EndTransactionMarker(kind, 0),
            producer_id=self.id,
            producer_epoch=self._epoch,
            timestamp=self._clock.wall_ms(),
        )
        try:
            info = partition.append(memoryview(marker), AppendOrigin.COORDINATOR, self._clock.wall_ms())
        except KafkaError:
            return False
        epoch = partition.leader_epoch
        while partition.role is Role.LEADER and partition.leader_epoch == epoch:
            if partition.high_watermark > info.last_offset:
                return True
            await leader.clock.sleep(10)
        return False

"""One shard of the transaction coordinator over a log in memory, in virtual time, and the partitions that it ends."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.transaction.marker_sender import EndMarker, WriteMarker
from coordinator.transaction.transaction_coordinator_shard import (
    ROWS,
    TransactionConfig,
    TransactionCoordinatorShard,
    TransactionCounts,
)
from coordinator.transaction.transaction_metadata import TV_2, TransactionMetadata
from protocol.coordinator_records.transaction_records import TRANSACTION_LOG
from protocol.errors import ConcurrentTransactions, InvalidProducerEpoch, KafkaError, NotEnoughReplicas
from protocol.records.batch import read_header
from protocol.topic_partition import PartitionKey
from tests.doubles.clock import ManualClock
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.memory_log import MemoryLog
from timing.wheel import TimingWheel

MINUTE_MS = 60_000


class Written(NamedTuple):
    """A record of a partition; a marker's value is True for a commit, False for an abort."""

    producer: ProducerEpoch
    value: Any


@dataclass
class UnifiedLog:
    """What the log of a partition takes and refuses, of a producer's epochs."""

    records: list[Written] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)

    def append(self, producer: ProducerEpoch, value: Any) -> None:
        """Raises InvalidProducerEpoch."""
        if producer.producer_epoch < self.epochs.get(producer.producer_id, -1):
            raise InvalidProducerEpoch
        self.epochs[producer.producer_id] = producer.producer_epoch
        self.records.append(Written(producer, value))

    def outcomes(self) -> dict[Any, bool | None]:
        """Whether each value is committed (True), aborted, or of an open transaction (None)."""
        found: dict[Any, bool | None] = {}
        for index, (producer, value) in enumerate(self.records):
            if not isinstance(value, bool):
                later = self.records[index:]
                ends = (one.value for one in later if one.producer[0] == producer[0] and isinstance(one.value, bool))
                found[value] = next(ends, None)
        return found


class Partitions:
    """A MarkerPort. With `refuse` markers fail with `refusal`; with `hold` they are not known to be written."""

    def __init__(self) -> None:
        self.logs: dict[PartitionKey, UnifiedLog] = {}
        self.refusal: KafkaError = NotEnoughReplicas()
        self.refuse: set[PartitionKey] = set()
        self.hold: set[PartitionKey] = set()
        self._held: list[tuple[PartitionKey, Future[None]]] = []

    def log(self, partition: PartitionKey) -> UnifiedLog:
        return self.logs.setdefault(partition, UnifiedLog())

    def marker_writer(self, marker: EndMarker) -> WriteMarker:
        return lambda topic, index: self._write(marker, topic, index)

    def _write(self, marker: EndMarker, topic: str, index: int) -> Future[None] | None:
        partition = (topic, index)
        if partition in self.refuse:
            raise self.refusal
        self.log(partition).append(ProducerEpoch(marker.producer_id, marker.producer_epoch), marker.committed)
        if partition not in self.hold:
            return None
        future: Future[None] = asyncio.get_running_loop().create_future()
        self._held.append((partition, future))
        return future

    def release(self) -> None:
        """Every marker may be written, and those held are known to be."""
        self.refuse.clear()
        self.hold.clear()
        held, self._held = self._held, []
        for _, future in held:
            if not future.done():
                future.set_result(None)


class Rig:
    """`await Rig().started()`. Answers are there at once unless the log holds its high watermark back."""

    def __init__(self, **config: int) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.partitions = Partitions()
        self.counts = TransactionCounts()
        self.server_version = TV_2
        self._config = TransactionConfig(**config)
        self._next_producer_id = 100
        self._wheel = TimingWheel(self.clock)
        self.runtime: CoordinatorRuntime[TransactionCoordinatorShard]

    async def started(self) -> Rig:
        self.runtime = CoordinatorRuntime(
            "__transaction_state", ROWS, self._new_state, clock=self.clock, wheel=self._wheel
        )
        self.runtime.load(0, self.log)
        await self.runtime.loaded()
        return self

    async def crashed(self, kept: int | None = None) -> Rig:
        """A new coordinator finds the first `kept` batches of the log: all of them unless told."""
        self.runtime.unload_all()
        log = MemoryLog()
        log.written = self.log.written[:kept]
        log.log_end_offset = read_header(log.written[-1]).next_offset if log.written else 0
        log.commit()
        self.log = log
        return await self.started()

    @property
    def committed_batches(self) -> int:
        """Those of the log that no crash may take."""
        return sum(read_header(batch).next_offset <= self.log.high_watermark for batch in self.log.written)

    def _new_state(self, context: CoordinatorContext[TransactionCoordinatorShard]) -> TransactionCoordinatorShard:
        return TransactionCoordinatorShard(
            context, 0, self._config, self.partitions, self.counts, self.new_producer_id, lambda: self.server_version
        )

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    # -- requests

    def init(
        self, name: str = "tx", expected: ProducerEpoch | None = None, timeout_ms: int = MINUTE_MS, client: str = ""
    ) -> Future[ProducerEpoch | ConcurrentTransactions]:
        return ask(self.runtime, lambda state: state.init_producer_id(name, timeout_ms, expected, client))

    def producer(self, name: str = "tx", expected: ProducerEpoch | None = None) -> ProducerEpoch:
        answer = self.init(name, expected).result()
        if isinstance(answer, ConcurrentTransactions):
            raise answer
        return answer

    def add(
        self, producer: ProducerEpoch, *partitions: PartitionKey, name: str = "tx", version: int = TV_2
    ) -> Future[None]:
        return ask(self.runtime, lambda state: state.add_partitions(name, producer, partitions, version))

    def verified(self, producer: ProducerEpoch, partitions: Collection[PartitionKey], name: str = "tx") -> bool:
        found = self.runtime.read(0, lambda state: state.verify_partitions(name, producer, partitions)).result()
        return len(found) == len(partitions)

    def end(
        self, producer: ProducerEpoch, commit: bool, name: str = "tx", version: int = TV_2
    ) -> Future[ProducerEpoch]:
        return ask(self.runtime, lambda state: state.end_transaction(name, producer, commit, version))

    # -- what is there

    def metadata(self, name: str = "tx") -> TransactionMetadata | None:
        return self.runtime.read(0, lambda state: state.get(name)).result()

    def state(self, name: str = "tx") -> str:
        found = self.metadata(name)
        return "none" if found is None else found.state.wire_name

    def states_in_log(self) -> list[str]:
        """The states of the records in the log, oldest first; "gone" is a tombstone."""
        from coordinator.transaction.transaction_metadata import TransactionState

        return [
            "gone" if one.value is None else TransactionState(TRANSACTION_LOG.decode_value(one.value).status).wire_name
            for one in self.log.records()
        ]

"""The topic that holds the registry's state, on the node that leads its one partition.

Theory of operation. The state is what the records up to the high watermark amount to. It belongs to a term: the time in
which this node leads the partition without interruption. When a term begins, the node waits until all that is in the
log is committed, and reads it from the start; so it knows every version that was ever answered, and every id.

A change is decided on a state that has all of the log, and appended while no other change is (`exclusive`). Between the
decision and the append the log's end must not have moved, since another writer may have given the same id: then the
change is decided again. The append is for all in-sync replicas, and it is answered when it is committed and has been
read back, as by anybody else. If leadership is lost meanwhile, nobody knows whether the change holds, and the answer
says so; the append of a node that no longer leads is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from broker.membership.auto_create import wanted
from broker.registry.errors import Code, RegistryError
from broker.registry.records import Written
from broker.registry.state import State
from broker.replication.partition import Partition
from broker.testkit.control.topic_reader import TopicReader
from protocol.errors import KafkaError, NotLeaderOrFollower
from protocol.metadata.topics import NO_LEADER
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin

if TYPE_CHECKING:
    from broker.node import Node

logger = structlog.get_logger(__name__)

NAME, REPLICATION = "schema.registry.kafkastore.topic", "schema.registry.kafkastore.topic.replication.factor"
TIMEOUT_MS = 10_000
"""How long a change, or the start of a term, waits to be committed."""

QUEUED_MS = 10_000
"""How long a change waits for those before it."""

MADE_MS, LOOK_MS = 10_000, 50
"""How long a new topic may take to have a leader, and the time between two looks."""

AT_ONCE = 200
"""Records that are taken in before the loop serves others."""


class ElsewhereError(Exception):
    """Another node leads the partition."""

    def __init__(self, leader: int) -> None:
        super().__init__(f"node {leader} leads the topic of the schema registry")
        self.leader = leader


class SchemasTopic:
    """See the theory of operation above."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.name = node.local.config.string(NAME)
        self._state = State()
        self._partition: Partition | None = None  # of the term
        self._led_since = -1
        self._position = 0
        self._reading = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def state(self) -> State:
        """The state now. Raises ElsewhereError, RegistryError."""
        try:
            partition = await self._led()
            if not self._is_term_of(partition):  # each waits by itself, and none until others have waited in vain
                await self._until_committed(partition, partition.log_end_offset)
            async with self._reading:
                await self._begin_term(partition)
                await self._read_on(partition)
        except NotLeaderOrFollower as error:
            raise self._lost() from error
        except KafkaError as error:
            raise _store_error(error) from error
        return self._state

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[State]:
        """The state, with all that is in the log, while no other change is made through this node."""
        clock = self._node.clock.machine
        asked_ms = clock.monotonic_ms()
        async with self._writing:
            if clock.monotonic_ms() - asked_ms > QUEUED_MS:
                raise RegistryError(Code.TIMEOUT, f"Other changes were waited for longer than {QUEUED_MS} ms")
            state = await self.state()
            partition = self._partition
            assert partition is not None
            if partition.log_end_offset > self._position:  # somebody's append is not committed yet
                await self._until_committed(partition, partition.log_end_offset)
                state = await self.state()
            yield state

    async def write(self, records: Sequence[Written]) -> bool:
        """Append the records, all or none, and return when they are read back. To be called within `exclusive`.

        False, and nothing is appended, if the log has more than the state. Raises RegistryError.
        """
        partition = self._partition
        assert partition is not None
        if partition.log_end_offset != self._position or partition.led_since != self._led_since:
            return False
        now_ms = self._node.clock.wall_ms()
        batch = build_batch(Record(at, now_ms, *record.content) for at, record in enumerate(records))
        most = partition.log.config.max_message_bytes
        if len(batch) > most:
            raise RegistryError(
                Code.TOO_LARGE, f"The schema takes a record of {len(batch)} bytes, and {self.name} allows {most}"
            )
        try:
            info = partition.append(memoryview(batch), AppendOrigin.CLIENT, now_ms)
        except KafkaError as error:
            raise _store_error(error) from error
        await self._until_committed(partition, info.last_offset + 1)
        try:
            async with self._reading:
                await self._read_on(partition)
        except KafkaError as error:
            raise _store_error(error) from error
        return True

    # -- the partition

    async def _led(self) -> Partition:
        """The partition, if this node leads it; the topic is created if there is none."""
        cache = self._node.cluster.cache
        if cache.topic(self.name) is None:
            await self._create()
        image = cache.topic(self.name)
        if image is None:
            raise RegistryError(Code.STORE_ERROR, f"The topic {self.name} could not be created: see the broker's log")
        if image.partition_count != 1:
            raise RegistryError(
                Code.STORE_ERROR, f"The topic {self.name} has {image.partition_count} partitions: it must have one"
            )
        policy = cache.topic_configs(self.name).get("cleanup.policy", "delete")
        if policy != "compact":
            raise RegistryError(
                Code.STORE_ERROR,
                f"The topic {self.name} has cleanup.policy={policy}: set it to compact, or schemas are lost",
            )
        partition = self._node.replicas.get(self.name, 0)
        leader = image.partitions[0].leader
        if leader != self._node.node_id:
            raise self._lost()
        if partition is None:
            raise RegistryError(Code.NO_LEADER, f"{self.name} is not ready on this node yet")
        partition.check_leads()
        return partition

    def _lost(self) -> ElsewhereError | RegistryError:
        image = self._node.cluster.cache.topic(self.name)
        leader = NO_LEADER if image is None else image.partitions[0].leader
        if leader in (NO_LEADER, self._node.node_id):
            return RegistryError(Code.NO_LEADER, f"{self.name} has no leader now")
        return ElsewhereError(leader)

    async def _create(self) -> None:
        """Create the topic, and wait until it has a leader that knows of it."""
        node, brokers = self._node, len(self._node.cluster.cache.image.cluster.alive())
        replicas = min(node.local.config.integer(REPLICATION), max(brokers, 1))
        topic = wanted(self.name, 1, replicas, {"cleanup.policy": "compact"})
        await node.cluster.auto_topics.ensure(topic, "topic of the schema registry created")
        clock = node.clock.machine
        end_ms = clock.monotonic_ms() + MADE_MS
        while not self._is_made() and clock.monotonic_ms() < end_ms:
            await clock.sleep(LOOK_MS)

    def _is_made(self) -> bool:
        image = self._node.cluster.cache.topic(self.name)
        if image is None:
            return False
        leads = image.partitions[0].leader == self._node.node_id
        return not leads or self._node.replicas.get(self.name, 0) is not None

    # -- reading

    def _is_term_of(self, partition: Partition) -> bool:
        return self._partition is partition and self._led_since == partition.led_since

    async def _begin_term(self, partition: Partition) -> None:
        if self._is_term_of(partition):
            return
        led_since, end = partition.led_since, partition.log_end_offset
        await self._until_committed(partition, end)
        self._state, self._position = State(), partition.log_start_offset
        self._partition, self._led_since = partition, led_since
        await self._read_on(partition)
        if end:
            logger.info("schemas read", topic=self.name, records=end, subjects=len(self._state.subjects))

    async def _read_on(self, partition: Partition) -> None:
        """Take in what is committed. Raises KafkaError."""
        while partition.high_watermark > self._position:
            reader = TopicReader(self._node, self.name, {0: self._position}, committed=False)
            for found in await reader.read(AT_ONCE):
                self._state.apply(found.record.key, found.record.value)
            if reader.budget.passed_over:
                raise RegistryError(Code.STORE_ERROR, f"{self.name} has a batch that is too large to be read")
            if reader.positions[0] == self._position:
                break  # compaction has removed the end
            self._position = reader.positions[0]
            await asyncio.sleep(0)

    async def _until_committed(self, partition: Partition, end: int) -> None:
        """Return when the high watermark is there. Raises RegistryError if that is not known in time, or never."""
        if partition.high_watermark >= end:
            return
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def finish(text: str = "") -> None:
            if not outcome.done():
                outcome.set_result(text)

        def advanced(high_watermark: int) -> None:
            if high_watermark >= end:
                finish()

        ended = partition.listen(advanced, lambda error: finish(f"this node leads no more ({error.code.name})"))
        timer = self._node.clock.machine.call_later(TIMEOUT_MS, lambda: finish("time out"))
        try:
            reason = await outcome
        finally:
            timer.cancel()
            ended()
        if reason == "time out":
            raise RegistryError(
                Code.TIMEOUT, f"{self.name} was not committed by all in-sync replicas within {TIMEOUT_MS} ms"
            )
        if reason:
            raise RegistryError(Code.STORE_ERROR, f"It is not known whether the change was made: {reason}")


def _store_error(error: KafkaError) -> RegistryError:
    return RegistryError(Code.STORE_ERROR, f"{error.code.name.upper()}: {error}")

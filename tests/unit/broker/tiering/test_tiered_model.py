"""A tiered topic beside one that is not, with the same records: whoever reads gets the same from both.

Records, transactions, DeleteRecords, rounds of copies and retention, a store that fails at any call, crashes at any
operation on a file. In the end nothing is in the store that nothing refers to, and nothing once the topic is deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.tiering.tiered_rig import (
    CONFIG,
    FetchFailedError,
    append,
    create_tiered,
    delete_records,
    offset_of,
    read_all,
    stored,
    stray_objects,
    tier_of,
)
from tests.unit.broker.transactions import Producer
from tests.unit.broker.wire import NOW

T = TypeVar("T")
TIERED, PLAIN = "t", "u"
BOTH = (TIERED, PLAIN)
STORE = "/store"
DURABLE = {**CONFIG, "log.flush.interval.messages": "1"}


class TieredMachine(RuleBasedStateMachine):
    """`trap`: how many changes of files from now the machine fails; `trapped`: what was on disk then."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.fs = FlakyFileSystem(self.clock.wall_ms)
        self.starts = self.values = self.trap = 0
        self.trapped: FlakyFileSystem | None = None
        self.producer: Producer | None = None
        self.sequence = 0
        self.start()
        self.run(create_tiered(self.rig, TIERED))
        self.run(create_tiered(self.rig, PLAIN, remote_storage_enable="false"))
        self.run(self.rig.clock.run(100))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def start(self) -> None:
        self.starts += 1
        self.rig = Rig(fs=self.fs, clock=self.clock, seed=self.starts, config=DURABLE)
        with self.fs.calm():
            self.run(self.rig.start())
        self.producer = None

    @property
    def client(self) -> Client:
        return self.rig.connect()

    def leave(self) -> None:
        """The process is gone."""
        self.fs.before = None
        self.clock.drop_all()
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.run(settle())
        self.clock.drop_all()

    # -- records

    @rule(count=st.integers(1, 8), size=st.integers(1, 120))
    def append(self, count: int, size: int) -> None:
        for _ in range(count):
            self.values += 1
            for topic in BOTH:
                self.run(append(self.client, topic, b"%d" % self.values + b"x" * size))

    @rule(count=st.integers(1, 3))
    def append_in_transaction(self, count: int) -> None:
        if self.producer is None:
            self.producer, self.sequence = self.run(self.new_producer()), 0
        for _ in range(count):
            self.values += 1
            for topic in BOTH:
                self.run(self.transactional(self.producer, topic))
            self.sequence += 1

    async def new_producer(self) -> Producer:
        """A producer; a transaction that is open is aborted first, which takes its time."""
        await self.find_coordinator()
        producer = Producer(self.client)
        while (told := await producer.init()) != "none":
            assert told in ("concurrent_transactions", "coordinator_load_in_progress", "not_coordinator"), told
            await self.rig.clock.run(100)
        return producer

    async def find_coordinator(self) -> None:
        """Have the topic of transactions made."""
        client = self.client
        client.send("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
        await self.rig.clock.run(200)
        assert client.replies()

    async def transactional(self, producer: Producer, topic: str) -> None:
        producer.send(b"tx%d" % self.values, self.sequence, topic=topic)
        await self.rig.clock.run(50)
        assert producer.told() == ["none"]

    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        if self.producer is not None and self.sequence:
            assert self.run(self.producer.end(commit)) == "none"
            self.run(self.rig.clock.run(200))
            self.sequence = 0

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        partition = self.rig.node.replicas.find(TIERED, 0)
        start, end = partition.log_start_offset, partition.high_watermark
        offset = start + round((end - start) * share)
        for topic in BOTH:
            assert self.run(delete_records(self.client, topic, offset)) == "none"

    # -- what goes on by itself

    @rule(ms=st.sampled_from([300, 1500, 4000]))
    def pass_time(self, ms: int) -> None:
        self.run(self.rig.clock.run(ms))

    @rule(
        chance=st.sampled_from([0.02, 0.2, 0.7]),
        trouble=st.sampled_from([Trouble.DEVICE, Trouble.ROOM, Trouble.SYNC]),
        seed=st.integers(0, 99),
    )
    def let_the_store_fail(self, chance: float, trouble: Trouble, seed: int) -> None:
        self.fs.get_into(trouble, chance, seed, STORE)
        self.run(self.rig.clock.run(2500))
        self.compare(may_fail=True)
        self.fs.get_into(Trouble.NONE, 0, 0)

    @rule(after=st.integers(1, 150), unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 99))
    def crash(self, after: int, unsynced: Unsynced, seed: int) -> None:
        """At some change of a file within the next seconds."""
        self.trap, self.trapped = after, None

        def before() -> None:
            self.trap -= 1
            if not self.trap:
                self.trapped = self.fs.copy()

        self.fs.before = before
        self.run(self.rig.clock.run(2500))
        self.leave()
        self.fs = self.trapped or self.fs.copy()
        self.fs.crash(unsynced, seed)
        self.sequence = 0
        self.start()
        self.run(self.rig.clock.run(500))

    @rule()
    def restart(self) -> None:
        self.run(self.rig.stop())
        self.leave()
        self.sequence = 0
        self.start()

    # -- what must hold

    @rule()
    def compare_all(self) -> None:
        self.compare()

    @rule(seconds=st.integers(-1, 3))
    def compare_times(self, seconds: int) -> None:
        tiered, plain = [self.run(self.at_time(topic, NOW + seconds)) for topic in BOTH]
        # As in Kafka, a local search ends with the first segment that has such a record, even below the log's start.
        assert plain in (tiered, ("none", -1, -1))

    async def at_time(self, topic: str, timestamp: int) -> tuple[str, int, int]:
        error, found, offset, _ = await offset_of(self.client, topic, timestamp)
        return error, found, offset

    def compare(self, *, may_fail: bool = False) -> None:
        start = self.rig.node.replicas.find(PLAIN, 0).log_start_offset
        if not may_fail:
            self.run(self.rig.clock.run(10))  # it is known what is in remote storage
            assert self.rig.node.replicas.find(TIERED, 0).log_start_offset == start
        for isolation_level in (0, 1):
            plain = self.run(read_all(self.rig, self.client, PLAIN, start, isolation_level=isolation_level))
            try:
                tiered = self.run(read_all(self.rig, self.client, TIERED, start, isolation_level=isolation_level))
            except FetchFailedError as error:
                assert may_fail and str(error) == "unknown_server_error", error
            else:
                # A crash may damage what one of them knows of a transaction that began below the log's start.
                partitions = [self.rig.node.replicas.find(topic, 0) for topic in BOTH]
                end = min(partition.end_offset_for(isolation_level) for partition in partitions)
                assert [one for one in tiered if one[0] < end] == [one for one in plain if one[0] < end]

    def teardown(self) -> None:
        try:
            self.end_transaction(commit=False)
            self.run(self.rig.clock.run(90_000))  # a transaction that a crash left open is over, too
            self.compare()
            assert stray_objects(self.rig) == []
            assert tier_of(self.rig).partitions[TIERED, 0].pending() == []
            self.run(self.rig.delete(TIERED))
            self.run(self.rig.clock.run(3000))
            assert stored(self.rig) == []
            assert not any(len(one) for one in tier_of(self.rig).metadata.segments.values())
            self.run(self.rig.stop())
        finally:
            self.leave()
            self.loop.close()


SHORT = settings(
    max_examples=30,
    stateful_step_count=20,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # to shrink a life takes minutes
)


class LongTieredMachine(TieredMachine):
    """The same, for many and longer lives."""


TestTiered = pytest.mark.long(TieredMachine.TestCase)
TestTiered.settings = SHORT
TestTieredForLong = pytest.mark.torture(LongTieredMachine.TestCase)
TestTieredForLong.settings = settings(SHORT, derandomize=False, max_examples=1000, stateful_step_count=40)

"""The metadata log's life, with full disks, failing devices, kills and power failures at any operation.

What was acknowledged is there, nothing is there by half, and nothing that was refused comes back.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from controller.quorum.opening import MetadataLogConfig
from tests.doubles.clock import ManualClock
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.controller.quorum.support import Process, config_record, made_root, numbers
from tests.unit.storage.support import NOW, MachineStopped

CONFIG = MetadataLogConfig(segment_bytes=700, max_record_bytes_between_snapshots=900)
READS = ("pread", "pread_nowait", "listdir", "size")


@dataclass(slots=True)
class Call:
    """One append: its numbers, the first one's offset, and how its caller learns what became of it."""

    numbers: list[int]
    offset: int
    appended_ms: int
    outcome: asyncio.Future[None]


class MetadataLogMachine(RuleBasedStateMachine):
    """`known`: the numbers that are in the log for sure, in order, with their offsets.

    `calls`: of those nothing is known yet; `lost`: those of which their callers were told that nobody knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(NOW)
        self.fs = FlakyFileSystem(self.clock.wall_ms)
        made_root(self.fs)
        self.unused = itertools.count()
        self.known: dict[int, int] = {}
        self.written_ms = 0  # no later than the last durable record
        self.calls: list[Call] = []
        self.lost: list[Call] = []
        self.may_fail = False
        self.process = Process(self.fs, self.clock, CONFIG)
        self.process.run(self.process.log.lead())

    # -- what the controller does

    @rule(
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4), value_bytes=st.integers(0, 60), at_once=st.booleans()
    )
    def append(self, sizes: list[int], value_bytes: int, at_once: bool) -> None:
        for size in sizes:
            chosen = list(itertools.islice(self.unused, size))
            self.process.do(partial(self.call, chosen, value_bytes))
            if not at_once:
                self.settle()
        self.settle()

    def call(self, chosen: list[int], value_bytes: int) -> None:
        log = self.process.log
        try:
            last = log.append([config_record(number, value_bytes) for number in chosen])
        except MetadataLogError:
            assert self.process.failures
            return
        self.calls.append(Call(chosen, last - len(chosen) + 1, self.clock.wall_ms(), log.durable(last)))

    @rule()
    def snapshot(self) -> None:
        """Of everything that is durable, as the image has it."""
        self.settle()
        log = self.process.log
        end = log.durable_end
        records = [config_record(number) for number, offset in self.known.items() if offset < end]
        task = self.process.loop.create_task(log.write_snapshot(end, log.epoch, self.written_ms, records))
        self.settle()
        if task.done() and task.exception() is not None:
            assert isinstance(task.exception(), MetadataLogError | MachineStopped)

    @rule(ms=st.sampled_from([100, 1_000, 70_000]))
    def time_passes(self, ms: int) -> None:
        self.process.advance(ms)
        self.settle()

    def settle(self) -> None:
        self.process.settle()
        pending = []
        for call in self.calls:
            if not call.outcome.done():
                pending.append(call)
                continue
            error = call.outcome.exception()
            if error is None:
                assert not self.lost
                self.known |= {number: call.offset + at for at, number in enumerate(call.numbers)}
                self.written_ms = call.appended_ms
            elif not isinstance(error, NoRoomError):
                assert isinstance(error, MetadataLogError)
                assert self.process.failures
                self.lost.append(call)
        self.calls = pending

    # -- what happens to it

    @rule(trouble=st.sampled_from(Trouble), chance=st.sampled_from([0.0, 0.1, 0.3, 1.0]), seed=st.integers(0, 1000))
    def trouble(self, trouble: Trouble, chance: float, seed: int) -> None:
        """From now on."""
        self.may_fail |= chance > 0 and trouble not in (Trouble.NONE, Trouble.ROOM, Trouble.DESCRIPTORS)
        self.fs.get_into(trouble, chance, seed)

    @precondition(lambda self: self.fs.before is None)
    @rule(operations=st.integers(0, 25))
    def power_will_fail(self, operations: int) -> None:
        """After so many operations that change something: all later ones do nothing."""
        left = itertools.count(operations, -1)

        def before() -> None:
            if next(left) <= 0:
                raise MachineStopped

        self.fs.before = before

    @rule(
        how=st.sampled_from(["a stop", "kill -9", "the power fails"]),
        unsynced=st.sampled_from(Unsynced),
        seed=st.integers(0, 1000),
        twice=st.booleans(),
    )
    def ends(self, how: str, unsynced: Unsynced, seed: int, twice: bool) -> None:
        """There is room again, and the device works again, at the next start."""
        if how == "a stop":
            stop = self.process.loop.create_task(self.process.log.close())
            self.settle()
            assert not stop.done() or isinstance(stop.exception(), MetadataLogError | MachineStopped | None)
        power_failed = self.fs.before is not None or how == "the power fails"
        self.process.end()
        self.fs.chance = 0.0
        self.fs.before = None
        if power_failed:
            self.fs.crash(unsynced, seed)
        else:
            self.fs.forget_failed_syncs()
        if twice:  # what the first start has shown must stay
            shown = Process(self.fs, self.clock, CONFIG)
            before = [numbers(batch.records) for batch in shown.log.batches()]
            shown.end()
            self.fs.crash(Unsynced.LOST)
            again = Process(self.fs, self.clock, CONFIG)
            assert [numbers(batch.records) for batch in again.log.batches()] == before
            again.end()
        process = Process(self.fs, self.clock, CONFIG)
        self.compare(process)
        self.process, self.may_fail = process, False
        process.run(process.log.lead())

    def compare(self, process: Process) -> None:
        """What was acknowledged is there, and of the rest whole calls, in order, up to some point."""
        batches = list(process.log.batches())
        found = [number for batch in batches for number in numbers(batch.records)]
        assert found[: len(self.known)] == list(self.known)
        rest = found[len(self.known) :]
        for call in self.lost + self.calls:
            if not rest:
                break
            assert rest[: len(call.numbers)] == call.numbers
            self.known |= {number: call.offset + at for at, number in enumerate(call.numbers)}
            del rest[: len(call.numbers)]
        assert not rest
        self.lost, self.calls = [], []
        for batch in batches:
            if batch.last_offset >= process.log.log.log_start_offset and batch.records:
                last = self.known[numbers(batch.records)[-1]]
                assert last == batch.last_offset or batch.last_offset + 1 == process.log.snapshot_offset
        assert all(a.last_offset <= b.last_offset and a.epoch <= b.epoch for a, b in pairwise(batches))
        assert all(a.timestamp <= b.timestamp for a, b in pairwise(batches))

    @invariant()
    def only_the_device_ends_it(self) -> None:
        """A lack of room or of descriptors does not."""
        assert len(self.process.failures) <= self.may_fail

    def teardown(self) -> None:
        self.process.end()


MetadataLogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMetadataLog = pytest.mark.long(MetadataLogMachine.TestCase)

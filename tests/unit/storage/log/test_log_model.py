"""Any sequence of appends, rolls, truncations, flushes, crashes and recoveries, against a list of batches."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from protocol.records.batch import read_header
from storage.append_types import LogConfig
from storage.log.segment_recovery import whole_batches
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.support import NOW, MachineStopped, Rig, append, batch, contents, stop_after
from tests.unit.storage.truncating import truncate_to

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, segment_index_bytes=96)


def check_indexes(log: UnifiedLog) -> None:
    """Every entry names a batch that is there, with its last offset and the largest timestamp up to it."""
    for segment in log.segments:
        largest = -1
        by_position, by_offset = {}, {}
        for position, header, _ in whole_batches(segment.file.open(), 0, segment.size):
            largest = max(largest, header.max_timestamp)
            by_position[position] = header.last_offset
            by_offset[header.last_offset] = largest
        assert segment.max_timestamp == largest
        offsets = segment.offset_index.entries()
        assert [by_position[position] for _, position in offsets] == [offset for offset, _ in offsets]
        times = segment.time_index.entries()
        assert [by_offset[offset] for _, offset in times] == [timestamp for timestamp, _ in times]
        assert times == sorted(set(times))


class LogMachine(RuleBasedStateMachine):
    """`batches` is what the log must hold; `durable` how many of them a crash may not take."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = MemoryFileSystem()
        self.rig = Rig(self.fs, CONFIG)
        self.batches: list[bytes] = []
        self.durable = 0
        self.epoch = 0
        self.watch(self.rig.log())

    @initialize()
    def start(self) -> None:
        self.note_flush()

    def watch(self, log: UnifiedLog) -> None:
        self.log = log
        log.flusher.on_flush = lambda _: self.note_flush()
        self.note_flush()

    def note_flush(self) -> None:
        flushed = self.log.flushed.offset
        self.durable = sum(read_header(batch).next_offset <= flushed for batch in self.batches)

    @rule(values=st.lists(st.binary(max_size=150), min_size=1, max_size=3), shift=st.integers(-50, 50))
    def append(self, values: list[bytes], shift: int) -> None:
        data = batch(*values, timestamp=NOW + shift)
        append(self.log, data, epoch=self.epoch)
        self.batches.append(bytes(data))

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(count=st.integers(1, 12))
    def append_some(self, count: int) -> None:
        for _ in range(count):
            self.append([b"x" * 40], 0)

    @rule(at_once=st.booleans())
    def flush(self, at_once: bool) -> None:
        self.log.flush()
        if at_once:
            self.rig.workers.run_all()

    @rule()
    def workers_run(self) -> None:
        self.rig.workers.run_all()

    @rule()
    def checkpoint(self) -> None:
        self.rig.manager.checkpoint_recovery_points()

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        kept = round(len(self.batches) * share)
        truncate_to(self.log, self.end_of(kept))
        del self.batches[kept:]
        self.note_flush()

    @rule()
    def restart(self) -> None:
        self.watch(self.rig.restart())

    @rule()
    def kill(self) -> None:
        self.watch(self.rig.kill())

    @rule(unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def crash(self, unsynced: Unsynced, seed: int) -> None:
        self.recover(unsynced, seed)

    @rule(
        operation=st.sampled_from(["append", "roll", "flush", "truncate", "restart", "checkpoint"]),
        survived=st.integers(0, 12),
        unsynced=st.sampled_from(Unsynced),
        seed=st.integers(0, 1000),
    )
    def crash_within(self, operation: str, survived: int, unsynced: Unsynced, seed: int) -> None:
        """The power fails after some of the disk operations of an append, a roll, a flush, a truncation, a stop."""
        self.fs.hook = stop_after(survived)
        data = batch(b"in flight" * 9)
        try:
            match operation:
                case "append":
                    append(self.log, data, epoch=self.epoch)
                case "roll":
                    self.log.roll()
                case "flush":
                    self.log.flush()
                    self.rig.workers.run_all()
                case "truncate":
                    kept = len(self.batches) // 2
                    self.durable = min(self.durable, kept)
                    truncate_to(self.log, self.end_of(kept))
                case "restart":
                    self.rig.manager.close()
                case "checkpoint":
                    self.rig.manager.checkpoint_recovery_points()
        except MachineStopped:
            pass
        finally:
            self.fs.hook = None
        if operation == "append":
            self.batches.append(bytes(data))
        self.recover(unsynced, seed)

    def end_of(self, count: int) -> int:
        """The offset after the first `count` batches."""
        return read_header(self.batches[count - 1]).next_offset if count else 0

    def recover(self, unsynced: Unsynced, seed: int) -> None:
        self.rig.workers.drop_all()
        self.fs.crash(unsynced, seed)
        log = self.rig.reopen()
        found = contents(log)
        assert found == self.batches[: len(found)]
        assert len(found) >= self.durable
        self.batches = found
        self.watch(log)
        assert log.flushed.offset == log.log_end_offset

    @invariant()
    def log_is_the_model(self) -> None:
        assert contents(self.log) == self.batches
        assert self.log.log_end_offset == self.end_of(len(self.batches))
        check_indexes(self.log)


LogMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLog = pytest.mark.long(LogMachine.TestCase)


def test_what_is_appended_below_an_old_recovery_point_is_scanned_and_synced_by_a_load() -> None:
    machine = LogMachine()
    machine.append_some(8)
    machine.restart()
    machine.truncate(share=0.0)
    machine.append_some(9)  # fills the first segment, which ends at the old recovery point
    machine.kill()
    machine.crash(Unsynced.LOST, seed=0)
    machine.log_is_the_model()
    assert len(machine.batches) == 9


def test_a_truncation_cut_short_leaves_no_gap() -> None:
    machine = LogMachine()
    machine.append_some(20)
    machine.restart()
    for survived in range(40):
        machine.crash_within("truncate", survived, Unsynced.LOST, seed=0)
        machine.log_is_the_model()
        machine.append_some(20 - len(machine.batches) + 1)
        machine.restart()

"""A log's life while the disk is full at times: appends, retention, DeleteRecords, kills and power failures."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.errors import KafkaStorage
from protocol.records.batch import read_header
from storage.append_types import LogConfig
from storage.log.retention import delete_old_segments
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.storage.support import Rig, append, batch, contents

CONFIG = LogConfig(
    segment_bytes=300,
    index_interval_bytes=100,
    retention_ms=60_000,
    retention_bytes=3000,
    file_delete_delay_ms=500,
    message_timestamp_after_max_ms=2**62,
)
THEN = st.sampled_from(["nothing", "retention", "workers work"])


class ShortageMachine(RuleBasedStateMachine):
    """`batches`: what was acknowledged, and may be read from the log's start on.

    `promised_start`: what DeleteRecords has answered: the log never starts below it again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fs = FlakyFileSystem()
        self.rig = Rig(self.fs, CONFIG)
        self.fs.now_ms = self.rig.clock.wall_ms
        self.batches: list[bytes] = []
        self.promised_start = 0
        self.log = self.rig.log()
        self.rig.workers.run_all()

    # -- what clients do

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        for _ in range(count):
            now_ms = self.rig.clock.wall_ms()
            data = batch(b"v" * 50, timestamp=now_ms)
            try:
                append(self.log, data, now_ms=now_ms)
            except KafkaStorage:
                continue
            self.batches.append(bytes(data))

    @rule(share=st.floats(0, 1), then=THEN)
    def delete_records(self, share: float, then: str) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = start + round((end - start) * share)
        self.log.increment_log_start_offset(offset)
        try:
            self.rig.manager.checkpoint_log_start_offsets()
        except OSError:
            pass
        else:
            self.promised_start = offset
        if then != "nothing":
            self.retention(then)

    # -- what the broker does

    @rule(then=THEN)
    def retention(self, then: str) -> None:
        with suppress(KafkaStorage):
            delete_old_segments(self.log, self.log.log_end_offset)
        if then == "workers work":
            self.rig.workers.run_all()

    @rule(what=st.sampled_from(["flush", "checkpoint", "one step", "all steps", "a tenth of a second", "seconds"]))
    def work(self, what: str) -> None:
        match what:
            case "flush":
                self.log.flush()
            case "checkpoint":
                with suppress(OSError):
                    self.rig.manager.checkpoint_recovery_points()
            case "one step":
                if self.rig.workers.waiting:
                    self.rig.workers.run_next()
            case "all steps":
                self.rig.workers.run_all()
            case "a tenth of a second":
                self.rig.clock.advance(100)
            case "seconds":
                self.rig.clock.advance(30_000)

    # -- what happens to it

    @rule(seed=st.integers(0, 1000), chance=st.sampled_from([0.0, 0.0, 0.2, 0.5, 1.0]))
    def disk_is_full(self, seed: int, chance: float) -> None:
        """From now on."""
        self.fs.get_into(Trouble.ROOM, chance, seed)

    @rule(
        how=st.sampled_from(["a stop", "kill -9", "kill -9", "the power fails"]),
        unsynced=st.sampled_from(Unsynced),
        seed=st.integers(0, 1000),
    )
    def ends(self, how: str, unsynced: Unsynced, seed: int) -> None:
        """There is room again at the next start."""
        self.fs.chance = 0.0
        match how:
            case "a stop":
                self.stop()
            case "kill -9":
                self.kill()
            case _:
                self.lose_power(unsynced, seed)

    def stop(self) -> None:
        start = self.log.log_start_offset
        self.rig.manager.close()
        self.forget_the_process()
        self.log = self.rig.reopen()
        assert self.log.log_start_offset == start
        self.promised_start = start

    def kill(self) -> None:
        start = self.log.log_start_offset
        self.forget_the_process()
        self.rig.manager.release()
        self.log = self.rig.reopen()
        assert self.promised_start <= self.log.log_start_offset <= start
        assert self.log.log_end_offset == self.end

    def lose_power(self, unsynced: Unsynced, seed: int) -> None:
        flushed = self.log.flushed.offset
        self.forget_the_process()
        self.fs.crash(unsynced, seed)
        self.log = self.rig.reopen()
        assert self.log.log_end_offset >= flushed
        self.batches = [batch for batch in self.batches if read_header(batch).next_offset <= self.log.log_end_offset]
        assert self.log.log_end_offset == max(self.end, self.log.log_start_offset)
        assert self.promised_start <= self.log.log_start_offset

    def forget_the_process(self) -> None:
        self.rig.workers.drop_all()
        self.rig.clock.drop_all()

    # -- what holds

    @property
    def end(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        start = self.log.log_start_offset
        assert not self.log.is_offline
        assert contents(self.log) == [batch for batch in self.batches if read_header(batch).next_offset > start]


ShortageMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestShortage = ShortageMachine.TestCase

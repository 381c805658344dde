"""Compaction on a disk that fails at times: what a reader makes of the log stays right, whatever could not be done."""

from __future__ import annotations

from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, rule

from protocol.errors import KafkaStorage
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.storage.cleaner.cleaning import end_txn
from tests.unit.storage.cleaner.test_cleaner_model import PRODUCERS, CleanerMachine
from tests.unit.storage.support import MachineStopped, stop_after


class ShortCleanerMachine(CleanerMachine):
    """Appends, rolls and cleanings may be refused; an append that was has left nothing."""

    fs: FlakyFileSystem

    new_file_system = FlakyFileSystem

    # -- what may be refused

    def add(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int, *, transactional: bool) -> None:
        with suppress(KafkaStorage):
            super().add(pairs, producer_id, transactional=transactional)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end(self, producer_id: int, commit: bool) -> None:
        if not self.open_of(producer_id):
            return
        offset = self.log.log_end_offset
        with suppress(KafkaStorage):
            end_txn(self.log, producer_id, commit=commit, timestamp=self.rig.clock.wall_ms())
            self.markers.append((offset, producer_id, commit))
            self.settle()

    @rule()
    def roll(self) -> None:
        with suppress(OSError):
            self.log.roll()

    def seal(self) -> None:
        self.roll()
        self.add([(b"a", b"active")], -1, transactional=False)
        self.rig.workers.run_all()

    # -- what happens to it

    @rule(
        trouble=st.sampled_from([Trouble.ROOM, Trouble.DESCRIPTORS]),
        chance=st.sampled_from([0.0, 0.05, 0.2, 0.4]),  # a swap is tried again until all of it succeeds in one go
        seed=st.integers(0, 1000),
    )
    def disk(self, trouble: Trouble, chance: float, seed: int) -> None:
        self.fs.get_into(trouble, chance, seed)

    @rule(survived=st.integers(0, 60), unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def crash_while_cleaning(self, survived: int, unsynced: Unsynced, seed: int) -> None:
        self.seal()
        self.fs.before = stop_after(survived)
        with suppress(MachineStopped):
            self.clean(1000, sealed=False)
        self.fs.before = None
        self.crash(unsynced, seed)

    @rule()
    def restart(self) -> None:
        self.fs.chance = 0.0
        self.rig.workers.run_all()
        super().restart()

    @rule()
    def kill(self) -> None:
        self.fs.chance = 0.0
        self.rig.clock.drop_all()
        end = self.log.log_end_offset
        super().kill()
        assert self.log.log_end_offset == end

    @rule(unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def crash(self, unsynced: Unsynced, seed: int) -> None:
        self.fs.chance = 0.0
        self.rig.clock.drop_all()
        super().crash(unsynced, seed)

    # -- what must hold

    @invariant()
    def readers_see_the_same(self) -> None:
        assert not self.log.is_offline
        with self.fs.calm():
            super().readers_see_the_same()

    @invariant()
    def what_is_left_is_what_was_appended(self) -> None:
        with self.fs.calm():
            super().what_is_left_is_what_was_appended()


ShortCleanerMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestShortCleaner = pytest.mark.long(ShortCleanerMachine.TestCase)

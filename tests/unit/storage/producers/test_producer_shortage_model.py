"""Producers and transactions on a disk that fails at times: the state after any stop is that of the log's records."""

from __future__ import annotations

import copy
from contextlib import suppress

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.errors import KafkaStorage
from storage.append_types import AppendInfo
from storage.log.retention import delete_old_segments
from tests.doubles.files import Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.storage.producers.test_producer_model import (
    CONFIG,
    PRODUCERS,
    Aborted,
    Entry,
    Producer,
    ProducerMachine,
)
from tests.unit.storage.support import Rig

TROUBLES = st.sampled_from([one for one in Trouble if one is not Trouble.DEVICE])
CHANCES = st.sampled_from([0.05, 0.3, 1.0])

Model = tuple[dict[int, Producer], list[Entry], list[Aborted]]


class ShortProducerMachine(ProducerMachine):
    """`models`: what holds if the log ends at an offset."""

    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        self.fs = FlakyFileSystem()
        self.rig = Rig(self.fs, CONFIG)
        self.fs.now_ms = self.rig.clock.wall_ms
        self.log = self.rig.log()
        self.producers = {one: Producer(one) for one in PRODUCERS}
        self.entries: list[Entry] = []
        self.aborted: list[Aborted] = []
        self.coordinator_epoch = 0
        self.models: dict[int, Model] = {}
        self.may_fail = False

    # -- what may be refused

    def append(
        self, producer: Producer, sequence: int, count: int, *, epoch: int | None = None, transactional: bool = False
    ) -> AppendInfo:
        self.models.setdefault(self.log.log_end_offset, self.model())
        if self.may_fail:
            return super().append(producer, sequence, count, epoch=epoch, transactional=transactional)
        with self.fs.calm():
            return super().append(producer, sequence, count, epoch=epoch, transactional=transactional)

    def end(self, producer: Producer, commit: bool, epoch: int, coordinator_epoch: int) -> int:
        if epoch >= producer.epoch and coordinator_epoch == self.coordinator_epoch:
            return super().end(producer, commit, epoch, coordinator_epoch)
        with self.fs.calm():
            return super().end(producer, commit, epoch, coordinator_epoch)

    @rule(who=st.sampled_from(PRODUCERS), count=st.integers(1, 3), transactional=st.booleans(), times=st.integers(1, 7))
    def sends_on_this_disk(self, who: int, count: int, transactional: bool, times: int) -> None:
        self.may_fail = True
        with suppress(KafkaStorage):
            self.sends(who, count, transactional, times)
        self.may_fail = False

    @rule(who=st.sampled_from(PRODUCERS), commit=st.booleans(), bump=st.booleans())
    def its_transaction_ends(self, who: int, commit: bool, bump: bool) -> None:
        with suppress(KafkaStorage):
            super().its_transaction_ends(who, commit, bump)

    @rule(share=st.floats(0, 1))
    def the_log_is_trimmed(self, share: float) -> None:
        with self.fs.calm():
            super().the_log_is_trimmed(share)

    @rule()
    def the_idle_are_forgotten(self) -> None:
        super().the_idle_are_forgotten()
        for producers, _, _ in self.models.values():
            for producer in producers.values():
                if self.producers[producer.producer_id].first is None:
                    producer.known, producer.sent = False, []

    # -- what the broker does

    @rule()
    def old_segments_go(self) -> None:
        with suppress(KafkaStorage):
            delete_old_segments(self.log, self.log.log_end_offset)

    @rule(what=st.sampled_from(["flush", "checkpoint", "one step", "all steps", "seconds"]))
    def works(self, what: str) -> None:
        match what:
            case "flush":
                self.log.flush()
            case "checkpoint":
                with suppress(OSError):
                    self.rig.manager.checkpoint_recovery_points()
            case "one step" if self.rig.workers.waiting:
                self.rig.workers.run_next()
            case "all steps":
                self.rig.workers.run_all()
            case "seconds":
                self.rig.clock.advance(70_000)

    # -- what happens to it

    @rule(trouble=TROUBLES, chance=CHANCES, seed=st.integers(0, 1000))
    def disk(self, trouble: Trouble, chance: float, seed: int) -> None:
        self.fs.get_into(trouble, chance, seed)

    @rule(kill=st.booleans())
    def the_broker_starts_again(self, kill: bool) -> None:
        self.fs.chance = 0.0
        self.rig.clock.drop_all()
        end = self.log.log_end_offset
        if kill or self.log.is_offline:
            self.fs.forget_failed_syncs()
            super().the_broker_starts_again(kill=True)
        else:
            self.rig.workers.run_all()
            super().the_broker_starts_again(kill=False)
        assert self.log.log_end_offset == end

    @rule(unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def the_power_fails(self, unsynced: Unsynced, seed: int) -> None:
        flushed, start, last = self.log.flushed.offset, self.log.log_start_offset, self.log.log_end_offset
        self.fs.chance = 0.0
        self.rig.clock.drop_all()
        self.rig.workers.drop_all()
        self.fs.crash(unsynced, seed)
        self.log = self.rig.reopen()
        end = self.log.log_end_offset
        assert flushed <= end <= last
        assert self.log.log_start_offset == start
        self.rewind(end)
        self.the_broker_starts_again(kill=True)

    @rule(trouble=TROUBLES, chance=CHANCES, seed=st.integers(0, 1000), unsynced=st.none() | st.sampled_from(Unsynced))
    def starts_in_trouble(self, trouble: Trouble, chance: float, seed: int, unsynced: Unsynced | None) -> None:
        """And then again in none."""
        end = self.log.log_end_offset
        flushed = self.log.flushed.offset
        self.rig.clock.drop_all()
        self.rig.workers.drop_all()
        self.rig.manager.release()
        self.fs.forget_failed_syncs()
        if unsynced is not None:
            self.fs.crash(unsynced, seed)
        self.fs.get_into(trouble, chance, seed)
        with suppress(Exception):
            self.rig.reopen()
        self.fs.chance = 0.0
        self.rig.clock.drop_all()
        self.rig.workers.drop_all()
        self.fs.forget_failed_syncs()
        self.fs.unlock_all()
        self.log = self.rig.reopen()
        if unsynced is None:
            assert self.log.log_end_offset == end
        else:
            assert flushed <= self.log.log_end_offset <= end
            self.rewind(self.log.log_end_offset)
        self.the_broker_starts_again(kill=True)

    def model(self) -> Model:
        return copy.deepcopy((self.producers, self.entries, self.aborted))

    def rewind(self, end: int) -> None:
        """The log has lost what came from there on."""
        start = self.log.log_start_offset
        known = max(offset for offset in self.models if offset <= end)  # less if it ended before its start
        self.producers, entries, aborted = copy.deepcopy(self.models[known])
        self.models = {offset: one for offset, one in self.models.items() if offset <= end}
        self.entries = [record for record in entries if record.offset + record.records > start]
        self.aborted = [one for one in aborted if one.last >= start]
        for producer in self.producers.values():
            producer.sent = [appended for appended in producer.sent if appended.offset >= start]

    # -- what holds

    @invariant()
    def an_offline_log_comes_back(self) -> None:
        if self.log.is_offline:
            self.the_broker_starts_again(kill=True)
        self.models[self.log.log_end_offset] = self.model()

    @invariant()
    def each_batch_is_there_once(self) -> None:
        with self.fs.calm():
            super().each_batch_is_there_once()

    @invariant()
    def the_oldest_open_transaction_bounds_readers(self) -> None:
        with self.fs.calm():
            super().the_oldest_open_transaction_bounds_readers()

    @invariant()
    def readers_are_told_what_is_aborted(self) -> None:
        with self.fs.calm():
            super().readers_are_told_what_is_aborted()


ShortProducerMachine.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestShortProducers = ShortProducerMachine.TestCase

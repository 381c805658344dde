"""Any sequence of keyed appends, transactions, cleanings, crashes: what a reader makes of the log stays right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.records.build import iter_records
from storage.append_types import LogConfig
from storage.cleaner.log_cleaner import CleanerConfig
from storage.cleaner.offset_map import BYTES_PER_KEY
from storage.log.unified_log import UnifiedLog
from storage.segments.txn_index import collect_aborted
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.cleaner.cleaning import Kept, batches, cleaner, end_txn, last_stable_offset, put, records, run
from tests.unit.storage.support import MachineStopped, Rig, stop_after

CONFIG = LogConfig(
    segment_bytes=1000,
    index_interval_bytes=100,
    compact=True,
    delete=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=10,
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d" * 40])
PRODUCERS = (1, 2)


@dataclass(slots=True)
class Appended:
    """A record that was appended; `committed` is None while its transaction is open."""

    record: Kept
    producer_id: int
    sequence: int
    committed: bool | None


def committed_view(log: UnifiedLog) -> list[Kept]:
    """What a read-committed consumer makes of the log, by the rules of Kafka's Fetcher."""
    indexes = (segment.txn_index for segment in log.segments)
    aborted = sorted(collect_aborted(indexes, log.log_start_offset, log.log_end_offset), key=lambda txn: txn[1])
    inside: set[int] = set()
    found = []
    stable = last_stable_offset(log)
    for header, data in batches(log):
        if header.base_offset >= stable:
            break
        while aborted and aborted[0].first_offset <= header.last_offset:
            inside.add(aborted.pop(0).producer_id)
        if header.is_control:
            inside.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in inside):
            found += [Kept(record.offset, record.key, record.value) for record in iter_records(data, header)]
    return found


def state_of(found: list[Kept]) -> dict[bytes | None, bytes]:
    state: dict[bytes | None, bytes] = {}
    for one in found:
        if one.value is None:
            state.pop(one.key, None)
        else:
            state[one.key] = one.value
    return state


class CleanerMachine(RuleBasedStateMachine):
    """`appended` is every record ever, compacted or not; a crash may take its end away."""

    new_file_system: Callable[[], MemoryFileSystem] = MemoryFileSystem

    def __init__(self) -> None:
        super().__init__()
        self.fs = self.new_file_system()
        self.rig = Rig(self.fs, CONFIG)
        self.fs.now_ms = self.rig.clock.wall_ms
        self.appended: list[Appended] = []
        self.markers: list[tuple[int, int, bool]] = []
        self.log = self.rig.log()

    # -- appending

    def add(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int, *, transactional: bool) -> None:
        base = self.log.log_end_offset
        sequence = self.next_sequence(producer_id)
        options = {"producer_id": producer_id, "sequence": sequence} if producer_id >= 0 else {}
        put(self.log, *pairs, timestamp=self.rig.clock.wall_ms() - 5000, transactional=transactional, **options)
        for number, (key, value) in enumerate(pairs):
            committed = None if transactional else True
            self.appended.append(Appended(Kept(base + number, key, value), producer_id, sequence + number, committed))

    def next_sequence(self, producer_id: int) -> int:
        return max((one.sequence + 1 for one in self.appended if one.producer_id == producer_id), default=0)

    def open_of(self, producer_id: int) -> bool:
        return any(one.producer_id == producer_id and one.committed is None for one in self.appended)

    @rule(pairs=st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=60)), min_size=1, max_size=4))
    def append(self, pairs: list[tuple[bytes, bytes | None]]) -> None:
        self.add(pairs, -1, transactional=False)

    @rule(
        pairs=st.lists(st.tuples(KEYS, st.binary(max_size=60)), min_size=1, max_size=3),
        producer_id=st.sampled_from(PRODUCERS),
    )
    def append_in_a_transaction(self, pairs: list[tuple[bytes, bytes | None]], producer_id: int) -> None:
        self.add(pairs, producer_id, transactional=True)

    @rule(producer_id=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end(self, producer_id: int, commit: bool) -> None:
        if self.open_of(producer_id):
            self.markers.append((self.log.log_end_offset, producer_id, commit))
            end_txn(self.log, producer_id, commit=commit, timestamp=self.rig.clock.wall_ms())
            self.settle()

    def settle(self) -> None:
        """Which transactions are over, as the markers say."""
        for one in self.appended:
            if one.committed is None:
                ends = [ok for at, pid, ok in self.markers if pid == one.producer_id and at > one.record.offset]
                one.committed = ends[0] if ends else None

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.rig.workers.run_all()

    @rule(ms=st.sampled_from([5, 600, 2000]))
    def wait(self, ms: int) -> None:
        self.rig.clock.advance(ms)
        self.rig.workers.run_all()

    # -- cleaning

    def seal(self) -> None:
        self.log.roll()
        self.add([(b"a", b"active")], -1, transactional=False)
        self.rig.workers.run_all()

    @rule(keys=st.sampled_from([3, 1000]), sealed=st.booleans())
    def clean(self, keys: int, sealed: bool) -> None:
        if sealed:
            self.seal()
        config = CleanerConfig(dedupe_buffer_size=keys * BYTES_PER_KEY, load_factor=1.0)
        run(self.rig, cleaner(self.rig, config).run_once())

    @rule(survived=st.integers(0, 60), unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def crash_while_cleaning(self, survived: int, unsynced: Unsynced, seed: int) -> None:
        self.seal()
        self.fs.hook = stop_after(survived)
        try:
            self.clean(1000, sealed=False)
        except MachineStopped:
            pass
        finally:
            self.fs.hook = None
        self.crash(unsynced, seed)

    # -- stopping

    @rule()
    def restart(self) -> None:
        self.log = self.rig.restart()

    @rule()
    def kill(self) -> None:
        self.log = self.rig.kill()

    @rule(unsynced=st.sampled_from(Unsynced), seed=st.integers(0, 1000))
    def crash(self, unsynced: Unsynced, seed: int) -> None:
        durable = self.log.flushed.offset
        self.rig.workers.drop_all()
        self.fs.crash(unsynced, seed)
        self.log = self.rig.reopen()
        end = self.log.log_end_offset
        assert end >= durable
        self.appended = [one for one in self.appended if one.record.offset < end]
        self.markers = [one for one in self.markers if one[0] < end]
        for one in self.appended:
            one.committed = True if one.producer_id < 0 else None
        self.settle()

    # -- what must hold

    @invariant()
    def readers_see_the_same(self) -> None:
        expected = [one.record for one in self.appended if one.committed]
        stable = last_stable_offset(self.log)
        expected = [one for one in expected if one.offset < stable]
        assert state_of(committed_view(self.log)) == state_of(expected)

    @invariant()
    def what_is_left_is_what_was_appended(self) -> None:
        found = records(self.log)
        everything = [one.record for one in self.appended]
        assert set(found) <= set(everything)
        assert found == sorted(found, key=lambda one: one.offset)
        sealed_end = self.log.segments.active.base_offset
        assert [one for one in found if one.offset >= sealed_end] == [
            one for one in everything if one.offset >= sealed_end
        ]
        for lost in set(everything) - set(found):
            superseded = any(one.key == lost.key and one.offset > lost.offset for one in everything)
            assert superseded or lost.value is None or lost in self.aborted()

    def aborted(self) -> list[Kept]:
        return [one.record for one in self.appended if one.committed is False]

    @invariant()
    def producers_are_as_a_full_replay_has_them(self) -> None:
        for producer_id in PRODUCERS:
            mine = [one for one in self.appended if one.producer_id == producer_id]
            entry = self.log.producers.producers.get(producer_id)
            if not mine:
                assert entry is None
                continue
            assert entry is not None
            assert entry.last_sequence == mine[-1].sequence
            still_open = [one.record.offset for one in mine if one.committed is None]
            assert entry.txn_first_offset == (still_open[0] if still_open else -1)


CleanerMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCleaner = pytest.mark.long(CleanerMachine.TestCase)

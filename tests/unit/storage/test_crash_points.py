"""The power fails before each single operation of a long run: what is found afterwards keeps every promise.

The run has idempotent and transactional producers, epochs, rolls, flushes, checkpoints, deletion of records, retention,
compaction and restarts. A few hundred of its points are tried; `ODRADEK_CRASH_POINTS=N` tries all of N such runs, ten
thousand each.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field, replace

import pytest

from storage.append_types import LogConfig
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.storage.cleaner.cleaning import Kept, batches, clean, end_txn, last_stable_offset, put, records
from tests.unit.storage.crashing import READING, committed_view
from tests.unit.storage.support import NOW, Rig

TOPICS = ("plain", "compacted")
PRODUCERS = (1, 2, 3)
STEPS = 220
SAMPLE = 80
SEEDS = int(os.environ.get("ODRADEK_CRASH_POINTS", "0"))
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=500,
    file_delete_delay_ms=20,
    retention_ms=-1,
)


@dataclass
class Written:
    """What was appended to one log, in order: records with producer and sequence, and markers."""

    found: list[tuple[Kept, int, int]] = field(default_factory=list)
    markers: list[tuple[int, int, bool]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    start: int = 0


@dataclass
class Point:
    """The machine before one operation: its files, and what had been promised by then."""

    operation: str
    fs: MemoryFileSystem
    durable: dict[str, int]
    start: dict[str, int]


class Run:
    """One run over one file system; `points` are the moments that were kept."""

    def __init__(self, seed: int, keep: set[int]) -> None:
        self.random = random.Random(seed)
        self.fs = MemoryFileSystem()
        self.rig = Rig(self.fs, CONFIG)
        self.fs.now_ms = self.rig.clock.wall_ms
        self.written = {topic: Written() for topic in TOPICS}
        self.durable = dict.fromkeys(TOPICS, 0)
        self.start = dict.fromkeys(TOPICS, 0)
        self.epoch = 0
        self.operations = 0
        self.points: list[Point] = []
        self._keep = keep
        for topic in TOPICS:
            self.watch(topic)
        self.fs.hook = self._before

    def _before(self, operation: str, path: str) -> None:
        self.operations += 1
        if self.operations in self._keep and operation not in READING:
            self.points.append(Point(f"{operation} {path}", self.fs.copy(), dict(self.durable), dict(self.start)))

    def log(self, topic: str) -> UnifiedLog:
        found = self.rig.log(topic)
        found.config = replace(CONFIG, compact=topic == "compacted", delete=topic == "plain")
        return found

    def watch(self, topic: str) -> None:
        log = self.log(topic)

        def flushed(_: object) -> None:
            self.durable[topic] = log.flushed.offset

        log.flusher.on_flush = flushed
        flushed(None)

    # -- steps

    def step(self) -> None:
        topic = self.random.choice(TOPICS)
        what = self.random.choices(
            (self.append, self.end, self.flush, self.roll, self.wait, self.tidy, self.checkpoint, self.restart),
            (40, 12, 10, 8, 8, 6, 4, 2),
        )[0]
        what(topic)

    def append(self, topic: str) -> None:
        log, written = self.log(topic), self.written[topic]
        producer_id = self.random.choice((-1, *PRODUCERS))
        transactional = producer_id >= 0 and (producer_id in written.open or self.random.random() < 0.5)
        pairs = [
            (b"key %d" % self.random.randrange(5), self.random.randbytes(self.random.randrange(40)))
            for _ in range(self.random.randrange(1, 4))
        ]
        base, sequence = log.log_end_offset, written.sequences.get(producer_id, 0)
        options = {"producer_id": producer_id, "sequence": sequence} if producer_id >= 0 else {}
        put(log, *pairs, timestamp=self.rig.clock.wall_ms(), transactional=transactional, **options)
        for number, pair in enumerate(pairs):
            written.found.append((Kept(base + number, *pair), producer_id if transactional else -1, sequence + number))
        if producer_id >= 0:
            written.sequences[producer_id] = sequence + len(pairs)
        if transactional:
            written.open.add(producer_id)

    def end(self, topic: str) -> None:
        log, written = self.log(topic), self.written[topic]
        for producer_id in sorted(written.open):
            commit = self.random.random() < 0.6
            written.markers.append((log.log_end_offset, producer_id, commit))
            end_txn(log, producer_id, commit=commit, timestamp=self.rig.clock.wall_ms())
        written.open.clear()

    def flush(self, topic: str) -> None:
        self.log(topic).flush()
        self.rig.workers.run_all()

    def roll(self, topic: str) -> None:
        self.log(topic).roll()

    def wait(self, _topic: str) -> None:
        self.rig.clock.advance(300)
        self.rig.workers.run_all()

    def tidy(self, topic: str) -> None:
        """Compaction of the one, retention and deleted records of the other."""
        log = self.log(topic)
        if topic == "compacted":
            clean(self.rig)
            return
        delete_old_segments(log, log.log_end_offset)
        before = log.flushed.offset
        offset = self.random.randint(log.log_start_offset, before) if before > log.log_start_offset else before
        log.increment_log_start_offset(offset)
        self.written[topic].start = log.log_start_offset
        self.rig.manager.checkpoint_log_start_offsets()
        self.start[topic] = log.log_start_offset

    def checkpoint(self, _topic: str) -> None:
        self.rig.manager.checkpoint_recovery_points()

    def restart(self, _topic: str) -> None:
        self.rig.workers.run_all()
        self.rig.restart()
        for topic in TOPICS:
            self.watch(topic)


def check(run: Run, point: Point, unsynced: Unsynced, seed: int) -> None:
    point.fs.crash(unsynced, seed)
    rig = Rig(point.fs, CONFIG)
    for again in (False, True):
        if again:
            rig.manager.close()
            rig.manager = rig.open()
        check_logs(run, point, rig)


def check_logs(run: Run, point: Point, rig: Rig) -> None:
    for topic in TOPICS:
        found = rig.manager.get(topic, 0)
        if found is None:
            assert point.durable[topic] == 0
            continue
        written = run.written[topic]
        assert found.log_end_offset >= point.durable[topic]
        assert point.start[topic] <= found.log_start_offset <= max(written.start, point.start[topic])
        check_records(found, written, compacted=topic == "compacted")
        check_producers(found, written)


def check_records(log: UnifiedLog, written: Written, *, compacted: bool) -> None:
    start, end = log.log_start_offset, log.log_end_offset
    expected = [one for one in written.found if start <= one[0].offset < end]
    found = [record for record in records(log) if record.offset >= start]
    if compacted:
        assert set(found) <= {record for record, _, _ in expected}
    else:
        assert found == [record for record, _, _ in expected]
    stable = last_stable_offset(log)
    committed = [
        record
        for record, producer_id, _ in expected
        if record.offset < stable and (producer_id < 0 or fate(written, record.offset, producer_id, end))
    ]
    assert state_of(committed_view(log, stable)) == state_of(committed)
    for header, _ in batches(log):
        assert header.base_offset < start or log.leader_epochs.epoch_for(header.base_offset) == header.leader_epoch


def fate(written: Written, offset: int, producer_id: int, end: int) -> bool:
    """Whether a record's transaction was committed, below the log's end."""
    return next((ok for at, pid, ok in written.markers if pid == producer_id and offset < at < end), False)


def state_of(found: list[Kept]) -> dict[bytes | None, bytes | None]:
    return {one.key: one.value for one in found}


def check_producers(log: UnifiedLog, written: Written) -> None:
    """As a replay of the whole log would have them, save those of which nothing is left."""
    end = log.log_end_offset
    first_open: dict[int, int] = {}
    for record, producer_id, _ in written.found:
        if producer_id >= 0 and record.offset < end:
            ended = any(pid == producer_id and record.offset < at < end for at, pid, _ in written.markers)
            if not ended:
                first_open.setdefault(producer_id, record.offset)
    for producer_id, offset in first_open.items():
        entry = log.producers.producers.get(producer_id)
        if offset >= log.log_start_offset:
            assert entry is not None
            assert entry.txn_first_offset == offset
    for producer_id, entry in log.producers.producers.items():
        if entry.txn_first_offset >= 0:
            assert first_open.get(producer_id) == entry.txn_first_offset


def operations_of(seed: int) -> int:
    return run_of(seed, set()).operations


def run_of(seed: int, keep: set[int]) -> Run:
    run = Run(seed, keep)
    for _ in range(STEPS):
        run.step()
    assert run.rig.clock.wall_ms() > NOW
    return run


def try_points(seed: int, keep: set[int], unsynced: list[Unsynced]) -> None:
    run = run_of(seed, keep)
    for number, point in enumerate(run.points):
        try:
            check(run, point, unsynced[number % len(unsynced)], seed)
        except AssertionError as error:
            raise AssertionError(f"before {point.operation}: {error}") from error


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_moment_the_power_fails_every_promise_is_kept(seed: int) -> None:
    total = operations_of(seed)
    assert total > 2000
    try_points(seed, set(random.Random(seed).sample(range(1, total + 1), SAMPLE)), list(Unsynced))


@pytest.mark.skipif(SEEDS < 1, reason="minutes; ODRADEK_CRASH_POINTS=SEEDS, 1 or more, asks for it")
@pytest.mark.timeout(0)
def test_at_every_single_moment_too() -> None:
    for seed in range(SEEDS):
        total = operations_of(seed)
        for unsynced in Unsynced:
            for first in range(1, total + 1, SAMPLE):
                try_points(seed, set(range(first, first + SAMPLE)), [unsynced])

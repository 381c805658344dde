"""Which log is compacted, when, and how much of it (Kafka's LogCleanerManagerTest names the cases)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from protocol.topic_partition import TopicPartition
from storage.append_types import LogConfig
from storage.cleaner.selection import LogToClean, examine
from storage.log.unified_log import UnifiedLog
from tests.doubles.clock import ManualClock
from tests.unit.storage.cleaner.cleaning import clean, cleaner, end_txn, last_stable_offset, put, records, run
from tests.unit.storage.support import NOW, Rig

COMPACT = LogConfig(compact=True, delete=False)
HOUR = 3_600_000


@pytest.fixture
def rig() -> Rig:
    return Rig(config=COMPACT)


def segments(rig: Rig, count: int, topic: str = "t", timestamps: list[int] | None = None) -> UnifiedLog:
    """A log of so many sealed segments, all of one size and all on disk, and an active one."""
    log = rig.log(topic)
    for number in range(count + 1):
        put(log, (b"a", b"%02d" % number), timestamp=timestamps[number] if timestamps else NOW)
        if number < count:
            log.roll()
    rig.workers.run_all()
    return log


def look(log: UnifiedLog, now_ms: int = NOW) -> LogToClean:
    return examine(log, log.cleaned_to, last_stable_offset(log), now_ms)


def test_min_cleanable_dirty_ratio_makes_a_log_due(rig: Rig) -> None:
    log = segments(rig, 4)
    assert look(log).ratio == 1.0
    log.cleaned_to = 2
    found = look(log)
    assert (found.first_dirty, found.first_uncleanable, found.ratio, found.is_due) == (2, 4, 0.5, False)
    log.config = replace(COMPACT, min_cleanable_dirty_ratio=0.49)
    assert look(log).is_due


def test_an_empty_log_is_not_due(rig: Rig) -> None:
    assert not look(rig.log()).is_due


def test_min_compaction_lag_ms_keeps_young_segments_from_compaction(rig: Rig) -> None:
    log = segments(rig, 3, timestamps=[NOW - 2 * HOUR, NOW - HOUR, NOW - 10, NOW])
    log.config = replace(COMPACT, min_compaction_lag_ms=HOUR - 1)
    assert look(log).first_uncleanable == 2
    assert look(log, NOW + HOUR).first_uncleanable == 3


def test_max_compaction_lag_ms_makes_a_log_due_whatever_its_ratio(rig: Rig) -> None:
    log = segments(rig, 4, timestamps=[NOW - 2 * HOUR, NOW - HOUR, NOW, NOW, NOW])
    log.config = replace(COMPACT, max_compaction_lag_ms=HOUR, min_cleanable_dirty_ratio=1.0)
    assert look(log).is_due
    log.cleaned_to = 1
    assert not look(log).is_due
    assert look(log, NOW + 1).is_due


def test_a_segment_without_a_time_makes_no_log_due(rig: Rig) -> None:
    log = segments(rig, 2, timestamps=[0, 0, NOW])
    log.config = replace(COMPACT, max_compaction_lag_ms=HOUR, min_cleanable_dirty_ratio=1.0)
    assert not look(log).is_due


def test_a_compacted_log_rolls_in_time_for_max_compaction_lag(rig: Rig) -> None:
    log = rig.log()
    log.config = replace(COMPACT, max_compaction_lag_ms=HOUR)
    put(log, (b"a", b"1"), timestamp=NOW - 2 * HOUR)
    put(log, (b"a", b"2"), timestamp=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_nothing_is_cleaned_before_all_of_the_log_is_on_disk(rig: Rig) -> None:
    """The value that took the place of another may hang on a marker at the very end."""
    log = rig.log()
    put(log, (b"a", b"1"))
    rig.workers.run_all()
    put(log, (b"a", b"2"), producer_id=4, transactional=True)
    log.roll()
    end_txn(log, 4, commit=True)
    fs = rig.files
    flushed_before: list[int] = []
    fs.hook = lambda _, path: flushed_before.append(log.flushed.offset) if path.endswith(".cleaned") else None
    assert clean(rig)
    assert flushed_before
    assert set(flushed_before) == {3}


@pytest.mark.parametrize("cleaned_to", [1, 99], ids=["before the log's start", "past its end"])
def test_an_offset_that_cannot_be_starts_cleaning_anew(rig: Rig, cleaned_to: int) -> None:
    log = segments(rig, 4)
    log.increment_log_start_offset(2)
    log.cleaned_to = cleaned_to
    assert look(log).first_dirty == 2


@pytest.mark.parametrize(("delete", "cleaned_to", "warned"), [(False, 1, True), (True, 1, False), (True, 99, True)])
def test_starting_anew_is_warned_of_unless_retention_explains_it(
    rig: Rig, delete: bool, cleaned_to: int, warned: bool
) -> None:
    log = segments(rig, 4)
    log.config = LogConfig(compact=True, delete=delete)
    log.increment_log_start_offset(2)
    log.cleaned_to = cleaned_to
    structlog.reset_defaults()  # storage tests are quiet otherwise
    with capture_logs() as lines:
        look(log)
    assert [line["event"] for line in lines] == ["cleaning starts over"] * warned


def test_the_dirtiest_log_is_first(rig: Rig) -> None:
    one, other = segments(rig, 4, "one"), segments(rig, 4, "other")
    one.cleaned_to = 1
    assert clean(rig)
    assert [len(records(log)) for log in (one, other)] == [5, 2]
    assert clean(rig)
    assert [len(records(log)) for log in (one, other)] == [2, 2]
    assert not clean(rig)


def test_how_far_each_log_was_cleaned_survives_a_kill(rig: Rig) -> None:
    segments(rig, 4, "one")
    segments(rig, 4, "other")
    cleans = cleaner(rig)
    assert run(rig, cleans.run_once())
    assert run(rig, cleans.run_once())
    rig.kill()
    assert [rig.manager.logs[TopicPartition(topic, 0)].cleaned_to for topic in ("one", "other")] == [4, 4]
    assert not run(rig, cleaner(rig).run_once())


def test_logs_that_do_not_compact_and_offline_ones_are_passed_over(rig: Rig) -> None:
    log = segments(rig, 4)
    log.config = LogConfig()
    assert not clean(rig)
    log.config = COMPACT
    log.fail(OSError("gone"))
    assert not clean(rig)


def test_a_failing_log_does_not_hold_up_the_others(rig: Rig) -> None:
    segments(rig, 8, "bad")
    good = segments(rig, 4, "good")
    fs = rig.files

    def full_disk(operation: str, path: str) -> None:
        if operation == "pwrite" and "/bad-0/" in path and path.endswith(".cleaned"):
            raise OSError(28, "No space left on device", path)

    fs.hook = full_disk
    cleans = cleaner(rig)
    for _ in range(2):
        run(rig, cleans.run_once())
    assert len(records(good)) == 2
    assert not run(rig, cleans.run_once())
    fs.hook = None
    rig.clock.advance(15_000)
    assert run(rig, cleans.run_once())
    assert len(records(rig.log("bad"))) == 2


class _SlowlyLooking(ManualClock):
    """Time passes with every look at it."""

    def monotonic_ms(self) -> float:
        self._now_ms += 0.5
        return super().monotonic_ms()


@pytest.mark.parametrize("due", [True, False])
def test_the_loop_has_a_turn_every_few_milliseconds_while_logs_are_looked_at(rig: Rig, due: bool) -> None:
    clock = _SlowlyLooking(NOW)
    object.__setattr__(rig.services, "clock", clock)
    for number in range(40):
        segments(rig, 1, topic=f"t{number}").config = replace(COMPACT, min_cleanable_dirty_ratio=0.5 if due else 1.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        task = asyncio.ensure_future(cleaner(rig).run_once())
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
            rig.workers.run_all()
            clock.advance(1)
        assert await task is due

    asyncio.run(count())
    assert turns > 20


def test_a_log_that_was_deleted_while_others_were_looked_at_is_not_cleaned(rig: Rig) -> None:
    clock = _SlowlyLooking(NOW)
    object.__setattr__(rig.services, "clock", clock)
    names = [f"t{number}" for number in range(10)]
    for name in names:
        segments(rig, 1, topic=name)
    choosing = cleaner(rig)

    async def go() -> bool:
        task = asyncio.ensure_future(choosing.run_once())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rig.manager.delete_log_soon(names[0], 0)
        while not task.done():
            await asyncio.sleep(0)
            clock.advance(5)
            rig.workers.run_all()
        return await task

    assert asyncio.run(go())
    assert rig.log(names[1]).cleaned_to is not None

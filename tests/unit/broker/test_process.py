"""What a broker sets up in its own process."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import weakref
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from broker import process
from tests.doubles.clock import ManualClock


@pytest.fixture
def descriptors() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_soft_limit_of_open_files_becomes_the_hard_one(descriptors: int) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert process.allow_many_descriptors() == (soft, descriptors)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (descriptors, descriptors)


@pytest.mark.parametrize(("limit", "kept"), [(200, 25), (1024, 32), (1 << 20, 32), (resource.RLIM_INFINITY, 0)])
def test_the_last_descriptors_are_kept(limit: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    last = limit if kept else 1 << 30
    assert [process.is_kept(number) for number in (3, last - kept - 1)] == [False, False]
    assert process.is_kept(last - 1) == bool(kept)
    opened: list[int] = []
    monkeypatch.setattr(os, "open", lambda *_: last - 1)
    monkeypatch.setattr(os, "close", opened.append)
    with pytest.raises(OSError, match="Too many open files") if kept else nullcontext():
        process.require_spare_descriptor()
    assert opened == [last - 1]


def test_freed_buffers_are_not_given_back_to_the_kernel() -> None:
    process.reuse_freed_memory()
    size = process.KEPT_FREE_BYTES // 10

    def answer_a_fetch_of_six_partitions() -> None:
        _buffers = [bytearray(size) for _ in range(6)]

    answer_a_fetch_of_six_partitions()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        answer_a_fetch_of_six_partitions()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 6 * size // resource.getpagesize()


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector is as before the test when it is over."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_what_survives_a_full_collection_is_left_out_of_the_next() -> None:
    process.Survivors().exempt()
    exempt = gc.get_freeze_count()
    assert exempt > 0
    _made: list[list[int]] = [[] for _ in range(1000)]
    gc.collect(1)
    assert gc.get_freeze_count() <= exempt
    gc.collect()
    assert gc.get_freeze_count() >= exempt + 1000


@pytest.mark.long
@pytest.mark.usefixtures("collector")
def test_everything_is_walked_again_when_much_has_become_exempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "EXEMPTED_AT_MOST", 500)
    process.Survivors().exempt()
    circle: list[object] = []
    circle.append(circle)
    ended = weakref.ref(kept := type("Kept", (), {"circle": circle})())
    circle.append(kept)
    gc.collect()  # it is exempt now
    del circle, kept
    gc.collect()
    assert ended() is not None
    _made: list[list[int]] = [[] for _ in range(1000)]
    gc.collect()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert ended() is None
    assert gc.get_freeze_count() > 1000


@pytest.mark.long
@pytest.mark.usefixtures("collector")
def test_what_was_exempt_and_freed_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "EXEMPTED_AT_MOST", 2000)
    process.Survivors().exempt()
    for _ in range(5):
        made: list[list[int]] = [[] for _ in range(1000)]
        gc.collect()
        assert gc.get_freeze_count() > 1000
        del made


@pytest.mark.parametrize("ends_after_ms, expected", [(2999, True), (3001, False)])
async def test_work_that_a_stop_finds_under_way_may_end_in_a_while(ends_after_ms: int, expected: bool) -> None:
    stop, clock = asyncio.Event(), ManualClock()

    async def work() -> None:
        stop.set()
        await clock.sleep(ends_after_ms)

    done = asyncio.ensure_future(process.unless_stopped(work(), stop, clock, 3000))
    await clock.run(2998)
    assert not done.done()
    await clock.run(10)
    assert await done is expected


async def test_what_fails_under_way_is_told() -> None:
    async def work() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await process.unless_stopped(work(), asyncio.Event(), ManualClock(), 0)

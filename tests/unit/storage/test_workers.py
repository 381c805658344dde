"""The real worker threads."""

from __future__ import annotations

import asyncio
import threading

import pytest

from storage.workers import ThreadWorkers


async def test_work_that_hangs_holds_up_its_own_lane_alone() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop(), threads=1)
    release = threading.Event()
    hanging = asyncio.ensure_future(workers.lane("slow").call(lambda: release.wait(60)))
    behind = asyncio.ensure_future(workers.lane("slow").call(lambda: "behind"))
    assert await workers.call(lambda: "here") == "here"
    assert await workers.lane("other").call(lambda: "there") == "there"
    assert not behind.done()
    assert workers.is_busy
    release.set()
    assert await hanging
    assert await behind == "behind"
    assert workers.lane("slow") is workers.lane("slow")
    workers.close()


async def test_they_are_busy_until_the_last_work_is_done_or_has_failed() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop())
    ended: asyncio.Future[Exception | str] = asyncio.get_running_loop().create_future()
    assert not workers.is_busy

    def fail() -> str:
        raise OSError("no")

    workers.lane("a").submit(fail, ended.set_result, ended.set_result)
    assert isinstance(await ended, OSError)
    with pytest.raises(OSError, match="no"):
        await workers.call(fail)
    workers.close()  # waits for the threads: their last step comes after the result
    assert not workers.is_busy


async def test_lanes_on_the_loop_have_no_threads_and_run_in_a_turn_of_their_own() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop(), on_the_loop=("flush ",))
    outcomes: list[object] = []
    for lane in (workers.lane("flush /a"), workers.lane("metadata").lane("flush /b")):
        lane.submit(threading.get_ident, outcomes.append, outcomes.append)
        assert outcomes == []
        await _turns()
        assert outcomes == [threading.get_ident()]
        outcomes.clear()
        assert await lane.call(threading.get_ident) == threading.get_ident()
    error = OSError("broken")

    def fail() -> None:
        raise error

    workers.lane("flush /a").submit(fail, outcomes.append, outcomes.append)
    await _turns()
    assert outcomes == [error]
    assert await workers.lane("flushes").call(threading.get_ident) != threading.get_ident()
    workers.close()


async def _turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_lane_to_remote_storage_has_a_thread_for_all_that_is_asked_at_once() -> None:
    workers = ThreadWorkers(asyncio.get_running_loop(), threads=1)
    together = threading.Barrier(20)
    reads = [workers.lane("remote reads").call(lambda: together.wait(60)) for _ in range(20)]
    assert sorted(await asyncio.gather(*reads)) == list(range(20))
    workers.close()

"""The rule that work in a thread is given copies of what the loop changes (storage/workers.py)."""

from __future__ import annotations

from functools import partial

import pytest

from tests.doubles.workers import LaneWorkers, LoopWorkers, QueuedWorkers

DOUBLES = [LoopWorkers, QueuedWorkers, LaneWorkers]


def _count(logs: dict[str, int]) -> int:
    return len(logs)


class Owner:
    def __init__(self) -> None:
        self.logs = {"a": 1}


@pytest.mark.parametrize("double", DOUBLES)
async def test_worker_thread_that_is_given_a_dictionary_of_the_loop_is_refused(double: type[LoopWorkers]) -> None:
    owner = Owner()

    with pytest.raises(AssertionError, match="is given what the loop may change"):
        await double().call(partial(_count, owner.logs))
    with pytest.raises(AssertionError, match="is given what the loop may change"):
        double().submit(partial(_count, logs=owner.logs), lambda _: None, lambda _: None)


@pytest.mark.parametrize("double", DOUBLES)
async def test_worker_thread_that_closes_over_a_dictionary_of_the_loop_is_refused(double: type[LoopWorkers]) -> None:
    owner = Owner()
    logs = owner.logs
    with pytest.raises(AssertionError, match="is given what the loop may change"):
        double().submit(lambda: len(logs), lambda _: None, lambda _: None)


async def test_worker_thread_that_is_given_a_copy_does_its_work() -> None:
    owner, local = Owner(), [1, 2]
    workers = LoopWorkers()
    assert await workers.call(partial(_count, owner.logs.copy())) == 1
    assert await workers.call(lambda: len(local)) == 2

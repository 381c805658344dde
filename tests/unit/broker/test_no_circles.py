"""What ends in a node is freed by reference counts: no circle is left for the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.broker.rig import Rig
from tests.unit.budgets.meters import Meter
from tests.unit.budgets.scenes import SCENES, Scene

WARM_ROUNDS, ROUNDS = 10, 5
LONGER_THAN_ANY_DELAY_MS = 130_000
"""A deleted topic's files are removed after `file.delete.delay.ms`, a minute."""


@contextmanager
def no_circles() -> Iterator[None]:
    """Fails if the garbage collector finds anything that was made meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(type(each).__qualname__ for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == {}


async def test_deleted_topics_are_freed_without_garbage_collection() -> None:
    async with Rig() as rig:

        async def come_and_go() -> None:
            await rig.create("letters", partitions=3)
            await rig.delete("letters")
            await rig.clock.run(LONGER_THAN_ANY_DELAY_MS)

        await come_and_go()
        with no_circles():
            await come_and_go()


@pytest.mark.parametrize("scene", SCENES)
async def test_requests_and_members_are_freed_without_garbage_collection(scene: Scene) -> None:
    async with scene() as (rig, once):
        for _ in range(WARM_ROUNDS):
            await once()
        rig.meter = Meter()
        with no_circles():
            for _ in range(ROUNDS):
                await once()

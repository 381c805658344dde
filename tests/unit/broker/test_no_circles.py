"""What ends in a node is freed by reference counts; `tests/unit/budgets` has the same of requests and members."""

from __future__ import annotations

import pytest

from tests.unit.broker.rig import Rig
from tests.unit.budgets.measure import circles

LONGER_THAN_ANY_DELAY_MS = 130_000
"""A deleted topic's files are removed after `file.delete.delay.ms`, a minute."""


@pytest.mark.long
async def test_deleted_topics_are_freed_without_garbage_collection() -> None:
    async with Rig() as rig:

        async def come_and_go() -> None:
            await rig.create("letters", partitions=3)
            await rig.delete("letters")
            await rig.clock.run(LONGER_THAN_ANY_DELAY_MS)

        await come_and_go()
        with circles() as found:
            await come_and_go()
    assert found == {}

"""The power fails before some of the disk operations of a whole node that flushes before it acknowledges.

Its clients produce, write transactions and commit offsets all the while; what they were told holds on the next node.
"""

from __future__ import annotations

import random

import pytest

from tests.doubles.clock import ManualClock
from tests.doubles.files import Unsynced
from tests.unit.broker.crash_run import CONFIG, Point, Run, committed_offset
from tests.unit.broker.rig import Rig
from tests.unit.storage.cleaner.cleaning import records
from tests.unit.storage.crashing import committed_view

SAMPLE = 60


async def check(run: Run, point: Point, unsynced: Unsynced) -> None:
    point.fs.crash(unsynced, seed=len(point.promised.values))
    rig = Rig(fs=point.fs, clock=ManualClock(1_700_000_100_000), config=CONFIG, seed=7)
    point.fs.now_ms = rig.clock.wall_ms
    await rig.start()
    client = rig.connect()
    await client.ask("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
    await rig.clock.run(5000)
    partition = rig.node.replicas.get("t", 0)
    found = [one.value for one in records(partition.log) if (one.value or b"").startswith(b"plain")]
    assert found[: len(point.promised.values)] == point.promised.values
    assert len(found) <= len(point.promised.values) + 1
    committed = [
        one.value or b""
        for one in committed_view(partition.log, partition.last_stable_offset)
        if (one.value or b"").startswith(b"txn")
    ]
    assert len(set(committed)) == len(committed)
    for value, commit in point.promised.fates.items():
        assert (value in committed) == commit
    assert all(run.wanted[value] for value in committed)
    offset = await committed_offset(client)
    assert offset in (point.promised.offset, point.promised.offset + 1)
    await rig.stop()


@pytest.mark.long
@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_what_clients_were_told_holds_whenever_the_power_fails(unsynced: Unsynced) -> None:
    first = Run(set())
    await first.go()
    assert first.operations > 150
    chance = random.Random(unsynced.value)
    run = Run(set(chance.sample(range(1, first.operations + 1), SAMPLE // len(Unsynced))))
    await run.go()
    assert run.points
    for point in run.points:
        try:
            await check(run, point, unsynced)
        except AssertionError as error:
            raise AssertionError(f"before {point.operation}, promised {point.promised}: {error}") from error

"""Tiered storage (KIP-405) of one node: copies, local retention, reads from remote storage, total retention."""

from __future__ import annotations

import pytest

from tests.doubles.files import Unsynced
from tests.unit.broker.rig import Rig
from tests.unit.broker.tiering.tiered_rig import (
    EARLIEST_LOCAL,
    LATEST_TIERED,
    FetchFailedError,
    append,
    create_tiered,
    offset_of,
    read_all,
    stored,
    tiered_rig,
)

VALUES = [b"%03d" % number * 10 for number in range(40)]
ALL = list(enumerate(VALUES))


async def test_a_consumer_reads_from_the_beginning_after_local_retention() -> None:
    async with tiered_rig() as rig:
        await create_tiered(rig)
        client = rig.connect()
        await append(client, "t", *VALUES)
        await rig.clock.run(10_000)
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        assert partition.log.log_start_offset == 0
        assert partition.log.local_log_start_offset > 30
        assert stored(rig)
        assert await read_all(rig, client, "t") == ALL
        assert (await offset_of(client, "t", EARLIEST_LOCAL))[2] == partition.log.local_log_start_offset
        assert (await offset_of(client, "t", LATEST_TIERED))[2] == partition.log.tier.highest_offset


async def test_what_is_in_remote_storage_is_known_after_a_crash() -> None:
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig, flush_messages="1")
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    following = await rig.crash(Unsynced.LOST)
    try:
        assert await read_all(following, following.connect(), "t") == ALL
    finally:
        await following.stop()


async def test_a_node_without_tiered_storage_says_which_topics_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig)
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    await rig.stop()
    following = Rig(fs=rig.fs, clock=rig.clock, config={"log.initial.task.delay.ms": "500"})
    async with following:
        assert "tiered storage is switched off, but topics need it" in capsys.readouterr().out
        with pytest.raises(FetchFailedError, match="unknown_server_error"):
            await read_all(following, following.connect(), "t")

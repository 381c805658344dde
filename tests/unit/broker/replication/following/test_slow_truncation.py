"""A follower truncates its log on a device that hangs: the loop goes on, and what comes meanwhile keeps its order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from protocol.errors import NotLeaderOrFollower
from protocol.produce_fetch.fetch_response import EpochEndOffset
from tests.doubles.clock import settle
from tests.unit.broker.replication.following.test_fetcher import Following, state, three_of_epoch_0
from tests.unit.slow_disk import SlowDisk, SlowWorkers
from tests.unit.storage.support import append

CHECKPOINT, LOG = "checkpoint", ".log"


class SlowFollowing(Following):
    """Its log has three records, of which the leader has one."""

    def __init__(self) -> None:
        super().__init__(three_of_epoch_0)
        self.disk = SlowDisk(self.rig.files, self.rig.clock)
        self.log.services = replace(self.log.services, workers=SlowWorkers(self.disk))

    async def hang(self, path_part: str) -> None:
        """Let the truncation hang while it syncs such a file."""
        self.disk.slow("fdatasync", path_part)
        await self.answer(diverging_epoch=EpochEndOffset(0, 1))
        (hanging,) = self.disk.hanging
        assert path_part in hanging

    async def go_on(self) -> None:
        self.disk.release()
        await self.rig.clock.run(0)
        await settle()


@pytest.fixture
async def following() -> AsyncIterator[SlowFollowing]:
    made = SlowFollowing()
    yield made
    assert made.disk.stalls == []
    await made.fetcher.stop()


@pytest.mark.parametrize("path_part", [CHECKPOINT, LOG])
async def test_nothing_is_fetched_or_appended_until_what_was_cut_off_cannot_come_back(
    following: SlowFollowing, path_part: str
) -> None:
    await settle()
    asked = len(following.leader.asked)
    await following.hang(path_part)
    with pytest.raises(NotLeaderOrFollower):
        following.log.check_appendable()
    assert len(following.leader.asked) == asked
    await following.go_on()
    following.log.check_appendable()
    assert (await following.asked()).fetch_offset == 1
    assert following.rig.files.size(following.log.segments.active.file.path) == following.log.size


async def test_who_leads_before_the_log_is_cut_keeps_all_of_it(following: SlowFollowing) -> None:
    await following.hang(CHECKPOINT)
    following.partition.lead(state(6))
    await following.go_on()
    assert following.log.log_end_offset == 3
    assert append(following.log, epoch=6).first_offset == 3


async def test_who_leads_after_the_log_is_cut_appends_at_its_new_end_once_that_is_safe(
    following: SlowFollowing,
) -> None:
    await following.hang(LOG)
    following.partition.lead(state(6))
    assert following.log.log_end_offset == 1
    with pytest.raises(NotLeaderOrFollower):
        append(following.log, epoch=6)
    await following.go_on()
    assert append(following.log, epoch=6).first_offset == 1
    assert following.epochs == [(0, 0), (6, 1)]


async def test_a_compaction_that_begins_meanwhile_puts_it_off(following: SlowFollowing) -> None:
    await following.hang(CHECKPOINT)
    following.guard.cleans = True
    await following.go_on()
    assert following.log.log_end_offset == 3


@pytest.mark.parametrize("path_part", [CHECKPOINT, LOG])
async def test_a_stop_waits_until_it_is_over(following: SlowFollowing, path_part: str) -> None:
    await following.hang(path_part)
    stopping = asyncio.ensure_future(following.fetcher.stop())
    await settle()
    assert not stopping.done()
    await following.go_on()
    await stopping
    assert following.log.log_end_offset == 1
    following.log.check_appendable()


@pytest.mark.parametrize("path_part", [CHECKPOINT, LOG])
async def test_a_log_that_is_deleted_meanwhile_is_no_failure(following: SlowFollowing, path_part: str) -> None:
    failures: list[Any] = []
    following.log.on_offline = lambda *failure: failures.append(failure)
    await following.hang(path_part)
    following.partition.deleted()
    following.log.retire()
    await following.go_on()
    assert failures == []

"""Rounds of copies and removals: who waits for whom, and what happens between two steps of one."""

from __future__ import annotations

import asyncio
from uuid import UUID

from broker.tiering.works import Works
from protocol.remote_storage.segment import RemoteSegment, State
from storage.tier.counts import Count
from tests.doubles.clock import settle
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Rig
from tests.unit.broker.tiering.tiered_rig import (
    TOPIC_CONFIG,
    append,
    create_tiered,
    read_all,
    stored,
    stray_objects,
    tier_of,
    tiered_rig,
)
from tests.unit.broker.wire import NOW

VALUES = [b"%03d" % number * 10 for number in range(40)]


async def test_a_partition_that_takes_long_has_one_turn_and_the_others_theirs() -> None:
    ends = {name: asyncio.Event() for name in "abcd"}
    begun: list[str] = []

    async def work(name: str) -> None:
        begun.append(name)
        await ends[name].wait()

    works = Works(work, lambda: 2, asyncio.ensure_future)
    works.add("abcd")
    await settle()
    assert begun == ["a", "b"]
    works.add("abcd")
    for name in "bcd":
        ends[name].set()
    await settle()
    assert begun == ["a", "b", "c", "d"]
    works.add("dab")
    await settle()
    assert begun == ["a", "b", "c", "d", "d", "b"]
    ends["a"].set()
    await settle()
    works.add("a")
    await settle()
    assert begun[6:] == ["a"]


async def test_work_that_fails_gives_way_to_what_waits() -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        if name == "bad":
            raise ValueError(name)
        done.append(name)

    tasks: list[asyncio.Future[None]] = []
    works = Works(work, lambda: 1, lambda coroutine: tasks.append(asyncio.ensure_future(coroutine)))
    works.add(["bad", "good"])
    await asyncio.wait(tasks)
    await settle()
    assert isinstance(tasks[0].exception(), ValueError)
    assert done == ["good"]


async def run(rig: Rig, store_calls: HeldLane, seconds: int) -> None:
    """Let time pass, in which the store does what it is asked for."""
    for _ in range(10 * seconds):
        await rig.clock.run(100)
        store_calls.run_all()


async def test_retention_does_not_wait_for_the_copies_of_another_partition() -> None:
    rig = tiered_rig()
    rig.workers = store_calls = HeldLane("remote copies")
    async with rig:
        for topic in ("kept", "busy"):
            await create_tiered(rig, topic)
        await append(rig.connect(), "kept", *VALUES)
        await run(rig, store_calls, 5)
        await append(rig.connect(), "busy", *VALUES)
        await rig.clock.run(2000)
        assert store_calls.is_held  # the first copy
        await rig.configure("kept", **{**TOPIC_CONFIG, "retention.bytes": "1000"})
        await rig.clock.run(5000)
        assert rig.node.replicas.find("kept", 0).log_start_offset > 20


async def test_a_copy_that_was_finished_and_then_removed_does_not_count_as_copied() -> None:
    """The record of its end was read too late, so it was taken for a leftover: the local segments stay for another."""
    async with tiered_rig(remote_log_manager_task_interval_ms="60000") as rig:
        await create_tiered(rig)
        client = rig.connect()
        await append(client, "t", *VALUES)
        tier = tier_of(rig)
        one = tier.partitions["t", 0]
        late = RemoteSegment(one.id, UUID(int=1), 0, 8, 1, NOW, NOW, one.log.leader_epochs.entries, 300)
        for state in State:
            await tier.metadata.put(late.with_state(state, broker_id=1, now_ms=NOW))
        await rig.clock.run(200_000)
        assert one.log.local_log_start_offset > 30
        assert [value for _, value in await read_all(rig, client, "t")] == VALUES


async def test_tiering_that_is_switched_on_again_while_it_is_still_being_removed_begins_anew() -> None:
    rig = tiered_rig()
    rig.workers = store_calls = HeldLane("remote copies")
    async with rig:
        await create_tiered(rig)
        await append(rig.connect(), "t", *VALUES)
        await run(rig, store_calls, 5)
        off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true", "local.retention.bytes": "-2"}
        await rig.configure("t", **{**TOPIC_CONFIG, **off})
        await rig.clock.run(100)
        assert store_calls.is_held  # the first removal is under way
        await rig.configure("t", **TOPIC_CONFIG)
        await run(rig, store_calls, 5)
        assert stored(rig) == []
        await append(rig.connect(), "t", *VALUES)
        await run(rig, store_calls, 10)
        start, counts = rig.node.replicas.find("t", 0).log.log_start_offset, tier_of(rig).reader.counts
        copies = counts.total(Count.COPY_REQUESTS)
        assert await read_all(rig, rig.connect(), "t", start) == list(enumerate(VALUES * 2))[start:]
        await run(rig, store_calls, 5)
        assert counts.total(Count.COPY_REQUESTS) == copies
        assert stray_objects(rig) == []

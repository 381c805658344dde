"""Share groups through a whole node in virtual time: what happens while something else is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.coordinators.share_coordinator import ShareStates
from broker.replication.reads import RecordsRead
from broker.share import dead_letters
from coordinator.group.share.group import ShareGroup
from protocol.coordinator_records.share_records import SharePartitionKey
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, REJECT, Shared, acquired

pytestmark = pytest.mark.asyncio


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started(partitions=2)


class Gate:
    """Holds up calls of a method until it is opened."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.opened = asyncio.Event()
        self._method = getattr(owner, name)
        patch.setattr(owner, name, self._held())

    def _held(self) -> Any:
        async def later(*args: Any) -> Any:
            await self.opened.wait()
            return await self._method(*args)

        def held(*args: Any) -> Any:
            return asyncio.ensure_future(later(*args)) if self.concerns(*args) else self._method(*args)

        return held

    def concerns(self, *args: Any) -> bool:
        return not self.opened.is_set()


class GateOfPartition1(Gate):
    """Holds up the reading of the state of partition 1."""

    def concerns(self, *args: Any) -> bool:
        (key,) = [each for each in args if isinstance(each, SharePartitionKey)]
        return key.partition == 1


async def test_while_one_partition_is_loaded_others_are_read(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    await shared.produce(b"a")
    first, second = await shared.member("m", partitions=2), await shared.member("n")
    gate = GateOfPartition1(monkeypatch, ShareStates, "read")
    first.send_fetch()
    await settle()
    assert acquired(await second.fetch()) == [(0, 0, 1)]
    gate.opened.set()
    await settle()
    assert acquired(first.fetched()) == []


async def test_who_hangs_up_while_the_log_is_read_holds_nothing(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await shared.member("m"), await shared.member("n")
    assert acquired(await second.fetch()) == []
    await shared.produce(b"a")
    gate = Gate(monkeypatch, RecordsRead, "go_on")
    first.send_fetch()
    await settle()
    first.hang_up()
    await settle()
    gate.opened.set()
    await settle()
    assert acquired(await second.fetch()) == [(0, 0, 1)]


async def test_who_finds_a_partition_being_read_reads_it_next(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that reads waits on for more bytes; the other one, which came meanwhile, wants no more than there are."""
    first, second = await shared.member("m"), await shared.member("n")
    await shared.produce(b"a")
    gate = Gate(monkeypatch, RecordsRead, "go_on")
    first.send_fetch(wait_ms=5000, min_bytes=1 << 20)
    await settle()
    monkeypatch.setattr(gate, "concerns", lambda *_: False)
    second.send_fetch(wait_ms=5000)
    await settle()
    assert second.is_waiting
    gate.opened.set()
    await settle()
    assert acquired(second.fetched()) == [(0, 0, 1)]
    assert first.is_waiting


async def test_a_share_partition_that_was_read_by_another_fetch_while_the_others_were_read_is_looked_at_again(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other fetch has ended before this one waits, so nobody wakes it."""
    first, second = await shared.member("m"), await shared.member("n", partitions=2)
    await shared.produce(b"a")
    await shared.produce(b"b")
    ends = [asyncio.Event(), asyncio.Event()]
    coming, go_on = iter(ends), RecordsRead.go_on

    async def held(read: RecordsRead, plan: Any) -> None:
        if (end := next(coming, None)) is not None:
            await end.wait()
        await go_on(read, plan)

    monkeypatch.setattr(RecordsRead, "go_on", held)
    first.send_fetch(records=1)
    await settle()
    second.send_fetch(wait_ms=5000)
    await settle()
    ends[0].set()
    await settle()
    assert acquired(first.fetched()) == [(0, 0, 1)]
    ends[1].set()
    await settle()
    assert acquired(second.fetched()) == [(1, 1, 1)]


async def test_who_hangs_up_while_a_partition_is_loaded_leaves_nothing_loaded(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    gate = Gate(monkeypatch, ShareStates, "read")
    member.send_fetch()
    await settle()
    member.hang_up()
    await settle()
    gate.opened.set()
    await settle()
    assert shared.rig.node.local.share.of_group(GROUP) == []


@pytest.mark.parametrize("failure", [OSError(5, "Input/output error"), ValueError("not gzip")])
async def test_records_whose_content_cannot_be_read_are_given_up_all_the_same(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    await shared.rig.create("dlq.t")
    await shared.configure(
        **{
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": "dlq.t",
            "errors.deadletterqueue.copy.record.enable": "true",
        }
    )
    await shared.allow_dead_letters("dlq.t")

    def unreadable(*_: object) -> object:
        raise failure

    monkeypatch.setattr(dead_letters, "iter_records", unreadable)
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 0, REJECT) is ErrorCode.none
    await settle()
    ((_, partition),) = shared.rig.node.local.share.of_group(GROUP)
    assert partition.start_offset == 1


async def test_groups_without_configs_of_their_own_have_their_settings_in_common(shared: Shared) -> None:
    settings = shared.rig.node.local.share.settings
    assert settings.of("one") is settings.of("another")
    assert settings.of(GROUP).offset_reset == "earliest"
    assert settings.of("one").offset_reset == "latest"


async def test_a_topic_that_is_made_anew_is_no_longer_the_one_before(shared: Shared) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 0, ACCEPT) is ErrorCode.none
    before = shared.topic_id
    await shared.rig.delete("t")
    await shared.rig.create("t")
    again = await shared.member("n")
    await again.join()
    groups = shared.rig.node.coordinators.groups
    found = await groups.read(GROUP, lambda state: dict(state.groups.modern.get(ShareGroup, GROUP).states()))
    assert [*found] == [shared.topic_id]
    assert shared.topic_id != before

"""Share groups through a whole node in virtual time: sessions, fetches that wait, acknowledgements, kill -9."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from kio.schema.errors import ErrorCode

from broker.coordinators.share_coordinator import ShareStates
from coordinator.group.share.group import ShareGroup
from coordinator.runtime.outcome import Outcome
from coordinator.share.share_coordinator_shard import ShareCoordinatorShard
from protocol.errors import CoordinatorNotAvailable
from protocol.records.batch import read_header
from protocol.records.build import Record, iter_records
from tests.doubles.clock import settle
from tests.doubles.files import Unsynced
from tests.unit.broker.rig import Rig
from tests.unit.broker.share.members import ACCEPT, CONFIG, GROUP, REJECT, RELEASE, RENEW, Shared, acquired

pytestmark = pytest.mark.asyncio


async def letters(rig: Rig) -> list[Record]:
    """What is in the first batch of the queue."""
    log = rig.node.replicas.find("dlq.t", 0).log
    data = bytes(await log.plan_read(0, 1 << 20, log.end, True).read())
    return list(iter_records(data, read_header(data)))


@pytest.fixture
async def shared() -> AsyncIterator[Shared]:
    async with Rig(config=CONFIG) as rig:
        yield await Shared(rig).started()


async def test_a_member_gets_records_and_accepts_them(shared: Shared) -> None:
    await shared.produce(b"a", b"b", b"c")
    member = await shared.member()
    got = await member.fetch()
    assert acquired(got) == [(0, 2, 1)]
    assert len(got.records) > 0
    assert await member.acknowledge(0, 2, ACCEPT) is ErrorCode.none
    assert await member.acknowledge(0, 2, ACCEPT) is ErrorCode.none, "below the start offset: once more is fine"
    assert await member.fetch() is None


async def test_two_members_share_and_nobody_gets_what_another_has(shared: Shared) -> None:
    for value in (b"a", b"b"):
        await shared.produce(value)
    first, second = await shared.member("m"), await shared.member("n")
    assert acquired(await first.fetch(records=1)) == [(0, 0, 1)]
    assert acquired(await second.fetch()) == [(1, 1, 1)]
    assert await second.acknowledge(0, 0, ACCEPT) is ErrorCode.invalid_record_state
    assert await first.acknowledge(0, 0, RELEASE) is ErrorCode.none
    assert acquired(await second.fetch((1, 1, ACCEPT))) == [(0, 0, 2)]


async def test_a_fetch_waits_for_records(shared: Shared) -> None:
    member = await shared.member()
    member.send_fetch(wait_ms=500)
    await shared.rig.clock.run(100)
    assert member.is_waiting
    await shared.produce(b"a")
    await shared.rig.clock.run(0)
    assert acquired(member.fetched()) == [(0, 0, 1)]


async def test_a_fetch_waits_no_longer_than_it_says(shared: Shared) -> None:
    member = await shared.member()
    member.send_fetch(wait_ms=500)
    await shared.rig.clock.run(499)
    assert member.is_waiting
    await shared.rig.clock.run(1)
    assert acquired(member.fetched()) == []


async def test_a_fetch_waits_for_min_bytes_and_takes_what_there_is_when_its_time_is_over(shared: Shared) -> None:
    member = await shared.member()
    await shared.produce(b"a")
    size = shared.rig.node.replicas.find("t", 0).log.size
    member.send_fetch(wait_ms=500, min_bytes=2 * size)
    await settle()
    assert member.is_waiting
    await shared.produce(b"b")
    await settle()
    assert acquired(member.fetched()) == [(0, 1, 1)]
    await shared.produce(b"c")
    member.send_fetch(wait_ms=500, min_bytes=2 * size)
    await shared.rig.clock.run(499)
    assert member.is_waiting
    await shared.rig.clock.run(1)
    assert acquired(member.fetched()) == [(2, 2, 1)]


async def test_a_fetch_with_min_bytes_0_is_answered_at_once(shared: Shared) -> None:
    member = await shared.member()
    await member.fetch()
    member.send_fetch(wait_ms=5000, min_bytes=0)
    await settle()
    assert member.fetched() is None


async def test_who_waits_for_min_bytes_leaves_the_records_to_who_wants_fewer(shared: Shared) -> None:
    first, second = await shared.member("m"), await shared.member("n")
    first.send_fetch(wait_ms=5000, min_bytes=1 << 20)
    await settle()
    second.send_fetch(wait_ms=5000)
    await settle()
    await shared.produce(b"a")
    await settle()
    assert acquired(second.fetched()) == [(0, 0, 1)]
    assert first.is_waiting


async def test_min_bytes_are_counted_in_the_next_segment_too(shared: Shared) -> None:
    """A read ends with its segment: what comes after it counts all the same."""
    member = await shared.member()
    await shared.produce(b"a")
    shared.rig.node.replicas.find("t", 0).log.roll()
    await shared.produce(b"b")
    member.send_fetch(wait_ms=5000, min_bytes=1000)
    await settle()
    assert acquired(member.fetched()) == [(0, 0, 1)]


async def test_what_another_member_releases_ends_the_wait(shared: Shared) -> None:
    await shared.produce(b"a")
    first, second = await shared.member("m"), await shared.member("n")
    await first.fetch()
    second.send_fetch(wait_ms=500)
    await shared.rig.clock.run(10)
    assert second.is_waiting
    await first.acknowledge(0, 0, RELEASE)
    await shared.rig.clock.run(0)
    assert acquired(second.fetched()) == [(0, 0, 2)]


async def test_the_end_of_the_connection_and_of_the_session_release(shared: Shared) -> None:
    await shared.produce(b"a")
    first, second = await shared.member("m"), await shared.member("n")
    await first.fetch()
    await second.fetch()
    first.hang_up()
    await settle()
    assert acquired(await second.fetch()) == [(0, 0, 2)]
    assert await second.acknowledge(0, 0, RELEASE, final=True) is ErrorCode.none
    third = await shared.member("o")
    assert acquired(await third.fetch()) == [(0, 0, 3)]


async def test_an_acquisition_lock_ends_after_its_duration_unless_it_is_renewed(
    shared: Shared,
) -> None:
    await shared.produce(b"a")
    first, second = await shared.member("m"), await shared.member("n")
    await first.fetch()
    await shared.rig.clock.run(20_000)
    assert await first.acknowledge(0, 0, RENEW) is ErrorCode.none
    await shared.rig.clock.run(20_000)
    assert acquired(await second.fetch()) == []
    await shared.rig.clock.run(10_000)
    assert acquired(await second.fetch()) == [(0, 0, 2)]
    assert await first.acknowledge(0, 0, ACCEPT) is ErrorCode.invalid_record_state


async def test_epochs_of_a_share_session(shared: Shared) -> None:
    member = await shared.member()
    assert (await member.fetch(epoch=5)).error_code is ErrorCode.share_session_not_found
    await member.fetch(epoch=0)
    assert (await member.fetch(epoch=9)).error_code is ErrorCode.invalid_share_session_epoch


async def test_a_crash_of_the_machine_forgets_nothing_acknowledged(shared: Shared) -> None:
    await shared.produce(b"a", b"b", b"c")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 1, ACCEPT, RELEASE) is ErrorCode.none
    after = Shared(await shared.rig.crash(Unsynced.KEPT))
    for coordinator in (after.rig.node.coordinators.groups, after.rig.node.coordinators.share):
        await coordinator.runtime.loaded()
    other = await after.member("n")
    assert acquired(await other.fetch()) == [(1, 1, 2), (2, 2, 1)]
    await after.rig.stop()


async def test_rejected_records_go_to_the_dead_letter_queue(shared: Shared) -> None:
    await shared.rig.create("dlq.t")
    await shared.configure(
        **{
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": "dlq.t",
            "errors.deadletterqueue.copy.record.enable": "true",
        }
    )
    await shared.allow_dead_letters("dlq.t")
    await shared.produce(b"a", b"b")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 1, REJECT, ACCEPT) is ErrorCode.none
    await settle()
    (letter,) = await letters(shared.rig)
    assert letter.value == b"a"
    assert dict(letter.headers)[b"__dlq.errors.offset"] == b"0"
    assert dict(letter.headers)[b"__dlq.errors.message"] == b"Offset rejected by client."


@pytest.mark.long
async def test_a_dead_letter_queue_is_created_where_the_broker_is_told_to() -> None:
    async with Rig(config={**CONFIG, "errors.deadletterqueue.auto.create.topics.enable": "true"}) as rig:
        shared = await Shared(rig).started({"errors.deadletterqueue.topic.name": "dlq.t"})
        await shared.produce(b"a", b"b")
        member = await shared.member()
        await member.fetch()
        assert await member.acknowledge(0, 1, ACCEPT, REJECT) is ErrorCode.none
        await settle()
        (letter,) = await letters(rig)
        assert (letter.value, dict(letter.headers)[b"__dlq.errors.offset"]) == (None, b"1")


async def test_records_are_given_up_without_a_dead_letter_where_the_queue_is_missing(shared: Shared) -> None:
    await shared.configure(**{"errors.deadletterqueue.topic.name": "dlq.t"})
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 0, REJECT) is ErrorCode.none
    await settle()
    assert shared.rig.node.cluster.cache.topic("dlq.t") is None
    assert await member.acknowledge(0, 0, ACCEPT) is ErrorCode.none, "below the start offset"


async def test_who_has_waited_longest_gets_what_is_released(shared: Shared) -> None:
    await shared.produce(b"a")
    holder = await shared.member("holder")
    assert acquired(await holder.fetch()) == [(0, 0, 1)]
    first, second = await shared.member("m"), await shared.member("n")
    for member in (first, second):
        member.send_fetch(wait_ms=5000)
        await settle()
    assert await holder.acknowledge(0, 0, RELEASE) is ErrorCode.none
    await settle()
    assert acquired(first.fetched()) == [(0, 0, 2)]
    assert second.is_waiting
    assert await first.acknowledge(0, 0, RELEASE) is ErrorCode.none
    await settle()
    assert acquired(second.fetched()) == [(0, 0, 3)]


async def test_all_who_wait_get_their_share_of_what_comes_at_once(shared: Shared) -> None:
    members = [await shared.member(f"m{number}") for number in range(5)]
    for member in members:
        member.send_fetch(wait_ms=5000, records=1)
        await settle()
    for value in (b"a", b"b", b"c", b"d", b"e"):
        await shared.produce(value)
    await settle()
    got = [acquired(member.fetched()) for member in members]
    assert sorted(got) == [[(offset, offset, 1)] for offset in range(5)]


async def test_a_fetch_whose_wait_ends_leaves_the_log_to_the_next(shared: Shared) -> None:
    first, second = await shared.member("m"), await shared.member("n")
    first.send_fetch(wait_ms=500)
    second.send_fetch(wait_ms=5000)
    await settle()
    await shared.rig.clock.run(600)
    assert first.fetched() is not None
    assert second.is_waiting
    await shared.produce(b"a")
    await settle()
    assert acquired(second.fetched()) == [(0, 0, 1)]


async def test_a_member_that_hangs_up_while_it_waits_is_passed_over(shared: Shared) -> None:
    await shared.produce(b"a")
    holder = await shared.member("holder")
    assert acquired(await holder.fetch()) == [(0, 0, 1)]
    first, second = await shared.member("m"), await shared.member("n")
    for member in (first, second):
        member.send_fetch(wait_ms=5000)
        await settle()
    first.hang_up()
    assert await holder.acknowledge(0, 0, RELEASE) is ErrorCode.none
    await settle()
    assert acquired(second.fetched()) == [(0, 0, 2)]


async def test_of_a_long_log_as_much_is_read_as_is_acquired(shared: Shared) -> None:
    size = 100_000
    for number in range(30):
        await shared.produce(b"%02d" % number + bytes(size))
    member = await shared.member()
    for number in range(2):
        got = await member.fetch(records=1)
        assert acquired(got) == [(number, number, 1)]
        (record,) = iter_records(got.records, read_header(got.records))
        assert record.value == b"%02d" % number + bytes(size)
    rest = await member.fetch()
    assert acquired(rest) == [(2, 29, 1)]
    assert len(rest.records) > 28 * size


async def test_group_share_assignment_interval_ms_changes_at_run_time(shared: Shared) -> None:
    await shared.member("m")
    await shared.configure_cluster(**{"group.share.assignment.interval.ms": "15000"})
    await shared.member("n")
    groups = shared.rig.node.coordinators.groups
    group = await groups.read(GROUP, lambda state: state.groups.modern.get(ShareGroup, GROUP))
    assert group.epoch > group.assignment_epoch


async def test_a_share_group_is_deleted_once_the_share_coordinator_has_forgotten_it(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    await member.fetch()
    assert await member.acknowledge(0, 0, ACCEPT, final=True) is ErrorCode.none
    await member.leave()
    with monkeypatch.context() as patch:
        patch.setattr(ShareCoordinatorShard, "delete", refuse)
        assert await shared.delete_group() is ErrorCode.coordinator_not_available
    assert await shared.delete_group() is ErrorCode.none
    assert await shared.delete_group() is ErrorCode.group_id_not_found
    again = await shared.member("n")
    assert acquired(await again.fetch()) == [(0, 0, 1)], "a group that begins anew"


async def test_a_share_group_that_could_not_be_deleted_begins_anew_with_its_next_member(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shared.produce(b"a")
    member = await shared.member()
    await member.leave()
    with monkeypatch.context() as patch:
        patch.setattr(ShareCoordinatorShard, "delete", refuse)
        assert await shared.delete_group() is ErrorCode.coordinator_not_available
    again = await shared.member("n")
    assert acquired(await again.fetch()) == [(0, 0, 1)]


async def test_a_share_group_is_deleted_whose_states_were_never_made(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareStates, "initialize", lambda *_, **__: None)
    member = await shared.member()
    await member.leave()
    assert await shared.delete_group() is ErrorCode.none


def refuse(*_: object) -> Outcome[None]:
    raise CoordinatorNotAvailable

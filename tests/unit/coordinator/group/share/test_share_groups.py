"""Share groups: joining, initialization, assignment, epochs, sessions, and other kinds of groups with the same name."""

from __future__ import annotations

import time

import pytest

from coordinator.group.share.partition_states import topics_deleted
from protocol.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    KafkaError,
    KafkaStorage,
    UnknownMemberId,
)
from tests.unit.coordinator.asking import ask
from tests.unit.coordinator.group.rig import ShareStates
from tests.unit.coordinator.group.share.rig import GROUP, ShareRig

pytestmark = pytest.mark.asyncio


async def test_partitions_are_assigned_once_the_share_coordinator_has_a_state_of_them() -> None:
    rig = await ShareRig.having({"a": 2})
    rig.share_state.hold = True
    first = rig.beat("m", 0, ["a"])
    assert (first.member_epoch, first.assigned) == (2, {})
    assert rig.beat("m", 2).member_epoch == 2
    assert len(rig.share_state.initialized) == 2
    rig.share_state.release()
    second = rig.beat("m", 2)
    assert (second.member_epoch, second.assigned) == (3, rig.of(a=(0, 1)))
    third = rig.beat("m", 3)
    assert (third.member_epoch, third.assigned) == (3, None)


async def test_a_topic_that_has_a_state_is_assigned_at_once_also_after_the_group_was_empty() -> None:
    rig = await ShareRig.having({"a": 2})
    rig.joined("m", "a")
    rig.beat("m", -1)
    assert rig.sharers.state_name == "Empty"
    assert rig.sharers.epoch == rig.sharers.assignment_epoch
    assert rig.beat("n", 0, ["a"]).assigned == rig.of(a=(0, 1))
    assert len(rig.share_state.initialized) == 2


async def test_an_initialization_that_fails_or_is_lost_is_asked_for_again() -> None:
    rig = await ShareRig.having({"a": 1}, session_timeout_ms=100_000)
    rig.share_state.error = CoordinatorNotAvailable()
    rig.beat("m", 0, ["a"])
    rig.share_state.error, rig.share_state.hold = None, True
    rig.beat("m", 2)
    assert len(rig.share_state.initialized) == 2
    rig.beat("m", 2)
    assert len(rig.share_state.initialized) == 2
    rig.clock.advance(30_000)
    rig.share_state.hold = False
    rig.beat("m", 2)
    assert len(rig.share_state.initialized) == 3
    assert rig.beat("m", 2).assigned == rig.of(a=(0,))


async def test_partitions_that_are_added_are_initialized_and_assigned() -> None:
    rig = await ShareRig.having({"a": 1})
    answer = rig.joined("m", "a")
    assert not rig.share_state.grown
    rig.topics.grow("a", 3)
    rig.shard.groups.modern.topic_changed("a")
    answer = rig.beat("m", answer.member_epoch)
    answer = rig.beat("m", answer.member_epoch)
    assert rig.sharers.members["m"].assigned == rig.of(a=(0, 1, 2))
    assert rig.share_state.grown == set(rig.of(a=(1, 2)))


async def test_targets_are_made_at_most_once_in_an_interval() -> None:
    rig = await ShareRig.having({"a": 1}, assignment_interval_ms=1000)
    rig.beat("m", 0, ["a"])
    assert rig.beat("m", 2).member_epoch == 2
    joined = rig.beat("n", 0, ["a"])
    assert (joined.member_epoch, joined.assigned) == (2, {})
    rig.clock.advance(1000)
    assert rig.beat("n", 2).assigned == rig.of(a=(0,))


async def test_a_member_whose_session_ends_is_removed_and_its_partitions_go_to_others() -> None:
    rig = await ShareRig.having({"a": 2}, session_timeout_ms=1000)
    rig.joined("m", "a")
    answer = rig.beat("n", 0, ["a"])
    rig.clock.advance(600)
    answer = rig.beat("n", answer.member_epoch)
    rig.clock.advance(600)
    assert set(rig.sharers.members) == {"n"}
    rig.beat("n", answer.member_epoch)
    assert rig.sharers.members["n"].assigned == rig.of(a=(0, 1))


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [("m", 1, FencedMemberEpoch), ("m", 9, FencedMemberEpoch), ("x", 3, UnknownMemberId), ("", 3, InvalidRequest),
     ("x" * 37, 3, InvalidRequest), ("m", -2, InvalidRequest)],
)  # fmt: skip
async def test_a_wrong_member_or_epoch_is_refused(member: str, epoch: int, error: type[KafkaError]) -> None:
    rig = await ShareRig.having({"a": 1})
    assert rig.joined("m", "a").member_epoch == 3
    with pytest.raises(error):
        rig.beat(member, epoch)
    assert rig.beat("m", 2).member_epoch == 3, "the previous epoch is good: the answer may have been lost"


async def test_joining_again_is_a_full_heartbeat() -> None:
    rig = await ShareRig.having({"a": 1})
    rig.joined("m", "a")
    again = rig.beat("m", 0, ["a"])
    assert (again.member_epoch, again.assigned) == (3, rig.of(a=(0,)))


async def test_a_group_has_a_largest_size() -> None:
    rig = await ShareRig.having({"a": 1}, max_size=1)
    rig.beat("m", 0, ["a"])
    with pytest.raises(GroupMaxSizeReached):
        rig.beat("n", 0, ["a"])


async def test_there_is_no_group_for_a_member_that_did_not_join() -> None:
    rig = await ShareRig.having({"a": 1})
    with pytest.raises(GroupIdNotFound):
        rig.beat("m", 1)


async def test_everything_is_there_after_a_restart() -> None:
    rig = await ShareRig.having({"a": 2})
    rig.joined("m", "a")
    rig.joined("n", "a")
    soft: dict[str, object] = {"is_fresh": False, "initializing_until_ms": 0.0, "_existing": {}}
    before = vars(rig.sharers) | soft
    await rig.restart()
    assert vars(rig.sharers) | soft == before
    rig.clock.advance(45_000)
    assert rig.sharers.is_empty


async def test_a_deleted_group_leaves_nothing() -> None:
    rig = await ShareRig.having({"a": 2})
    rig.joined("m", "a")
    rig.beat("m", -1)
    assert [record.key[0] for record in rig.shard.groups.deletion(GROUP)] == [GROUP] * 3


async def test_what_was_asked_before_a_reload_leaves_what_is_known_since_then() -> None:
    rig = await ShareRig.having({"a": 1, "b": 1})
    rig.share_state.hold = True
    rig.beat("m", 0, ["a"])
    rig.log.fail(KafkaStorage())
    await rig.runtime.loaded()
    asked_before, rig.share_state = rig.share_state, ShareStates()
    rig.shard.groups.modern.share_state = rig.share_state
    epoch = rig.beat("m", 2, ["a", "b"]).member_epoch
    assert rig.beat("m", epoch).assigned == rig.of(a=(0,), b=(0,))
    asked_before.release()
    assert rig.sharers.state.initialized.keys() == rig.of(a=(0,), b=(0,)).keys()
    await rig.restart()
    assert rig.sharers.state.initialized.keys() == rig.of(a=(0,), b=(0,)).keys()


async def test_topics_that_are_deleted_have_no_state_any_more() -> None:
    rig = await ShareRig.having({"a": 1, "b": 1})
    rig.joined("m", "a", "b")
    kept = rig.of(b=(0,))
    deleted = [*rig.of(a=(0,))]
    ask(rig.runtime, lambda state: topics_deleted(state.groups.modern, deleted)).result()
    assert rig.sharers.state.initialized.keys() == kept.keys()
    await rig.restart()
    assert rig.sharers.state.initialized.keys() == kept.keys()


async def test_a_topic_that_is_deleted_while_it_is_initialized_has_no_state() -> None:
    rig = await ShareRig.having({"a": 1})
    rig.share_state.hold = True
    rig.beat("m", 0, ["a"])
    deleted = [*rig.of(a=(0,))]
    ask(rig.runtime, lambda state: topics_deleted(state.groups.modern, deleted)).result()
    rig.share_state.release()
    assert [*rig.sharers.states()] == []


async def test_a_heartbeat_of_a_member_to_whom_nothing_happened_does_not_look_at_the_topics_of_all() -> None:
    rig = await ShareRig.having({"a": 4})
    for number in range(20):
        epoch = rig.joined(f"m{number}", "a", *(f"{number}-{index}" for index in range(5_000))).member_epoch
    used = time.process_time()
    for _ in range(20):
        epoch = rig.beat("m19", epoch).member_epoch
    assert time.process_time() - used < 0.3  # 0.01 s; when the names of all were joined each time, it was 0.8 s

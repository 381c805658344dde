"""Members of the classic protocol in a consumer group: it looks to them like one that rebalances cooperatively."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from coordinator.group.classic.members import MemberIdentity
from coordinator.group.modern.group import MemberState
from tests.unit.coordinator.group.consumer.clients import ClassicConsumer, ConsumerClient, some
from tests.unit.coordinator.group.consumer.rig import ConsumerRig, log_tells
from tests.unit.coordinator.group.steps import answer_of, refused

NONE, REJOIN = ErrorCode.none, ErrorCode.rebalance_in_progress
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


async def mixed(rig: ConsumerRig, **classic: Any) -> tuple[ConsumerClient, ClassicConsumer]:
    """A member of each protocol; each has half of the partitions."""
    modern, old = ConsumerClient(rig, "m1", "a"), ClassicConsumer(rig, "c1", "a", **classic)
    modern.beat()
    assert old.rejoins() == {}
    modern.beat()
    modern.beat()
    assert answer_of(old.heartbeat()) is REJOIN
    assert rig.of(**{name: [*indexes] for name, indexes in old.rejoins().items()}) == rig.member(old).assigned
    assert rig.consumers.state_name == "Stable"
    return modern, old


async def test_joins_syncs_and_beats_until_all_is_settled() -> None:
    rig = await ConsumerRig.having({"a": 4})
    modern = ConsumerClient(rig, "m1", "a")
    modern.beat()
    old = ClassicConsumer(rig, "c1", "a")
    first = answer_of(old.join())
    assert (first.error, rig.consumers.members.keys()) == (ErrorCode.member_id_required, {"m1"})
    joined = answer_of(old.join())
    assert (joined.member_id, joined.generation, joined.protocol_type) == (first.member_id, 3, "consumer")
    assert (joined.protocol_name, joined.leader, joined.members) == ("range", "", ())
    assert rig.timers == ["session of m1", f"session of {old.member_id}", f"sync of {old.member_id}"]
    answer = answer_of(old.sync(protocol_type="consumer", protocol_name="range"))
    assert (answer.error, answer.protocol_type, answer.protocol_name) == (NONE, "consumer", "range")
    assert answer.assignment.hex() == "0001" + "00000000" + "ffffffff"
    assert answer_of(old.heartbeat()) is NONE, "what it waits for is not free"
    modern.beat()
    modern.beat()
    assert answer_of(old.heartbeat()) is REJOIN
    assert answer_of(old.heartbeat()) is REJOIN
    assert f"join of {old.member_id}" in rig.timers
    assert old.rejoins() == some(2, 3)
    assert rig.timers == ["session of m1", f"session of {old.member_id}"]
    assert answer_of(old.heartbeat()) is NONE
    assert await log_tells(rig)


async def test_gives_partitions_up_by_joining_again_without_them() -> None:
    rig = await ConsumerRig.having({"a": 6})
    modern, old = await mixed(rig)
    third = ConsumerClient(rig, "m3", "a")
    third.beat()
    modern.beat()
    assert answer_of(old.heartbeat()) is REJOIN
    assert refused(old.sync()) is REJOIN
    old.joined()
    assert (old.generation, rig.member(old).state) == (3, UNREVOKED)
    kept = old.owned["a"]
    old.synced()
    assert len(kept - old.owned["a"]) == 1
    assert answer_of(old.heartbeat()) is REJOIN
    modern.beat()
    old.rejoins()
    assert (old.generation, rig.member(old).state) == (4, STABLE)
    third.beat()
    assert sum(map(len, third.owned.values())) == 2
    assert await log_tells(rig)


async def test_an_eager_one_has_given_everything_up_when_it_joins() -> None:
    rig = await ConsumerRig.having({"a": 4})
    modern, old = await mixed(rig, cooperative=False, subscription_version=0)
    modern.topics = ()
    modern.beat()
    modern.beat()
    assert answer_of(old.heartbeat()) is REJOIN
    assert old.rejoins() == some(0, 1, 2, 3)
    modern.topics = ("a",)
    modern.beat()
    assert answer_of(old.heartbeat()) is REJOIN
    assert len(old.rejoins()["a"]) == 2
    assert rig.member(old).state is STABLE
    assert rig.consumers.waits_for_partitions(rig.member(modern)) is False


async def test_is_removed_when_it_does_not_join_sync_or_beat_in_time() -> None:
    rig = await ConsumerRig.having({"a": 4}, session_timeout_ms=1_000_000)
    _, old = await mixed(rig, session_ms=30_000, rebalance_ms=20_000)
    other = ConsumerClient(rig, "m2", "a")
    other.beat()
    for _ in range(4):
        assert answer_of(old.heartbeat()) is REJOIN
        await rig.pass_ms(4_999)
    answer_of(old.heartbeat())
    assert old.member_id in rig.consumers.members
    await rig.pass_ms(10)
    assert refused(old.heartbeat()) is ErrorCode.unknown_member_id, "did not join"
    late = ClassicConsumer(rig, "c2", "a", session_ms=30_000, rebalance_ms=20_000)
    late.joined()
    for _ in range(4):
        await rig.pass_ms(4_999)
        answer_of(late.heartbeat())
    await rig.pass_ms(10)
    assert refused(late.sync()) is ErrorCode.unknown_member_id, "did not sync"
    silent = ClassicConsumer(rig, "c3", "a", session_ms=10_000)
    silent.rejoins()
    await rig.pass_ms(9_999)
    assert silent.member_id in rig.consumers.members
    await rig.pass_ms(2)
    assert refused(silent.heartbeat()) is ErrorCode.unknown_member_id, "did not beat"
    assert rig.counts.expired_members == 3
    assert rig.consumers.members.keys() == {"m1", "m2"}
    assert rig.timers == ["session of m1", "session of m2"]
    assert await log_tells(rig)


async def test_is_refused_what_is_not_its_own() -> None:
    rig = await ConsumerRig.having({"a": 4}, max_size=3)
    modern, old = await mixed(rig)
    stranger = ClassicConsumer(rig, "c2", "a", protocols=("other",))
    assert refused(stranger.join()) is ErrorCode.inconsistent_group_protocol
    assert refused(old.heartbeat(7)) is ErrorCode.illegal_generation
    assert refused(old.sync(generation=7)) is ErrorCode.illegal_generation
    assert refused(old.sync(protocol_name="other")) is ErrorCode.inconsistent_group_protocol
    assert refused(old.sync(protocol_type="other")) is ErrorCode.inconsistent_group_protocol
    stranger.member_id = modern.member_id
    assert refused(stranger.heartbeat(2)) is ErrorCode.unknown_member_id
    third = ClassicConsumer(rig, "c3", "a", instance="i3")
    third.rejoins()
    assert refused(ClassicConsumer(rig, "c4", "a").join()) is ErrorCode.group_max_size_reached
    again = ClassicConsumer(rig, "c3", "a", instance="i3")
    again.rejoins()
    assert answer_of(rig.leave(MemberIdentity("nobody"), MemberIdentity("x", "i3"), MemberIdentity("x", "i9"))) == (
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
        ErrorCode.unknown_member_id,
    )
    assert len(rig.consumers.members) == 3


async def test_an_unreadable_subscription_is_refused() -> None:
    rig = await ConsumerRig.having({"a": 4})
    await mixed(rig)
    broken = ClassicConsumer(rig, "c9", version=3)
    broken.subscription_version = 0x8000
    before = rig.consumers.epoch
    assert refused(broken.join()) is ErrorCode.inconsistent_group_protocol
    assert rig.consumers.epoch == before


async def test_a_static_one_comes_back_under_a_new_id_without_a_rebalance() -> None:
    rig = await ConsumerRig.having({"a": 4})
    _, old = await mixed(rig, instance="i1")
    again = ClassicConsumer(rig, "c1", "a", instance="i1")
    assert again.rejoins() == some(2, 3)
    assert (again.generation, rig.epochs) == (3, (3, 3))
    assert refused(old.heartbeat()) is ErrorCode.fenced_instance_id
    assert answer_of(again.heartbeat()) is NONE
    assert rig.consumers.state_name == "Stable"
    assert await log_tells(rig)
    await rig.pass_ms(9_000)
    assert answer_of(again.heartbeat()) is NONE
    await rig.pass_ms(5_000)
    assert again.member_id in rig.consumers.members


async def test_members_leave_together_and_an_administrator_names_an_instance() -> None:
    rig = await ConsumerRig.having({"a": 4})
    _, old = await mixed(rig)
    static = ClassicConsumer(rig, "c2", "a", instance="i2")
    static.rejoins()
    epoch = rig.consumers.epoch
    codes = answer_of(rig.leave(MemberIdentity(old.member_id), MemberIdentity("", "i2"), MemberIdentity("nobody")))
    assert codes == (NONE, NONE, ErrorCode.unknown_member_id)
    assert (rig.consumers.members.keys(), rig.consumers.epoch) == ({"m1"}, epoch + 1)
    assert rig.timers == ["session of m1"]
    assert await log_tells(rig)
    assert answer_of(rig.leave(MemberIdentity("m1"))) == (NONE,)
    assert rig.consumers.is_empty
    assert answer_of(rig.leave()) == ()
    assert rig.consumers.epoch == epoch + 2


async def test_members_that_leave_together_are_removed_from_the_log_as_they_were_named() -> None:
    rig = await ConsumerRig.having({"a": 4})
    names = ["m3", "m1", "m6", "m2", "m5", "m4"]
    for name in names:
        ConsumerClient(rig, name, "a").beat()
    assert answer_of(rig.leave(*map(MemberIdentity, names))) == (NONE,) * len(names)
    assert rig.members_removed() == names


async def test_one_changes_over_while_it_should_give_partitions_up_and_is_not_removed_for_that() -> None:
    rig = await ConsumerRig.having({"a": 4})
    slow, other = ConsumerClient(rig, "m1", "a", rebalance_ms=20_000), ConsumerClient(rig, "m2", "a")
    slow.beat()
    other.beat()
    slow.beat(gives_up=False)
    assert "rebalance of m1" in rig.timers
    changed = ClassicConsumer(rig, "c1", "a", session_ms=60_000)
    changed.member_id, changed.owned = "m1", some(0, 1)
    assert answer_of(changed.join()).generation == 3
    assert changed.synced().error is NONE
    await rig.pass_ms(20_001)
    assert rig.consumers.members.keys() == {"m1", "m2"}


async def test_one_changes_over_to_the_consumer_protocol_and_back() -> None:
    rig = await ConsumerRig.having({"a": 4})
    _, old = await mixed(rig)
    changed = ConsumerClient(rig, old.member_id, "a")
    changed.epoch, changed.owned = old.generation, rig.of(a=(2, 3))
    assert changed.beat().member_epoch == 3
    assert not rig.member(changed).is_classic
    assert refused(old.heartbeat()) is ErrorCode.unknown_member_id
    assert old.rejoins() == some(2, 3)
    assert rig.member(old).is_classic
    assert await log_tells(rig)

"""What the assignors of KIP-848 hand out: in a few groups one can follow, and whatever the group."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.group.consumer.assignors import ASSIGNORS, Assign, GroupSpec, MemberSpec, PartitionAssignorError
from protocol.coordinator_records.record_schema import Partitions

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)
NAMES = ["", "a", "b", "q", "\U0001f600", "\ue000", "consumer-1"]
SUBSCRIPTIONS = st.sampled_from([(A,), (B,), (A, B), (B, C), (C, B, A)])
uniform, range_ = ASSIGNORS["uniform"], ASSIGNORS["range"]
quick = settings(max_examples=25)


def member(*topics: UUID, assigned: Partitions | None = None, instance: str | None = None) -> MemberSpec:
    return MemberSpec(instance, topics, assigned or {})


def group(counts: Mapping[UUID, int], members: Mapping[str, MemberSpec]) -> GroupSpec:
    owners: dict[UUID, dict[int, str]] = {}
    for member_id, one in members.items():
        for topic, partitions in one.assigned.items():
            owners.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    homogeneous = len({frozenset(member.topics) for member in members.values()}) == 1
    return GroupSpec(dict(sorted(members.items())), homogeneous, owners, counts)


def having(spec: GroupSpec, answer: Mapping[str, Partitions], leaver: str | None = None) -> GroupSpec:
    """The same group with this target assignment; a member that leaves takes its part of it along."""
    left = {name: member._replace(assigned=answer[name]) for name, member in spec.members.items() if name != leaver}
    return group(spec.partition_counts, left)


def size(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def some(*partitions: int) -> frozenset[int]:
    return frozenset(partitions)


def test_uniform_is_the_default() -> None:
    assert [*ASSIGNORS] == ["uniform", "range"]


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_nobody_gets_nothing(assign: Assign) -> None:
    assert assign(GroupSpec({}, True, {}, {A: 3})) == {}


def test_uniform_fills_one_member_after_the_other_and_the_last_takes_what_is_left_over() -> None:
    answer = uniform(group({A: 3, B: 2}, {"a": member(A, B), "b": member(A, B)}))
    assert answer == {"a": {A: some(0, 1)}, "b": {A: some(2), B: some(0, 1)}}


def test_uniform_gives_a_newcomer_what_others_have_too_much_of() -> None:
    members = {"a": member(A, assigned={A: some(0, 1, 2)}), "b": member(A, assigned={A: some(3, 4, 5)}), "c": member(A)}
    assert uniform(group({A: 6}, members)) == {"a": {A: some(0, 1)}, "b": {A: some(3, 4)}, "c": {A: some(2, 5)}}


def test_uniform_takes_away_what_a_member_has_unsubscribed_from() -> None:
    members = {"a": member(B, assigned={A: some(0, 1)}), "b": member(B, assigned={B: some(0, 1)})}
    assert uniform(group({B: 2}, members)) == {"a": {B: some(1)}, "b": {B: some(0)}}


def test_uniform_gives_to_a_member_whose_share_named_a_topic_without_partitions() -> None:
    """As the shares of classic members may, whose group went over."""
    members = {"a": member(A, assigned={A: some()}), "b": member(A, assigned={B: some()})}
    assert uniform(group({A: 5}, members)) == {"a": {A: some(0, 1)}, "b": {A: some(2, 3, 4)}}
    members = {"a": member(A, assigned={A: some()}), "b": member(B, assigned={A: some()})}
    assert uniform(group({A: 2, B: 1}, members)) == {"a": {A: some(0, 1)}, "b": {B: some(0)}}


def test_uniform_gives_nothing_to_those_who_want_nothing() -> None:
    members = {"a": member(assigned={A: some(0)}), "b": member()}
    assert uniform(group({}, members)) == {"a": {}, "b": {}}


def test_uniform_counts_what_members_have_of_other_topics() -> None:
    answer = uniform(group({A: 4, B: 4}, {"a": member(A, B), "b": member(B)}))
    assert answer == {"a": {A: some(0, 1, 2, 3)}, "b": {B: some(0, 1, 2, 3)}}


def test_uniform_moves_partitions_between_members_with_different_subscriptions() -> None:
    members = {"a": member(A, B, assigned={A: some(0, 1), B: some(0, 1, 2, 3)}), "b": member(B)}
    assert uniform(group({A: 2, B: 4}, members)) == {"a": {A: some(0, 1), B: some(0)}, "b": {B: some(1, 2, 3)}}


def test_range_gives_a_member_the_same_partitions_of_like_topics() -> None:
    members = {"b": member(A, B), "a": member(A, B)}
    assert range_(group({A: 3, B: 3}, members)) == {
        "a": {A: some(0, 1), B: some(0, 1)},
        "b": {A: some(2), B: some(2)},
    }


def test_range_puts_static_members_first_and_in_the_order_of_their_instance_ids() -> None:
    members = {"a": member(A), "b": member(A, instance="2"), "c": member(A, instance="1")}
    assert range_(group({A: 2}, members)) == {"a": {}, "b": {A: some(1)}, "c": {A: some(0)}}


def test_range_divides_a_topic_among_its_subscribers_only() -> None:
    members = {"a": member(A, B), "b": member(B), "c": member(A)}
    assert range_(group({A: 3, B: 2}, members)) == {
        "a": {A: some(0, 1), B: some(0)},
        "b": {B: some(1)},
        "c": {A: some(2)},
    }


@pytest.mark.parametrize("members", [{"a": member(A)}, {"a": member(A), "b": member(A, B)}], ids=["alike", "different"])
def test_a_topic_without_metadata_cannot_be_assigned(members: dict[str, MemberSpec]) -> None:
    text = "Members are subscribed to topic AAAAAAAAAAAAAAAAAAAAAQ which doesn't exist in the topic metadata."
    for assign in (uniform, range_):
        with pytest.raises(PartitionAssignorError, match=text):
            assign(group({B: 1}, members))


def test_partitions_that_two_members_have_leave_no_room_for_others() -> None:
    members = {name: member(A, assigned={A: some(0, 1)}) for name in "ab"}
    with pytest.raises(PartitionAssignorError, match="Partitions were left unassigned"):
        uniform(group({A: 3}, members))


@st.composite
def groups(draw: st.DrawFn, *, alike: bool | None = None) -> GroupSpec:
    """Groups of up to seven members and three topics; a byte of each partition says who has it, if anybody does."""
    counts = {topic: draw(st.integers(0, 7)) for topic in (A, B, C)}
    common = draw(SUBSCRIPTIONS) if (draw(st.booleans()) if alike is None else alike) else None
    members = {
        name: member(*(common or draw(SUBSCRIPTIONS)), instance=draw(st.sampled_from([None, f"i{name}"])))
        for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    }
    owners, bytes_ = [*members, None], draw(st.binary(min_size=7 * 3, max_size=7 * 3))
    assigned: dict[str, dict[UUID, frozenset[int]]] = {name: {} for name in members}
    for number, (topic, count) in enumerate(counts.items()):
        for partition in range(count):
            owner = owners[bytes_[number * 7 + partition] % len(owners)]
            if owner is not None:
                assigned[owner][topic] = assigned[owner].get(topic, some()) | {partition}
    return group(counts, {name: member._replace(assigned=assigned[name]) for name, member in members.items()})


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(spec=groups())
@quick
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(assign: Assign, spec: GroupSpec) -> None:
    answer = assign(spec)
    owned = [(topic, one) for partitions in answer.values() for topic, indexes in partitions.items() for one in indexes]
    wanted = {topic for member in spec.members.values() for topic in member.topics}
    assert sorted(owned) == [(topic, one) for topic in sorted(wanted) for one in range(spec.partition_counts[topic])]
    assert all({*answer[name]} <= {*member.topics} for name, member in spec.members.items())
    assert all(indexes for partitions in answer.values() for indexes in partitions.values())


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(spec=groups())
@quick
def test_a_group_that_is_assigned_stays_as_it_is(assign: Assign, spec: GroupSpec) -> None:
    answer = assign(spec)
    assert assign(having(spec, answer)) == answer


@given(groups(alike=True))
@quick
def test_uniform_shares_among_like_members_differ_by_one_and_nothing_moves_without_need(spec: GroupSpec) -> None:
    answer = uniform(spec)
    sizes = sorted(size(partitions) for partitions in answer.values())
    assert sizes[-1] - sizes[0] <= 1
    for name, one in spec.members.items():
        for topic, before in one.assigned.items():
            if topic in one.topics and size(one.assigned) <= sizes[0]:
                assert before <= answer[name].get(topic, some())


@given(groups(alike=True))
@quick
def test_uniform_lets_members_keep_their_partitions_when_one_leaves(spec: GroupSpec) -> None:
    before = uniform(spec)
    after = uniform(having(spec, before, leaver=next(iter(spec.members))))
    assert all(partitions <= after[name][topic] for name in after for topic, partitions in before[name].items())


@given(groups())
@quick
def test_range_hands_out_rows_as_long_as_each_other_give_or_take_one_and_longer_ones_first(spec: GroupSpec) -> None:
    answer = range_(spec)
    for topic, count in spec.partition_counts.items():
        subscribers = [(member.instance_id, name) for name, member in spec.members.items() if topic in member.topics]
        static = sorted((pair for pair in subscribers if pair[0] is not None), key=lambda pair: pair[0] or "")
        dynamic = sorted((pair for pair in subscribers if pair[0] is None), key=lambda pair: pair[1])
        rows = [sorted(answer[name].get(topic, some())) for _, name in static + dynamic]
        lengths = [len(row) for row in rows]
        assert [one for row in rows for one in row] == [*range(count if rows else 0)]
        assert lengths == sorted(lengths, reverse=True)
        assert not lengths or lengths[0] - lengths[-1] <= 1

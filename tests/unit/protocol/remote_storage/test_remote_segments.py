"""What is known of remote segments: their states, overlaps of two leaders, what nothing refers to."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import hypothesis.strategies as st
import pytest
from hypothesis import given

from protocol.remote_storage.segment import RemoteSegment, State, metadata_record, segment_of
from protocol.remote_storage.segments import RemoteSegments
from protocol.topic_partition import EpochEntry
from tests.unit.protocol.remote_storage.stores import PARTITION

STARTED, FINISHED, DELETING, DELETED = State


def segment(number: int, start: int, end: int, *epochs: tuple[int, int]) -> RemoteSegment:
    entries = tuple(EpochEntry(*each) for each in epochs or ((0, start),))
    return RemoteSegment(PARTITION, UUID(int=number), start, end, 1, 5, 6, entries, 100)


def to(one: RemoteSegment, state: State) -> RemoteSegment:
    return one.with_state(state, broker_id=1, now_ms=7)


def copied(segments: RemoteSegments, *wanted: RemoteSegment) -> None:
    for one in wanted:
        assert segments.take(one)
        assert segments.take(to(one, FINISHED))


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        ([], STARTED, True),
        ([], FINISHED, False),
        ([], DELETING, False),
        ([STARTED], STARTED, True),
        ([STARTED], FINISHED, True),
        ([STARTED], DELETING, True),
        ([STARTED], DELETED, False),
        ([STARTED, FINISHED], STARTED, False),
        ([STARTED, FINISHED], FINISHED, True),
        ([STARTED, FINISHED], DELETING, True),
        ([STARTED, FINISHED], DELETED, False),
        ([STARTED, DELETING], FINISHED, False),
        ([STARTED, DELETING], DELETED, True),
        ([STARTED, DELETING, DELETED], STARTED, True),
    ],
)
def test_a_remote_segment_goes_through_kafkas_states(before: list[State], after: State, taken: bool) -> None:
    segments, one = RemoteSegments("t-0"), segment(1, 0, 9)
    for state in before:
        assert segments.take(to(one, state))
    assert segments.take(to(one, after)) is taken


def test_a_remote_segment_is_found_by_leader_epoch_and_offset() -> None:
    segments = RemoteSegments("t-0")
    first, second = segment(1, 0, 9), segment(2, 10, 29, (0, 10), (3, 20))
    copied(segments, first, second)
    segments.take(segment(3, 30, 39, (3, 30)))
    expected = {(0, 0): 1, (0, 9): 1, (0, 10): 2, (0, 19): 2, (3, 20): 2, (3, 29): 2}
    for (epoch, offset), number in expected.items():
        found = segments.find(epoch, offset)
        assert found is not None
        assert found.id == UUID(int=number)
    for epoch, offset in ((0, 20), (3, 19), (3, 30), (1, 5)):
        assert segments.find(epoch, offset) is None
    assert [segments.highest_offset(epoch, 0) for epoch in (0, 3, 1)] == [19, 29, -1]
    assert [one.id.int for one in segments.unwanted(0, 0)] == [3]


def test_who_has_copied_further_pushes_out_the_segments_of_an_earlier_leader() -> None:
    segments = RemoteSegments("t-0")
    copied(segments, segment(1, 0, 9), segment(2, 10, 19), segment(3, 10, 40))
    found = segments.find(0, 15)
    assert found is not None
    assert found.id == UUID(int=3)
    assert [one.id.int for one in segments.unwanted(0, 0)] == [2]


def test_a_segment_that_is_being_removed_is_not_there_and_counts_as_copied_below_the_logs_start_alone() -> None:
    segments, one = RemoteSegments("t-0"), segment(1, 0, 9)
    copied(segments, one)
    segments.take(to(one, DELETING))
    assert segments.find(0, 5) is None
    assert [each.id for each in segments.unwanted(0, 0)] == [one.id]
    segments.take(to(one, DELETED))
    assert list(segments) == []
    assert [segments.highest_offset(0, log_start) for log_start in (0, 5, 10, 99)] == [-1, 4, 9, 9]


def test_what_lies_below_the_logs_start_or_is_of_earlier_epochs_alone_is_unwanted() -> None:
    segments = RemoteSegments("t-0")
    copied(segments, segment(1, 0, 9), segment(2, 10, 29, (0, 10), (3, 20)), segment(3, 30, 39, (3, 30)))
    wanted = {(0, 0): [], (9, 0): [], (10, 0): [1], (35, 0): [1, 2], (0, 1): [1], (0, 3): [1], (0, 4): [1, 2, 3]}
    for (log_start, first_epoch), numbers in wanted.items():
        assert [one.id.int for one in segments.unwanted(log_start, first_epoch)] == numbers


def test_segments_with_aborted_transactions_are_found_without_a_look_at_the_others() -> None:
    segments = RemoteSegments("t-0")
    for number in range(6):
        copied(segments, replace(segment(number, number * 10, number * 10 + 9), txn_index_empty=number % 2 == 0))
    assert [one.id.int for one in segments.aborting(11)] == [3, 5]
    segments.take(to(segment(3, 30, 39), DELETING))
    assert [one.id.int for one in segments.aborting(10)] == [1, 5]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(State)), max_size=40))
def test_whatever_records_come_each_readable_segment_is_finished(steps: list[tuple[int, State]]) -> None:
    segments = RemoteSegments("t-0")
    for number, state in steps:
        segments.take(to(segment(number, number * 5, number * 5 + 9), state))
    readable = list(segments.readable([0]))
    assert all(one.state is FINISHED for one in readable)
    unreferenced = {one.id for one in segments.unwanted(0, 0)}
    assert {one.id for one in readable} | unreferenced == {one.id for one in segments}
    assert not {one.id for one in readable} & unreferenced


def test_the_record_of_a_remote_segment_says_all_of_it() -> None:
    one = segment(1, 0, 29, (0, 0), (3, 20))
    assert segment_of(metadata_record(one)) == one

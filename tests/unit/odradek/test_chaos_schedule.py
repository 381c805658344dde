"""Schedules of chaos: drawn by a seed, written and read, shrunk to what matters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.chaos import play
from odradek.chaos.schedule import KINDS, USUAL, Event, draw, read, shrink, text_of

KIND_LISTS = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True)


@given(st.integers(0, 10**6), st.floats(0.5, 300), KIND_LISTS)
def test_a_seed_draws_one_schedule_that_its_text_gives_back(seed: int, seconds: float, kinds: list[str]) -> None:
    events = draw(seed, seconds, kinds)
    assert events == draw(seed, seconds, kinds)
    assert len(events) == max(1, round(seconds / 2))
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert all(0 <= event.at <= seconds and event.kind in kinds for event in events)
    assert read(text_of(events)) == events


def test_other_seeds_draw_others() -> None:
    assert len({text_of(draw(seed, 20)) for seed in range(50)}) == 50
    assert {event.kind for event in draw(1, 2_000)} == set(USUAL)


def test_every_kind_can_be_played() -> None:
    assert set(play.ACTS) == set(KINDS)


def test_a_schedule_may_have_comments_and_any_order() -> None:
    assert read("# of seed 7\n7.5 clock_jumps seconds=30  # not done\n\n 3 lost_replies api=Produce\n") == [
        Event(3, "lost_replies", {"api": "Produce"}),
        Event(7.5, "clock_jumps", {"seconds": 30}),
    ]


@pytest.mark.parametrize("text", ["soon clock_jumps", "3", "3 clock_jump", "3 clock_jumps 30"])
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no event|is none of"):
        read(text)


@pytest.mark.parametrize(("kinds", "seconds"), [([], 1.0), ("clock_jumps", 1.0), (["clock"], 1.0), (["stalls"], 0.0)])
def test_wrong_wishes_are_refused(kinds: list[str], seconds: float) -> None:
    with pytest.raises(ValueError, match=r"expected|is none of"):
        draw(7, seconds, kinds)


@given(st.integers(1, 40), st.data())
def test_what_matters_is_found_among_all(count: int, data: st.DataObject) -> None:
    events = [Event(float(at), "disconnects") for at in range(count)]
    needed = data.draw(st.lists(st.sampled_from(events), unique_by=id, max_size=4))

    def fails(some: list[Event]) -> bool:
        return all(event in some for event in needed)

    assert shrink(events, fails, 10_000) == sorted(needed, key=lambda event: event.at)


@given(st.integers(0, 30))
def test_no_more_attempts_are_made_than_allowed(attempts: int) -> None:
    made: list[int] = []

    def fails(some: list[Event]) -> bool:
        made.append(len(some))
        return len(some) >= 7

    found = shrink(draw(7, 100), fails, attempts)
    assert len(made) <= attempts
    assert len(found) >= 7

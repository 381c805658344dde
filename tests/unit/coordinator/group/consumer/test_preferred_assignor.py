"""Which assignor a group uses (KIP-848): the one that most of its members ask for."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.group import ConsumerMember, preferred_assignor

OFFERED = ("uniform", "range")


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        ([], "uniform"),
        ([None, None, "range"], "range"),
        (["range", "uniform", "range"], "range"),
        (["range", "uniform"], "uniform"),
        (["gone", "gone", "range"], "range"),
    ],
)
def test_the_one_with_the_most_votes_and_in_a_tie_the_first_offered(asked: list[str | None], used: str) -> None:
    members = [ConsumerMember(f"m{number}", assignor=name) for number, name in enumerate(asked)]
    assert preferred_assignor(members, OFFERED) == used

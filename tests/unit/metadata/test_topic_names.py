"""Names of topics: which are legal, and which cannot exist together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import topic_names


@given(st.text(max_size=260))
def test_legal_names_are_kafkas(name: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    legal = 0 < len(name) <= 249 and name not in {".", ".."} and set(name) <= allowed
    assert (topic_names.invalid_reason(name) is None) == legal


def test_a_name_with_a_line_end_is_not_legal() -> None:
    assert topic_names.invalid_reason("topic\n") is not None


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [("a.b", "a_b", True), ("a_b", "a.b", True), ("a.b_c", "a_b.c", True), ("a.b", "a-b", False), ("ab", "ab", False)],
)
def test_names_collide_whose_dots_and_underscores_are_at_the_same_places(one: str, other: str, collide: bool) -> None:
    key = topic_names.collision_key(one)
    assert (key is not None and key == topic_names.collision_key(other)) == collide


def test_repeated_names_come_in_the_order_of_their_first_appearance() -> None:
    assert topic_names.repeated(["c", "a", "b", "a", "c", "a"]) == ["c", "a"]

"""The plain map does what `immutables.Map` does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata import plain_map

immutables = pytest.importorskip("immutables", reason="there is no wheel of it for this Python")

CHANGES = st.lists(st.tuples(st.sampled_from(["set", "delete", "assign", "remove", "pop"]), st.integers(0, 5)))


def outcome(made: Any, kind: str, key: int) -> Any:
    """The map that a change makes, or the key that was missing."""
    try:
        match kind:
            case "set":
                return made.set(key, str(key))
            case "delete":
                return made.delete(key)
        changing = made.mutate()
        match kind:
            case "assign":
                changing[key] = "assigned"
            case "remove":
                del changing[key]
            case "pop":
                changing.pop(key, None)
        return changing.finish()
    except KeyError as error:
        return error.args


@given(CHANGES)
def test_the_same_changes_make_the_same_map(changes: list[tuple[str, int]]) -> None:
    plain: Any = plain_map.Map({1: "a"})
    real: Any = immutables.Map({1: "a"})
    for kind, key in changes:
        before = dict(plain)
        after, wanted = outcome(plain, kind, key), outcome(real, kind, key)
        assert dict(plain) == before, "a map never changes"
        if isinstance(wanted, tuple):
            assert after == wanted
            continue
        plain, real = after, wanted
        assert dict(plain.items()) == dict(real.items())
        assert (len(plain), set(plain.keys()), set(plain.values())) == (len(real), set(real), set(real.values()))
        assert [(one in plain, plain.get(one, "none")) for one in range(6)] == [
            (one in real, real.get(one, "none")) for one in range(6)
        ]


def test_maps_with_the_same_entries_are_equal_and_have_one_hash() -> None:
    one, other = plain_map.Map({1: "a", 2: "b"}), plain_map.Map([(2, "b"), (1, "a")])
    assert one == other
    assert hash(one) == hash(other)
    assert one != other.delete(1)
    assert one != {1: "a", 2: "b"}

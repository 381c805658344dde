"""Regular expressions against Python's engine, where both mean the same, and what is refused."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from broker.pattern_parts import InvalidPattern
from broker.patterns import Pattern

ATOMS = st.sampled_from(("a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", r"\.", "^", "$", r"\b", "(?i:A)"))


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(("*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"))
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.builds(lambda part, operator: f"(?:{part}){operator}", inner, operators),
    )


@settings(max_examples=100, deadline=None)
@given(pattern=st.recursive(ATOMS, grown, max_leaves=8), text=st.text("abcA1. \n", max_size=8))
def test_what_python_matches(pattern: str, text: str) -> None:
    # Python's "$" also matches before a line's end at the end of the text; RE2's does not.
    expected = re.fullmatch(pattern.replace("$", r"\Z"), text) is not None
    assert Pattern(pattern).matches(text) is expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("[[:alpha:]]+", "abc", True),
        ("[[:^alpha:]]+", "abc", False),
        ("[]a]+", "]a", True),
        (r"[\d-]+", "1-2", True),
        (r"\p{Lu}\pN", "A1", True),
        (r"\P{L}", "é", False),
        (r"\x41\x{1F600}", "A😀", True),
        ("(?s).(?m)^a$", "\na", True),
        ("a{,2}", "a{,2}", True),
        ("(?P<name>a)(?i)b", "aB", True),
        ("((?i)a)b", "AB", False),
    ],
)
def test_what_is_res_own(pattern: str, text: str, expected: bool) -> None:
    assert Pattern(pattern).matches(text) is expected


NONE = (
    *("(", ")", "[", "[[:foo:]]", "[b-a]", "*", "a**", "a|+", "(?=a)", r"(a)\1", "\\", r"\p{Greek}", r"\x{110000}"),
    *("a{2,1}", "a{1001}", "(?z)", "(?", "(?P<>a)", "(?)", "(" * 101 + ")" * 101),
)


@pytest.mark.parametrize("pattern", NONE)
def test_what_is_none(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(((a*)*)*)*b", "(a?){1000}(a?){1000}b", "(((){1000}){1000}){1000}"])
def test_what_takes_too_long_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern).matches("a" * 100_000)

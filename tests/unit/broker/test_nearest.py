"""The name that was probably meant: clients choose the names that it is looked for in, so the search is bounded."""

from __future__ import annotations

import difflib
import random

import pytest

from broker.nearest import LONGEST, MOST_COMPARED, did_you_mean


def test_the_nearest_of_many_names_is_found() -> None:
    names = [f"orders-{number}" for number in range(10_000)]
    assert did_you_mean("ordres-99", names) == "; did you mean orders-99?"
    assert did_you_mean("reader", ["readers", "writers"], as_sentence=True) == " Did you mean readers?"
    assert did_you_mean("nothing", names) == ""


def test_few_names_are_compared_letter_by_letter_however_many_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    ratio = difflib.SequenceMatcher.ratio

    def counted(matcher: difflib.SequenceMatcher[str]) -> float:
        nonlocal compared
        compared += 1
        return ratio(matcher)

    monkeypatch.setattr(difflib.SequenceMatcher, "ratio", counted)
    chance = random.Random(1)
    names = ["".join(chance.choice("ab") for _ in range(199)) for _ in range(200)]
    did_you_mean("".join(chance.choice("ab") for _ in range(199)), names)
    assert 0 < compared <= 2 * MOST_COMPARED  # difflib computes that of a near one twice


def test_a_name_that_no_topic_can_have_is_compared_with_nothing() -> None:
    assert did_you_mean("g" * LONGEST, ["g" * LONGEST]) != ""
    assert did_you_mean("g" * (LONGEST + 1), ["g" * LONGEST, "g" * (LONGEST + 1)]) == ""

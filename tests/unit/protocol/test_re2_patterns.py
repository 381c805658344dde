"""Regular expressions on a platform without RE2's package."""

from __future__ import annotations

import sys

import pytest

from protocol.re2_patterns import InvalidPatternError, compile_pattern


def test_without_google_re2_a_pattern_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidPatternError, match=r"has no google-re2, .*: name the topics"):
        compile_pattern("orders.*")

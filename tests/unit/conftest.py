"""A test that docs/rules.md names for a rule calls the function named there, or it would show something else."""

from __future__ import annotations

from collections.abc import Generator
from cProfile import Profile

import pytest

from tests.unit.rules import rules_by_test


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    rules = rules_by_test().get(pyfuncitem.nodeid.partition("[")[0])
    if rules is None:
        return (yield)
    profile = Profile(subcalls=False, builtins=False)
    profile.enable()
    try:
        outcome = yield
    finally:
        profile.disable()
    called = {entry.code for entry in profile.getstats()}
    for rule in rules:
        code = rule.code()
        assert code is None or code in called, f"{rule.file}::{rule.function} was not called: see docs/rules.md"
    return outcome

"""The section "odradek" in the report of a failing test: what its broker holds, and what it was asked last."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from odradek.control import ControlError
from odradek.controls import Controls
from odradek.pytest.traceback import end_at_users_line

SECTION = "odradek"

MARKS: pytest.StashKey[dict[int, int]] = pytest.StashKey()
"""By the identity of each broker of a test: the journal's mark when the test began."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note where the journals of the test's brokers are, now that its fixtures are there."""
    item.stash[MARKS] = dict(_marks(item))
    return (yield)


def _marks(item: pytest.Item) -> Iterator[tuple[int, int]]:
    for broker in brokers_of(item):
        try:
            yield id(broker), broker.journal(limit=0).mark
        except (ControlError, RuntimeError):
            continue  # it has no control interface, or is not running: perhaps the test starts it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the section to the report of a test that failed and has a broker; show the user's lines, not ours."""
    error = None if call.excinfo is None or item.config.getoption("fulltrace") else call.excinfo.value
    has_users_line = error is None or end_at_users_line(error)
    made = yield
    if made.failed and not has_users_line:
        made.longrepr = f"{type(error).__name__}: {error}"
    if made.failed and made.when != "teardown":
        marks = item.stash.get(MARKS, {})
        texts = [_text(broker, marks.get(id(broker))) for broker in brokers_of(item)]
        if texts:
            made.sections.append((SECTION, "\n\n".join(texts)))
    return made


def _text(broker: Controls, mark: int | None) -> str:
    try:
        return broker.report(since=mark)
    except (ControlError, RuntimeError) as error:
        return f"the broker cannot say how it is: {error}"


def brokers_of(item: pytest.Item) -> Iterator[Controls]:
    """The brokers among the values of the test's fixtures, each once."""
    values: dict[str, object] = getattr(item, "funcargs", {})
    found = {id(value): value for value in values.values() if isinstance(value, Controls)}
    return iter(found.values())

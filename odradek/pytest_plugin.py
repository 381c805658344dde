"""The pytest plugin: fixtures for a test suite that needs a Kafka broker. Nothing is started until one is used.

It replaces brokers that died between tests, and adds to the report of a failing test what its broker holds and was
asked last. Tracebacks of what the kit raises end at the user's line.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Generator, Iterator
from types import TracebackType

import _pytest
import pytest

from odradek.control import ControlError
from odradek.controls import Controls
from odradek.pytest.options import MARKER, MARKER_LINE, Options
from odradek.pytest.pool import POOL
from odradek.warm import WARM

pytest_plugins = ["odradek.pytest.fixtures"]

SECTION = "odradek"

MARKS: pytest.StashKey[dict[int, int]] = pytest.StashKey()
"""By the identity of each broker of a test: the journal's mark when the test began."""

OURS = os.path.dirname(__file__)
BETWEEN = tuple(os.path.dirname(module.__file__ or "") for module in (asyncio, concurrent.futures))
"""Folders of what runs the kit's waits in a thread."""

PYTEST = os.path.dirname(_pytest.__file__)
"""The folder of what calls fixtures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    Options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER_LINE)
    Options.of(config)  # wrong ones end the run before it begins


def pytest_unconfigure(config: pytest.Config) -> None:
    if POOL in config.stash:
        config.stash[POOL].close_all()
    WARM.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why the session's starts were slow, if they were."""
    if POOL in config.stash and WARM.why_plain is not None:
        terminalreporter.write_line(f"odradek: each broker was started as a program of its own: {WARM.why_plain}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a test with the marker use the fixture, whether it names it or not."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker(MARKER) is None:
        return
    if not {"odradek", "odradek_cluster"} & set(item.fixturenames):
        item.fixturenames.insert(0, "odradek")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Replace brokers that died, or that the last test ended."""
    if POOL in item.config.stash:
        item.config.stash[POOL].renew()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note where the journals of the test's brokers are, now that its fixtures are there."""
    item.stash[MARKS] = dict(_marks(item))
    return (yield)


def _marks(item: pytest.Item) -> Iterator[tuple[int, int]]:
    for broker in brokers_of(item):
        broker.last_chaos = None
        try:
            yield id(broker), broker.journal(limit=0).mark
        except (ControlError, RuntimeError):
            continue  # it has no control interface, or is not running: perhaps the test starts it


# -- the report of a test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test during which a broker died; tell what a broker holds; end tracebacks at the user's line."""
    error = None if call.excinfo is None or item.config.getoption("fulltrace") else call.excinfo.value
    has_users_line = error is None or end_at_users_line(error)
    report = yield
    if call.when == "call" and POOL in item.config.stash:
        _add_deaths(report, item.config.stash[POOL].words_of_the_dead())
    if report.failed and not has_users_line:
        report.longrepr = f"{type(error).__name__}: {error}"
    if report.failed and report.when != "teardown":
        marks = item.stash.get(MARKS, {})
        texts = [_text(broker, marks.get(id(broker))) for broker in brokers_of(item)]
        if texts:
            report.sections.append((SECTION, "\n\n".join(texts)))
    return report


def _add_deaths(report: pytest.TestReport, words: str) -> None:
    """Add what brokers that died said last; a test that did not fail fails with it."""
    if words and report.failed:
        report.sections.append(("odradek: the broker died", words))
    elif words:
        report.outcome, report.longrepr = "failed", words


def _text(broker: Controls, mark: int | None) -> str:
    played = "" if broker.last_chaos is None else f"\n{broker.last_chaos.described()}"
    try:
        return broker.report(since=mark) + played
    except (ControlError, RuntimeError) as error:
        return f"the broker cannot say how it is: {error}{played}"


def brokers_of(item: pytest.Item) -> Iterator[Controls]:
    """The brokers among the values of the test's fixtures, each once."""
    values: dict[str, object] = getattr(item, "funcargs", {})
    found = {id(value): value for value in values.values() if isinstance(value, Controls)}
    return iter(found.values())


# -- tracebacks


def end_at_users_line(error: BaseException) -> bool:
    """Cut the last frames off if they are the kit's. What the user's own functions raise stays as it is.

    False if no frame would be left that is the user's, as when a fixture of the kit fails.
    pytest follows the frames themselves, so this cuts them rather than pytest's list of them. A broken kit is still
    seen with `--full-trace`, for which this is not called.
    """
    frames = list(_frames(error.__traceback__))
    paths = [os.path.abspath(frame.tb_frame.f_code.co_filename) for frame in frames]
    if not paths or not _is_in(paths[-1], OURS):
        return True
    while paths and _is_in(paths[-1], OURS, *BETWEEN):
        paths.pop()
    if not paths or _is_in(paths[-1], PYTEST):
        return False
    frames[len(paths) - 1].tb_next = None
    return True


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_in(path: str, *folders: str) -> bool:
    return any(path.startswith(folder + os.sep) for folder in folders)

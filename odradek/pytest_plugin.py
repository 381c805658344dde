"""The pytest plugin: fixtures for a test suite that needs a Kafka broker. Nothing is started until one is used."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from odradek.pytest import marker
from odradek.pytest.fixtures import (
    odradek,
    odradek_acls,
    odradek_bootstrap,
    odradek_broker,
    odradek_client_config,
    odradek_cluster,
    odradek_fresh_broker,
    odradek_secure_broker,
    odradek_topic,
    odradek_topics,
    odradek_users,
)
from odradek.pytest.options import Options
from odradek.pytest.pool import POOL

__all__ = [
    "odradek",
    "odradek_acls",
    "odradek_bootstrap",
    "odradek_broker",
    "odradek_client_config",
    "odradek_cluster",
    "odradek_fresh_broker",
    "odradek_secure_broker",
    "odradek_topic",
    "odradek_topics",
    "odradek_users",
]

pytest_plugins = ["odradek.pytest.report"]


def pytest_addoption(parser: pytest.Parser) -> None:
    Options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", marker.LINE)
    Options.of(config)  # wrong ones end the run before it begins


def pytest_unconfigure(config: pytest.Config) -> None:
    if POOL in config.stash:
        config.stash[POOL].close_all()


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test with the marker uses the fixture, whether it names it or not."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker(marker.NAME) is None:
        return
    if not {"odradek", "odradek_cluster"} & set(item.fixturenames):
        item.fixturenames.insert(0, "odradek")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Replace brokers that died, or that the last test ended."""
    if POOL in item.config.stash:
        item.config.stash[POOL].renew()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """A test during which a broker died fails, with what that broker said last."""
    outcome = yield
    if call.when != "call" or POOL not in item.config.stash:
        return
    words = item.config.stash[POOL].words_of_the_dead()
    if not words:
        return
    report: pytest.TestReport = outcome.get_result()
    if report.failed:
        report.sections.append(("odradek: the broker died", words))
    else:
        report.outcome, report.longrepr = "failed", words

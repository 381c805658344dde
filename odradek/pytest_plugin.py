"""Fixtures for a test suite that needs a Kafka broker; pytest loads them, and starts nothing until one is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek.process import Broker

pytest_plugins = ["odradek.pytest.report"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("odradek_settings", "key=value lines in server.properties names, for odradek_broker", type="linelist")


@pytest.fixture(scope="session")
def odradek_broker(pytestconfig: pytest.Config) -> Iterator[Broker]:
    """One broker for the whole session, on a free port, with a temporary data folder."""
    settings: dict[str, object] = {}
    for line in pytestconfig.getini("odradek_settings"):
        key, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"odradek_settings: {line!r} is not key=value")
        settings[key.strip()] = value.strip()
    with Broker(settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def odradek_bootstrap(odradek_broker: Broker) -> str:
    """`host:port` for a client's bootstrap servers."""
    return odradek_broker.bootstrap_servers

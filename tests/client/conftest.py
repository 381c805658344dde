"""Fixtures of the client tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.brokers import sound_broker
from tests.client import java_tools, stock
from tests.client.groups import SETTINGS
from tests.client.java_tools import JavaPipe
from tests.client.stock import StockClient


@pytest.fixture(scope="session")
def java_pipe() -> Iterator[JavaPipe]:
    reason = java_tools.missing()
    if reason:
        pytest.skip(reason)
    pipe = JavaPipe()
    yield pipe
    pipe.close()


@pytest.fixture(scope="session")
def stock_clients(request: pytest.FixtureRequest) -> dict[str, StockClient]:
    """The stock clients that this machine has, by name."""
    found = stock.clients(lambda: request.getfixturevalue("java_pipe"))
    return {client.name: client for client in found}


@pytest.fixture(params=stock.NAMES)
def producing(request: pytest.FixtureRequest, stock_clients: dict[str, StockClient]) -> StockClient:
    """Each stock client in turn; one that is missing skips."""
    reason = stock.missing(request.param)
    if reason:
        pytest.skip(reason)
    return stock_clients[request.param]


@pytest.fixture(scope="session")
def quick_cluster(request: pytest.FixtureRequest) -> Iterator[str]:
    """`host:port` of a broker with `groups.SETTINGS`; one that --bootstrap names is to have them too."""
    given: str | None = request.config.getoption("--bootstrap")
    if given:
        yield given
        return
    with sound_broker(SETTINGS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def java_tool() -> None:
    """For tests that run Apache Kafka's command-line tools."""
    reason = java_tools.missing()
    if reason:
        pytest.skip(reason)

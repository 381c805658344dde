"""What every level of test shares: the cluster under test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from odradek import Broker
from tests.brokers import sound_broker

# A machine may be busy: no property is to fail for the time it took.
settings.register_profile("odradek", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """How a test, or what it calls, has logs written ends with it: the next one may look at what is logged."""
    yield
    structlog.reset_defaults()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bootstrap", help="HOST:PORT of a cluster to test in place of a broker of our own")
    parser.addoption("--churn", default="6:10", help="MEMBERS:SECONDS of the test of groups that never rest")
    parser.addoption("--fuzz", type=int, default=2, help="made-up requests for each version of each API")
    parser.addoption("--torture", action="store_true", help="long forms: many kills, many records")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `torture` to `make torture`."""
    if not config.getoption("--torture"):
        for item in items:
            if item.get_closest_marker("torture"):
                item.add_marker(pytest.mark.skip(reason="takes long: make torture"))


@pytest.fixture(scope="session")
def shared_broker(own_cluster: None) -> Iterator[Broker]:
    """One broker for tests that leave it as it was; skips where the cluster under test is not ours."""
    with sound_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """`host:port` of the cluster under test."""
    given: str | None = request.config.getoption("--bootstrap")
    if given:
        return given
    broker: Broker = request.getfixturevalue("shared_broker")
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def own_cluster(request: pytest.FixtureRequest) -> None:
    """For tests that start, kill and stop brokers themselves: skips under --bootstrap."""
    if request.config.getoption("--bootstrap"):
        pytest.skip("needs brokers of our own, not --bootstrap")

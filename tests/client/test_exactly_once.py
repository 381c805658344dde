"""Consume, transform, produce through kill -9 of workers and of the broker: each record once, in order of its key.

`make torture` plays the long form.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek import Broker
from tests.brokers import sound_broker
from tests.client import workshop
from tests.client.workshop import Workshop, work_through_harm

SHORT = (1_500, ["broker"], 60.0)
LONG = (100_000, ["broker", "worker"] * 20, 600.0)
"""Records, deeds, and the seconds that anything may take. After a worker's death its group waits for three seconds, so
that in the short form one kind alone has one killed."""


@pytest.fixture
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker(workshop.SETTINGS) as broker:
        yield broker


@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, marks=pytest.mark.torture if client == "kafka-python" else ())
        for client in workshop.CLIENTS
    ],
)
def test_each_record_exactly_once(client: str, broker: Broker, topic: str, request: pytest.FixtureRequest) -> None:
    if reason := workshop.missing(client):
        pytest.skip(reason)
    count, deeds, seconds = LONG if request.config.getoption("--torture") else SHORT
    if client == "confluent-kafka" and deeds is SHORT[1]:
        deeds = [*deeds, "worker"]
    with Workshop(broker, client, topic) as shop:
        work_through_harm(shop, count, deeds, seed=len(client), seconds=seconds)

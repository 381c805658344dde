"""Odradek gives Kafka's recorded answer to every step of every scenario, at every version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek import Broker
from tests.conformance import runner, transcripts
from tests.conformance.compare import unexpected
from tests.conformance.record import chosen, warm

# What the recorded Kafka was told beyond its defaults.
SETTINGS = {
    "node.id": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}
CASES = [(scenario, version) for scenario in chosen("") for version in scenario.versions]


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with Broker(SETTINGS, profile="kafka") as broker:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        warm(host, int(port))
        yield host, int(port)


@pytest.mark.parametrize(("scenario", "version"), CASES, ids=[f"{s.api}-{s.name}-v{v}" for s, v in CASES])
def test_answers_as_kafka_does(scenario: runner.Scenario, version: int, address: tuple[str, int]) -> None:
    expected = transcripts.load_cached(scenario.api)[scenario.name][version]
    got = runner.run(scenario, version, *address)
    found = unexpected(scenario.api, scenario.name, expected, got)
    assert not found, "\n".join(f"{step}: {line}" for step, lines in found.items() for line in lines)


def test_every_recorded_scenario_is_still_played() -> None:
    recorded = {
        (path.stem, name) for path in transcripts.FOLDER.glob("*.json") for name in transcripts.load_cached(path.stem)
    }
    assert recorded == set(runner.SCENARIOS)

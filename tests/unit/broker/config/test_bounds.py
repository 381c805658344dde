"""Which values settings may have, against Apache Kafka's own answers (`tools/recorders/record_bounds.py`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.api import broker_changes as alter
from broker.config.broker_config import ConfigurationError
from broker.config.client_metrics_configs import parse_client_metrics_configs
from broker.config.definition import ConfigType
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.resource_configs import parse_group_configs, parse_topic_configs
from broker.config.sources import load
from controller.configs import ConfigChange
from protocol.errors import KafkaError

ROOT = Path(__file__).parents[4]
KAFKA: dict[str, Any] = json.loads((ROOT / "tests/conformance/data/kafka_bounds.json").read_text())
NODE = (
    "process.roles=broker,controller",
    "node.id=1",
    "controller.quorum.voters=1@127.0.0.1:9093",
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names=CONTROLLER",
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
)
CONFIG = load(settings=NODE).config

DELIBERATE: dict[str, str] = {
    "authorizer.class.name": "a class that is not there stops Kafka later, and this broker at once",
    "replica.selector.class": "a class that is not there stops Kafka later, and this broker at once",
    "controller.quorum.bootstrap.servers": "Kafka wants the listener's address; here a lone node may name any",
    "controller.quorum.voters": "Kafka wants them; here a lone node needs none",
    "controller.listener.names": "a lone node opens no listener of controllers if there is none",
    "early.start.listeners": "has no effect here",
    "inter.broker.listener.name": "has no effect on a lone node",
    "node.id": "Kafka wants it among the voters, which is said of the voters here",
    "sasl.server.callback.handler.class": "is checked for the listeners that use it",
    "config.providers": "Kafka takes empty and repeated names at run time, which make no provider here",
    "min.insync.replicas": "is refused by the controller",
    "remote.log.storage.system.enable": "a store that is not named stops Kafka later, and this broker at once",
}


UNUSED_CLASSES = {
    "group.streams.topology.description.plugin.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.oauthbearer.jwt.retriever.class",
}
"""Classes of Java's that forbid nothing: a class that is not there only draws the warning that it has no effect."""


def differences(rows: list[list[Any]], refusal: Callable[[str, str], str | None]) -> Iterator[str]:
    """A line for each value that only one of the two takes."""
    for name, *answer in rows:
        if name in DELIBERATE or (name in NOT_NEEDED and NOT_NEEDED[name].internal):
            continue
        if isinstance(answer[0], list):
            wanted = {text: text in answer[0] for text in KAFKA["texts"] if text.strip() or not_empty(name)}
        elif answer[0] is None:
            wanted = dict.fromkeys(("0", "1", "9", "1000"), False)
        else:
            low, high = answer
            wanted = {str(low): True, str(high): True, str(low - 1): False, str(high + 1): False}
        for value, taken in wanted.items():
            refused = refusal(name, value)
            if (refused is None) != taken:
                yield f"{name}={value}: Kafka {'takes' if taken else 'refuses'} it; here {refused}"


def not_empty(name: str) -> bool:
    """Whether an empty text says something: a class, or something of tiered storage, that is empty is none here."""
    return not name.startswith("remote.log.") and (
        name not in NOT_NEEDED or NOT_NEEDED[name].type is not ConfigType.CLASS
    )


def at_start(name: str, value: str) -> str | None:
    try:
        load(settings=(*NODE, f"{name}={value}"))
    except ConfigurationError as error:
        return str(error)
    return None


def test_what_a_start_takes_is_what_kafka_takes() -> None:
    rows = [row for row in KAFKA["started"] if row[0] not in UNUSED_CLASSES]
    assert list(differences(rows, at_start)) == []


def of_broker(*, per_broker: bool) -> Callable[[str, str], None]:
    return lambda name, value: alter.check_broker(
        CONFIG, [ConfigChange(name, 0, value)], per_broker=per_broker, incremental=True
    )


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("broker", of_broker(per_broker=True)),
        ("cluster", of_broker(per_broker=False)),
        ("topic", lambda name, value: parse_topic_configs(CONFIG, {name: value})),
        ("group", lambda name, value: parse_group_configs(CONFIG, {name: value})),
        ("client_metrics", lambda name, value: parse_client_metrics_configs({name: value})),
    ],
)
def test_what_alter_configs_takes_is_what_kafka_takes(kind: str, check: Callable[[str, str], object]) -> None:
    def refusal(name: str, value: str) -> str | None:
        try:
            check(name, value)
        except KafkaError as error:
            return str(error)
        return None

    assert list(differences(KAFKA[kind], refusal)) == []


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_assignment_interval_above_its_maximum_is_refused_for_a_broker(kind: str) -> None:
    name = f"group.{kind}.assignment.interval.ms"
    with pytest.raises(KafkaError, match=rf"{name} = 15001: expected at most group\.{kind}\.max"):
        of_broker(per_broker=True)(name, "15001")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (("group.share.min.session.timeout.ms=50000",), "group.share.session.timeout.ms = 45000: expected at least"),
        (
            (
                "group.streams.min.session.timeout.ms=1",
                "group.streams.session.timeout.ms=15000",
                "group.streams.heartbeat.interval.ms=15000",
            ),
            "group.streams.heartbeat.interval.ms = 15000: expected less than the session timeout, 15000",
        ),
        (("group.share.max.share.sessions=100",), "expected at least group.share.max.size, 200"),
        (("connections.max.idle.ms=100",), "expected less than connections.max.idle.ms, 100"),
        (("group.share.assignors=simple,other",), "group.share.assignors = 'simple,other': expected simple"),
        (("group.streams.rack.aware.assignment.tags=a,a",), "expected each key once"),
        (("sasl.enabled.mechanisms=PLAIN,",), "a comma separated list without empty entries"),
        (("num.network.threads=0",), "num.network.threads = '0' (from --set): expected a 32-bit integer, at least 1"),
    ],
)
def test_settings_that_depend_on_one_another(settings: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(settings=settings)
    assert complaint in str(refused.value)

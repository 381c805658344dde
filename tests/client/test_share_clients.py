"""Share groups (KIP-932) with the share consumers of others than Kafka itself: librdkafka, franz-go, Spring Kafka."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Message, ShareConsumer

from odradek import Broker
from tests.client import other_languages
from tests.client.java_tools import compiled
from tests.conformance.group_configs import configure_group
from tests.conformance.runner import Talk

pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.timeout(300)]

SPRING = Path(__file__).parent / "java" / "spring"
SPRING_JARS = Path(__file__).parents[2] / "build" / "java-spring"
GROUP = "sharers"
VALUES = ["a", "b", "c"]

Consumed = list[tuple[str, int]]
"""Value and count of deliveries of each record."""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.share.assignment.interval.ms": 0}, profile="dev") as broker:
        host, port = broker.bootstrap_servers.split(":")
        configure_group(Talk(host, int(port)), GROUP, {"share_auto_offset_reset": "earliest"})
        yield broker
        assert "Traceback" not in broker.log()


def by_librdkafka(broker: Broker, count: int, how: str) -> Consumed:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
        "max.poll.records": 1,
    }
    got: Consumed = []
    with ShareConsumer(settings) as consumer:
        consumer.subscribe(["t"])
        while len(got) < count:
            for message in consumer.poll(1.0):
                got.append(consumed(message))
                consumer.acknowledge(message, AcknowledgeType[how.upper()])
            for place, error in consumer.commit_sync(30.0).items():
                assert error is None, (place, error)
    return got


def consumed(message: Message) -> tuple[str, int]:
    value, deliveries = message.value(), message.delivery_count()
    assert message.error() is None
    assert isinstance(value, bytes)
    assert deliveries is not None
    return value.decode(), deliveries


def by_program(command: list[str], broker: Broker, count: int, how: str) -> Consumed:
    arguments = [broker.bootstrap_servers, GROUP, "t", str(count), how]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    records = [line.split(" ") for line in run.stdout.splitlines()]
    return [(value, int(deliveries)) for _, _, value, deliveries in records]


def by_franz_go(broker: Broker, count: int, how: str) -> Consumed:
    command = other_languages.franz_go_share()
    if isinstance(command, str):
        pytest.skip(command)
    return by_program(command, broker, count, how)


def by_spring(broker: Broker, count: int, how: str) -> Consumed:
    maven = shutil.which("mvn")
    if maven is None or shutil.which("javac") is None:
        pytest.skip("Maven and a JDK are not installed (tests/client/install-tools.sh)")
    if not any(SPRING_JARS.glob("spring-kafka-*.jar")):
        copy = [maven, "-q", "-B", "-f", str(SPRING / "pom.xml"), "dependency:copy-dependencies"]
        fetched = subprocess.run(
            [*copy, f"-DoutputDirectory={SPRING_JARS}"], capture_output=True, text=True, timeout=300, check=False
        )
        if fetched.returncode:
            pytest.skip(f"Spring Kafka cannot be fetched: {fetched.stdout[-500:]}")
    return by_program(compiled(SPRING / "SpringSharer.java", SPRING_JARS), broker, count, how)


@pytest.mark.parametrize(
    "consume",
    [
        by_librdkafka,
        pytest.param(by_franz_go, marks=pytest.mark.torture),
        pytest.param(by_spring, marks=pytest.mark.torture),
    ],
    ids=["librdkafka", "franz-go", "spring"],
)
def test_what_is_released_comes_again_and_what_is_accepted_or_rejected_never(
    broker: Broker, consume: Callable[[Broker, int, str], Consumed]
) -> None:
    broker.topic("t", partitions=1).produce_many(VALUES)
    released = consume(broker, 3, "release")
    assert min(Counter(deliveries for _, deliveries in released)) == 1
    rejected = consume(broker, 3, "reject")
    assert sorted(value for value, _ in rejected) == VALUES
    broker.topic("t").produce_many(["d", "e"])
    accepted = consume(broker, 2, "accept")
    assert sorted(value for value, _ in accepted) == ["d", "e"]
    broker.topic("t").produce("f")
    assert [value for value, _ in consume(broker, 1, "accept")] == ["f"]

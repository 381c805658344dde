"""Streams groups (KIP-1071) with Kafka Streams 4.4 and Kafka's tool, exactly once through kill -9 of both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Broker
from tests.client.java_tools import tool
from tests.client.word_count import APP, INPUT, OUTPUT, check_counts, instance, words
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("own_cluster", "java_tool"), pytest.mark.timeout(300)]

STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.streams.session.timeout.ms": "3000"}) as broker:
        broker.topic(INPUT, partitions=2)
        broker.topic(OUTPUT, partitions=1)
        yield broker


def produce(broker: Broker, count: int) -> None:
    broker.topic(INPUT).produce_many([word.encode() for word in words(count)])


def wait_for(broker: Broker, count: int) -> None:
    """Return once so many words are counted, each exactly once."""
    counts = broker.topic(OUTPUT)
    counts.wait(count, timeout=200)
    check_counts((record.key, record.value) for record in counts.records(committed=True))


@pytest.mark.torture
def test_words_are_counted_exactly_once_though_instances_and_the_broker_are_killed(
    broker: Broker, tmp_path: Path
) -> None:
    produce(broker, 500)
    first = instance(broker.bootstrap_servers, tmp_path / "first")
    second = instance(broker.bootstrap_servers, tmp_path / "second")
    third = None
    try:
        wait_for(broker, 500)
        first.kill()
        produce(broker, 500)
        third = instance(broker.bootstrap_servers, tmp_path / "third")
        wait_for(broker, 1000)
        broker.kill()
        broker.restart()
        produce(broker, 500)
        wait_for(broker, 1500)
        second.kill()
        produce(broker, 500)
        wait_for(broker, 2000)
    finally:
        for process in (first, second, third):
            if process is not None:
                process.kill()
                process.wait()


def test_the_streams_groups_tool(broker: Broker, tmp_path: Path) -> None:
    produce(broker, 20)
    servers = broker.bootstrap_servers
    with instance(broker.bootstrap_servers, tmp_path / "one") as process:
        try:
            wait_for(broker, 20)
            assert APP in tool(STREAMS_GROUPS, servers, "--list")
            assert "Stable" in tool(STREAMS_GROUPS, servers, "--describe", "--group", APP, "--state")
            described = tool(STREAMS_GROUPS, servers, "--describe", "--group", APP)
            assert f"{APP}-by-word-repartition" in described
            assert "ACTIVE" in tool(STREAMS_GROUPS, servers, "--describe", "--group", APP, "--members", "--verbose")
            (member,) = broker.group(APP).members
            tasks = broker.group(APP).tasks()
            assert {task.member for task in tasks} == {member.id}
            assert [(task.id, task.role) for task in tasks] == [(f"{n // 2}_{n % 2}", "active") for n in range(4)]
            assert broker.group(APP).problem is None
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
    wait_until(lambda: not broker.group(APP).members, "the group still has its member")
    tool(STREAMS_GROUPS, servers, "--delete", "--group", APP)
    assert APP not in tool(STREAMS_GROUPS, servers, "--list")

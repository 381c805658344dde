"""Streams groups (KIP-1071) with Kafka Streams 4.4 and Kafka's tool, exactly once through kill -9 of both sides."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Broker
from tests.client.java_tools import compiled, tool
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("own_cluster", "java_tool"), pytest.mark.timeout(300)]

WORD_COUNT = Path(__file__).parent / "java" / "WordCount.java"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
APP = "app"
WORDS = ("ant", "bee", "cat", "dog", "elk")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.streams.session.timeout.ms": "3000"}) as broker:
        broker.topic("words", partitions=2)
        broker.topic("counts", partitions=1)
        yield broker


def instance(broker: Broker, folder: Path) -> subprocess.Popen[bytes]:
    command = [*compiled(WORD_COUNT), broker.bootstrap_servers, APP, "words", "counts", "1", str(folder)]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)


def produce(broker: Broker, count: int) -> None:
    broker.topic("words").produce_many([WORDS[number % len(WORDS)].encode() for number in range(count)])


def counts(broker: Broker) -> dict[str, list[int]]:
    """What was counted of each word, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in broker.topic("counts").records(committed=True):
        assert record.key is not None and record.value is not None
        found[record.key.decode()].append(int(record.value))
    return found


def wait_for(broker: Broker, count: int) -> None:
    """Return once so many words are counted, each exactly once."""
    broker.topic("counts").wait(count, timeout=200)
    for word, found in counts(broker).items():
        assert found == list(range(1, len(found) + 1)), word


def test_words_are_counted_exactly_once_though_instances_and_the_broker_are_killed(
    broker: Broker, tmp_path: Path
) -> None:
    produce(broker, 500)
    first = instance(broker, tmp_path / "first")
    second = instance(broker, tmp_path / "second")
    third = None
    try:
        wait_for(broker, 500)
        first.kill()
        produce(broker, 500)
        third = instance(broker, tmp_path / "third")
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
    with instance(broker, tmp_path / "one") as process:
        try:
            wait_for(broker, 20)
            assert APP in tool(STREAMS_GROUPS, servers, "--list")
            assert "Stable" in tool(STREAMS_GROUPS, servers, "--describe", "--group", APP, "--state")
            described = tool(STREAMS_GROUPS, servers, "--describe", "--group", APP)
            assert f"{APP}-by-word-repartition" in described
            assert "ACTIVE" in tool(STREAMS_GROUPS, servers, "--describe", "--group", APP, "--members", "--verbose")
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
    wait_until(lambda: not broker.group(APP).members, "the group still has its member")
    tool(STREAMS_GROUPS, servers, "--delete", "--group", APP)
    assert APP not in tool(STREAMS_GROUPS, servers, "--list")

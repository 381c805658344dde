"""Share groups (KIP-932) with Kafka's own share consumer and tools, over sockets and through kill -9."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek import Broker
from tests.client.java_tools import compiled, tool
from tests.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("own_cluster", "java_tool"), pytest.mark.timeout(300)]

MEMBER = Path(__file__).parent / "java" / "ShareMember.java"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
GROUP = "sharers"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.share.assignment.interval.ms": "0"}) as broker:
        from_the_start = ["--alter", "--add-config", "share.auto.offset.reset=earliest"]
        tool(CONFIGS, broker.bootstrap_servers, "--entity-type", "groups", "--entity-name", GROUP, *from_the_start)
        yield broker


def member(broker: Broker, count: int, how: str) -> subprocess.Popen[str]:
    command = [*compiled(MEMBER), broker.bootstrap_servers, "t", GROUP, str(count), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def consumed(broker: Broker, count: int, how: str) -> list[tuple[int, int, str, int]]:
    """(partition, offset, value, deliveries) of each record that a member got."""
    with member(broker, count, how) as process:
        printed, _ = process.communicate(timeout=120)
    return [record(line) for line in printed.splitlines() if line != "committed"]


def record(line: str) -> tuple[int, int, str, int]:
    partition, offset, value, deliveries = line.split(" ")
    return int(partition), int(offset), value, int(deliveries)


def test_implicit_acknowledgement_by_the_console_share_consumer(broker: Broker) -> None:
    topic = broker.topic("t", partitions=2)
    topic.produce_many([str(number).encode() for number in range(20)])
    arguments = ["--topic", "t", "--group", GROUP, "--max-messages", "20", "--timeout-ms", "60000"]
    printed = tool(CONSOLE, broker.bootstrap_servers, *arguments)
    assert sorted(map(int, printed.split())) == list(range(20))


def test_released_records_come_again_and_rejected_ones_never(broker: Broker) -> None:
    broker.topic("t", partitions=1).produce_many([b"a", b"b", b"c"])
    first = consumed(broker, 3, "RELEASE")
    assert {("a", 1), ("b", 1), ("c", 1)} <= {(value, deliveries) for *_, value, deliveries in first}
    second = consumed(broker, 3, "REJECT")
    assert {value for *_, value, _ in second} == {"a", "b", "c"}
    assert all(deliveries >= 2 for *_, deliveries in second), "what a member fetches and does not show counts too"
    broker.topic("t").produce(b"d")
    assert consumed(broker, 1, "ACCEPT") == [(0, 3, "d", 1)]


def test_the_share_groups_tool(broker: Broker) -> None:
    broker.topic("t", partitions=1).produce_many([b"a", b"b"])
    consumed(broker, 2, "ACCEPT")
    servers = broker.bootstrap_servers
    assert GROUP in tool(SHARE_GROUPS, servers, "--list")
    described = tool(SHARE_GROUPS, servers, "--describe", "--group", GROUP)
    assert described.split()[-5:] == [GROUP, "t", "0", "0", "0"] or " t " in described
    tool(SHARE_GROUPS, servers, "--reset-offsets", "--group", GROUP, "--topic", "t", "--to-earliest", "--execute")
    again = consumed(broker, 2, "ACCEPT")
    assert [value for _, _, value, _ in again] == ["a", "b"]
    tool(SHARE_GROUPS, servers, "--delete", "--group", GROUP)
    assert GROUP not in tool(SHARE_GROUPS, servers, "--list")


@pytest.mark.torture
def test_after_kill_9_nothing_acknowledged_comes_again_and_nothing_is_lost(broker: Broker) -> None:
    topic = broker.topic("t", partitions=2)
    values = {f"v{number}" for number in range(400)}
    topic.produce_many([value.encode() for value in sorted(values)])
    accepted: list[str] = []
    with member(broker, 100_000, "ACCEPT") as process:
        assert process.stdout is not None
        pending: list[str] = []
        killed = False
        seen = Counter[str]()
        for line in process.stdout:
            if line.strip() == "committed":
                accepted += pending
                pending = []
                if set(accepted) | set(pending) == values:
                    break
                continue
            value = record(line.strip())[2]
            seen[value] += 1
            assert value not in accepted, "acknowledged, and came again"
            pending.append(value)
            if not killed and len(seen) >= 50:
                killed = True
                broker.kill()
                broker.restart()
        process.kill()
    assert set(seen) == values
    wait_until(lambda: not broker.group(GROUP).members, "the group still has its member")

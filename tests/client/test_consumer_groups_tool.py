"""Kafka's kafka-consumer-groups and its console consumer's formatters; what is expected is what they print of Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.runtime.runtime import partition_for
from tests.client import groups
from tests.client.groups import Crew
from tests.client.java_tools import java

pytestmark = pytest.mark.usefixtures("java_tool")

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer."
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<= )[\w+/-]{22}(?= )")
"""As clients print them, or Kafka, which does for KIP-848."""
PARTITIONS = 2
OFFSETS = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
NEW_OFFSETS = "GROUP TOPIC PARTITION NEW-OFFSET"
NOBODY = "Consumer group 'G' has no active members."


class Tool:
    """kafka-consumer-groups for one group, which appears as G, its topic as T."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def __call__(self, *arguments: str) -> list[str]:
        """What it prints: lines with single spaces, without empty ones, those of a table sorted."""
        words = {"G": self._crew.group, "T": self._crew.topic}
        named = [re.sub(r"\b[GT]\b", lambda match: words[match[0]], argument) for argument in arguments]
        run = java(TOOL, "--bootstrap-server", self._crew.bootstrap, *named)
        text = (run.stdout + b"\n" + run.stderr).decode()
        text = UUID.sub("ID", text.replace(self._crew.group, "G").replace(self._crew.topic, "T"))
        lines = [" ".join(line.split()) for line in text.replace(self._crew.bootstrap, "BROKER").splitlines()]
        return sorted(line for line in lines if line and not line.startswith("at "))


def state(crew: Crew) -> ConsumerGroupState:
    admin = AdminClient({"bootstrap.servers": crew.bootstrap})
    described = admin.describe_consumer_groups([crew.group])[crew.group].result(groups.SECONDS)
    found: ConsumerGroupState = described.state
    return found


@pytest.fixture
def crew(bootstrap: str, topic: str) -> Iterator[Crew]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(groups.SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        for partition in range(PARTITIONS):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(groups.SECONDS) == 0
    with Crew(bootstrap, f"group-{topic}", topic) as crew:
        yield crew
    admin.delete_topics([topic])[topic].result(groups.SECONDS)


@pytest.fixture
def tool(crew: Crew) -> Tool:
    return Tool(crew)


@pytest.mark.torture
def test_a_group_with_members_then_without(crew: Crew, tool: Tool) -> None:
    member = crew.start("confluent-range", "i")
    crew.wait_shared([member], PARTITIONS)
    crew.wait_for(
        "all committed", lambda: "G T 1 10 10 0 i-ID /127.0.0.1 rdkafka" in tool("--describe", "--group", "G")
    )
    assert "G" in tool("--list")
    assert "G Stable" in tool("--list", "--state", "stable")
    assert "G Classic" in tool("--list", "--type")
    described = [f"G T {partition} 10 10 0 i-ID /127.0.0.1 rdkafka" for partition in (0, 1)]
    assert tool("--describe", "--group", "G") == [*described, OFFSETS]
    assert tool("--describe", "--group", "G", "--members", "--verbose") == [
        "G i-ID i /127.0.0.1 rdkafka 2 - T:0,1 - -",
        "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH "
        "TARGET-ASSIGNMENT",
    ]
    state_head = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS"
    assert tool("--describe", "--group", "G", "--state") == ["G BROKER (1) range Stable 1", state_head]
    not_empty = "* Group 'G' could not be deleted due to: org.apache.kafka.common.errors.GroupNotEmptyException: "
    assert tool("--delete", "--group", "G") == [
        f"{not_empty}The group is not empty.",
        "Error: Deletion of some consumer groups failed:",
    ]
    assert tool("--reset-offsets", "--group", "G", "--topic", "T", "--to-earliest", "--execute") == [
        "Error: Assignments can only be reset if the group 'G' is inactive, but the current state is Stable.",
        NEW_OFFSETS,
    ]
    subscribed = (
        "Error: org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets of a topic is "
        "forbidden while the consumer group is actively subscribed to it."
    )
    assert tool("--delete-offsets", "--group", "G", "--topic", "T") == [
        "Error: Encountered some partition-level error, see the follow-up details.",
        *(f"T {partition} {subscribed}" for partition in (0, 1)),
        "TOPIC PARTITION STATUS",
    ]
    member.kill()
    crew.wait_for("empty", lambda: state(crew) is ConsumerGroupState.EMPTY)
    assert tool("--describe", "--group", "G") == [NOBODY, "G T 0 10 10 0 - - -", "G T 1 10 10 0 - - -", OFFSETS]
    assert tool("--describe", "--group", "G", "--state") == [NOBODY, "G BROKER (1) - Empty 0", state_head]


def test_a_group_of_the_new_protocol(crew: Crew, tool: Tool) -> None:
    member = crew.start("confluent-new")
    crew.wait_shared([member], PARTITIONS)
    described = [f"G T {partition} 10 10 0 ID /127.0.0.1 rdkafka" for partition in (0, 1)]
    crew.wait_for("all committed", lambda: tool("--describe", "--group", "G") == [*described, OFFSETS])
    assert "G Consumer" in tool("--list", "--type", "consumer")
    assert "G Stable" in tool("--list", "--state", "stable")
    members_head = (
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH TARGET-ASSIGNMENT"
    )
    assert tool("--describe", "--group", "G", "--members", "--verbose") == [
        "G ID /127.0.0.1 rdkafka 2 2 T:0,1 2 T:0,1",
        members_head,
    ]
    state_head = "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE GROUP-EPOCH TARGET-ASSIGNMENT-EPOCH #MEMBERS"
    describe_state = ("--describe", "--group", "G", "--state", "--verbose")
    assert tool(*describe_state) == ["G BROKER (1) uniform Stable 2 2 1", state_head]
    assert "Error: Deletion of some consumer groups failed:" in tool("--delete", "--group", "G")
    classic = crew.start("confluent-range", "i")
    crew.wait_shared([member, classic], PARTITIONS)
    assert tool("--describe", "--group", "G", "--members", "--verbose") == [
        "G ID /127.0.0.1 rdkafka 1 3 T:0 3 T:0 true",
        "G ID i /127.0.0.1 rdkafka 1 3 T:1 3 T:1 false",
        "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH "
        "TARGET-ASSIGNMENT UPGRADED",
    ]
    member.leave()
    member.wait_left()
    crew.wait_shared([classic], PARTITIONS)
    assert tool(*describe_state) == ["G BROKER (1) range Stable - - 1", state_head]
    assert "G Classic" in tool("--list", "--type")


def test_offsets_are_reset_and_deleted_and_the_group_too(crew: Crew, tool: Tool) -> None:
    reset = ("--reset-offsets", "--group", "G", "--topic")
    assert tool(*reset, "T", "--to-latest", "--execute") == ["G T 0 10", "G T 1 10", NEW_OFFSETS]
    assert tool(*reset, "T:0", "--to-offset", "3", "--dry-run") == ["G T 0 3", NEW_OFFSETS]
    assert tool(*reset, "T", "--shift-by", "-4", "--execute") == ["G T 0 6", "G T 1 6", NEW_OFFSETS]
    assert tool("--describe", "--group", "G", "--offsets") == [
        NOBODY,
        *(f"G T {partition} 6 10 4 - - -" for partition in (0, 1)),
        OFFSETS,
    ]
    assert tool("--delete-offsets", "--group", "G", "--topic", "T:0") == [
        "Request succeeded for deleting offsets from group G.",
        "T 0 Successful",
        "TOPIC PARTITION STATUS",
    ]
    assert tool("--describe", "--group", "G") == [NOBODY, "G T 1 6 10 4 - - -", OFFSETS]
    assert tool("--delete", "--group", "G") == ["Deletion of requested consumer groups ('G') was successful."]
    gone = "org.apache.kafka.common.errors.GroupIdNotFoundException: "
    assert tool("--delete", "--group", "G") == [
        f"* Group 'G' could not be deleted due to: {gone}The group id does not exist.",
        "Error: Deletion of some consumer groups failed:",
    ]
    assert f"Error: Executing consumer group command failed due to {gone}Group G not found." in tool(
        "--describe", "--group", "G"
    )


def test_the_console_consumers_formatters_print_the_records(crew: Crew, tool: Tool) -> None:
    member = crew.start("confluent-range", "i")
    crew.wait_shared([member], PARTITIONS)
    crew.wait_for("all read", lambda: len(crew.read) == 10 * PARTITIONS)
    member.leave()
    member.wait_left()
    key = f'{{"type":1,"data":{{"group":"{crew.group}","topic":"{crew.topic}","partition":1}}}}'
    offsets = records_of(crew, "OffsetsMessageFormatter", key)
    assert '"offset":10,"leaderEpoch":-1,"metadata":""' in offsets.replace('"leaderEpoch":0', '"leaderEpoch":-1')
    metadata = records_of(crew, "GroupMetadataMessageFormatter", f'"group":"{crew.group}"')
    assert '"protocolType":"consumer","generation":1,"protocol":"range","leader":"i-' in metadata
    assert '"groupInstanceId":"i","clientId":"rdkafka","clientHost":"/127.0.0.1"' in metadata


def records_of(crew: Crew, formatter: str, wanted: str) -> str:
    """The last line with `wanted` that the console consumer prints of `__consumer_offsets`."""
    deadline = time.monotonic() + groups.SECONDS
    arguments = ["--bootstrap-server", crew.bootstrap, "--topic", "__consumer_offsets", "--offset", "earliest"]
    arguments += ["--partition", str(partition_for(crew.group, 50)), "--timeout-ms", "3000"]
    arguments += ["--formatter", FORMATTERS + formatter]
    while True:
        run = java(CONSOLE_CONSUMER, *arguments)
        found = [line for line in run.stdout.decode().splitlines() if wanted in line]
        if found:
            return found[-1]
        assert time.monotonic() < deadline, run.stderr[-3000:].decode()

"""Committed offsets over sockets: kept over kill -9, gone with their topic, and readable by Kafka's own tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from coordinator.runtime.runtime import partition_for
from odradek import Broker
from tests.brokers import sound_broker
from tests.client.java_tools import java

GROUP = "grüße an 😀"
SECONDS = 30


@pytest.fixture
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


def admin_of(broker: Broker) -> AdminClient:
    """A new one after each restart: librdkafka's can lose a request for good while it bootstraps anew."""
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def new_topic(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(SECONDS)


def commit(admin: AdminClient, topic: str, *offsets: int) -> None:
    places = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    asked = [ConsumerGroupTopicPartitions(GROUP, places)]
    done = admin.alter_consumer_group_offsets(asked)[GROUP].result(SECONDS)
    assert [place.error for place in done.topic_partitions] == [None] * len(offsets)


def committed(admin: AdminClient) -> dict[tuple[str, int], int]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP].result(SECONDS)
    return {(place.topic, place.partition): place.offset for place in found.topic_partitions}


def test_commits_outlive_kill_9(broker: Broker, topic: str) -> None:
    admin = admin_of(broker)
    new_topic(admin, topic)
    commit(admin, topic, 5, 6)
    commit(admin, topic, 7)
    broker.kill()
    broker.restart()
    assert committed(admin_of(broker)) == {(topic, 0): 7, (topic, 1): 6}


def test_a_deleted_topic_takes_its_commits_along(broker: Broker, topic: str) -> None:
    admin = admin_of(broker)
    other = f"{topic}-other"
    for name in (topic, other):
        new_topic(admin, name)
        commit(admin, name, 5, 6)
    admin.delete_topics([topic])[topic].result(SECONDS)
    assert committed(admin) == {(other, 0): 5, (other, 1): 6}
    broker.restart()
    assert committed(admin_of(broker)) == {(other, 0): 5, (other, 1): 6}


def test_the_internal_topic_is_kafkas(broker: Broker, topic: str) -> None:
    admin = admin_of(broker)
    new_topic(admin, topic)
    assert "__consumer_offsets" not in admin.list_topics(timeout=SECONDS).topics
    commit(admin, topic, 5)
    assert len(admin.list_topics(timeout=SECONDS).topics["__consumer_offsets"].partitions) == 50
    resource = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets")
    configs = admin.describe_configs([resource])[resource].result(SECONDS)
    shown = {name: configs[name].value for name in ("cleanup.policy", "compression.type", "segment.bytes")}
    assert shown == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


def test_kafkas_own_tool_decodes_the_records(broker: Broker, topic: str, java_tool: None) -> None:
    admin = admin_of(broker)
    new_topic(admin, topic)
    commit(admin, topic, 5)
    admin.delete_consumer_groups([GROUP])[GROUP].result(SECONDS)
    broker.stop()
    folder = broker.data_dir / f"__consumer_offsets-{partition_for(GROUP, 50)}"
    run = java(
        "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(folder / ("0" * 20 + ".log"))
    )
    assert run.returncode == 0, run.stderr[-4000:]
    printed = run.stdout.decode()
    key = f'{{"type":"1","data":{{"group":"{GROUP}","topic":"{topic}","partition":0}}}}'
    assert f'key: {key} payload: {{"version":"4","data":{{"offset":5,' in printed
    assert f"key: {key} payload: <DELETE>" in printed
    assert f'key: {{"type":"2","data":{{"group":"{GROUP}"}}}} payload: <DELETE>' in printed

"""Three brokers of ours under a controller of Apache Kafka; topics have one replica, spread over the three."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.cluster.client import create, leaders, produce, read_all, read_in_group, until
from tests.cluster.kafka_controllers import CLUSTER_ID, KafkaControllers, tool
from tests.pages import Shell, block
from tests.ports import free_ports

RECORDS = 600


@pytest.fixture
def admin(brokers: dict[int, Broker]) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_of(brokers)})


def bootstrap_of(brokers: dict[int, Broker]) -> str:
    return ",".join(broker.bootstrap_servers for broker in brokers.values())


def test_every_broker_names_all_three(brokers: dict[int, Broker]) -> None:
    for broker in brokers.values():
        known = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).brokers
        assert {node_id: f"{one.host}:{one.port}" for node_id, one in known.items()} == {
            node_id: other.bootstrap_servers for node_id, other in brokers.items()
        }


def test_records_and_groups_of_librdkafka(brokers: dict[int, Broker], admin: AdminClient) -> None:
    found = create(admin, "rdkafka", 6)
    assert len(set(found.values())) > 1, "spread, if not evenly: a loaded broker may be fenced for a moment"
    sent = [f"value-{number}" for number in range(RECORDS)]
    for broker in brokers.values():  # whichever is asked first
        assert produce(broker.bootstrap_servers, "rdkafka", sent, 6) == RECORDS
    bootstrap = bootstrap_of(brokers)
    assert sorted(read_all(bootstrap, "rdkafka", 6, 3 * RECORDS)) == sorted(3 * sent)
    assert sorted(read_in_group(bootstrap, "rdkafka", "readers", 3 * RECORDS)) == sorted(3 * sent)


async def test_records_and_groups_of_aiokafka(brokers: dict[int, Broker], admin: AdminClient) -> None:
    await asyncio.to_thread(create, admin, "aio", 3)
    bootstrap = bootstrap_of(brokers)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            await producer.send("aio", str(number).encode(), partition=number % 3)
        await producer.flush()
    async with AIOKafkaConsumer(
        "aio", bootstrap_servers=bootstrap, group_id="aio-readers", auto_offset_reset="earliest"
    ) as consumer:
        values = {(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(RECORDS)}
    assert values == {str(number).encode() for number in range(RECORDS)}


def test_kafkas_own_tools_for_topics_and_configurations(brokers: dict[int, Broker]) -> None:
    bootstrap = "--bootstrap-server", bootstrap_of(brokers)
    topics, configs = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.ConfigCommand"
    tool(topics, *bootstrap, "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=100000")
    tool(configs, *bootstrap, "--alter", "--topic", "tools", "--add-config", "max.message.bytes=2000000")
    tool(topics, *bootstrap, "--alter", "--topic", "tools", "--partitions", "6")
    described = tool(topics, *bootstrap, "--describe", "--topic", "tools")
    assert "PartitionCount: 6" in described
    assert {"max.message.bytes=2000000", "retention.ms=100000"} <= set(re.split(r"[\s,]+", described))
    assert "dynamic" in tool(configs, *bootstrap, "--describe", "--topic", "tools").lower()
    tool(configs, *bootstrap, "--alter", "--broker", "2", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tool(configs, *bootstrap, "--describe", "--broker", "2")
    tool(configs, *bootstrap, "--alter", "--client", "some", "--add-config", "producer_byte_rate=100000")
    assert "producer_byte_rate=100000" in tool(configs, *bootstrap, "--describe", "--client", "some")
    tool(topics, *bootstrap, "--delete", "--topic", "tools")
    until(lambda: "tools" not in tool(topics, *bootstrap, "--list").split(), "the topic is gone")


def test_kafkas_own_tools_for_the_quorum_and_features(brokers: dict[int, Broker]) -> None:
    bootstrap = "--bootstrap-server", bootstrap_of(brokers)
    status = tool("org.apache.kafka.tools.MetadataQuorumCommand", *bootstrap, "describe", "--status")
    assert "LeaderId:               3000" in status
    for node_id in brokers:
        assert f'"id": {node_id}' in status
    assert "transaction.version" in tool("org.apache.kafka.tools.FeatureCommand", *bootstrap, "describe")


def test_a_request_of_a_client_is_refused_by_the_controllers_with_their_reason(admin: AdminClient) -> None:
    create(admin, "twice", 1)
    with pytest.raises(Exception, match="already exists"):
        create(admin, "twice", 1)
    with pytest.raises(Exception, match="replication factor"):
        create(admin, "too-many", 1, 5)


def test_a_topic_that_is_produced_to_is_made(brokers: dict[int, Broker], admin: AdminClient) -> None:
    assert produce(bootstrap_of(brokers), "made-on-use", ["one", "two"], 1) == 2
    assert read_all(bootstrap_of(brokers), "made-on-use", 1, 2) == ["one", "two"]


def test_a_killed_broker_comes_back_with_what_it_had(brokers: dict[int, Broker], admin: AdminClient) -> None:
    found = create(admin, "survives", 3)
    sent = [f"value-{number}" for number in range(RECORDS)]
    produce(bootstrap_of(brokers), "survives", sent, 3)
    lost = next(index for index, leader in found.items() if leader == 2)
    brokers[2].kill()
    until(lambda: lost not in leaders(admin, "survives"), "the controller has fenced the broker")
    brokers[2].start()
    until(lambda: leaders(admin, "survives") == found, "it leads again")
    assert sorted(read_all(bootstrap_of(brokers), "survives", 3, RECORDS)) == sorted(sent)


def test_a_broker_that_is_back_within_its_session_serves_nobody_before_it_is_registered(
    brokers: dict[int, Broker], admin: AdminClient
) -> None:
    """Accident: it would answer from an image in which its last run leads, with whatever its log has now."""
    create(admin, "session", 3)
    host, port = brokers[3].bootstrap_servers.split(":")
    before = epoch_of(brokers[3])
    brokers[3].kill()
    killed = time.monotonic()
    brokers[3].start()
    with socket.socket() as client:
        client.connect((host, int(port)))
    assert epoch_of(brokers[3]) > before
    assert brokers[3].log().count('"unfenced"') == brokers[3].log().count('"listening"') or (
        brokers[3].log().count("unfenced") == brokers[3].log().count("listening")
    )
    assert time.monotonic() - killed < 60


def epoch_of(broker: Broker) -> int:
    """The broker epoch of the newest run, from its log."""
    lines = [line for line in broker.log().splitlines() if "broker_epoch" in line and "registered" in line]
    return int(lines[-1].split("broker_epoch")[1].strip('":= ').split(",")[0].split()[0].strip('"'))


def test_a_clean_stop_keeps_the_copy_and_a_start_goes_on_from_it(
    brokers: dict[int, Broker], controllers: KafkaControllers, admin: AdminClient
) -> None:
    found = create(admin, "copied", 3)
    brokers[1].stop()
    copies = list((brokers[1].data_dir / "__cluster_metadata-0").glob("*.checkpoint"))
    assert copies
    brokers[1].start()
    until(lambda: leaders(admin, "copied") == found, "it leads again")
    brokers[1].stop()
    for copy in (brokers[1].data_dir / "__cluster_metadata-0").iterdir():
        copy.unlink()
    brokers[1].start()  # from nothing
    until(lambda: leaders(admin, "copied") == found, "it leads again")
    assert produce(bootstrap_of(brokers), "copied", ["one", "two", "three"], 3) == 3


def test_a_broker_with_the_settings_of_the_page_joins(
    controllers: KafkaControllers, brokers: dict[int, Broker], tmp_path: Path
) -> None:
    """docs/cluster.md, in the place of a reader who has the controllers."""
    (port,) = free_ports(1)
    instead = {
        "c1:9093,c2:9093,c3:9093": controllers.bootstrap,
        "//:9092": f"//127.0.0.1:{port}",
        "broker4:9092": f"127.0.0.1:{port}",
        "/var/lib/odradek": tmp_path / "data",
        "$ID": CLUSTER_ID,
    }
    shell = Shell(tmp_path, instead)
    shell.write("server.properties", block("docs/cluster.md", "node.id=4"))
    format_, serve = block("docs/cluster.md", "odradek format").splitlines()
    shell.run(format_)
    with shell.serving(f"ODRADEK_HTTP_PORT=-1 {serve}"):
        known = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=60).brokers
        assert sorted(known) == [*brokers, 4]

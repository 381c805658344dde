"""`odradek.testcontainers.KafkaContainer` stands in for testcontainers-python's: what its users do with it works."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from odradek.testcontainers import ONLY_CONTAINERS, KafkaContainer
from tests.ports import free_port

METHODS = """
copy_from_container copy_into_container create_file exec get_bootstrap_server get_container_host_ip get_container_id
get_container_info get_docker_client get_exposed_port get_logs get_wrapped_container maybe_emulate_amd64 reload start
status stop wait waiting_for with_bind_ports with_cluster_id with_command with_copy_into_container with_env
with_env_file with_envs with_exposed_ports with_kraft with_kwargs with_name with_network with_network_aliases
with_tmpfs_mount with_volume_mapping
"""
"""The public methods of KafkaContainer in testcontainers 4.15.0, but for the steps of its own start."""


def write_and_count(container: KafkaContainer) -> None:
    """What the library's own tests do."""
    server = container.get_bootstrap_server()
    producer = KafkaProducer(bootstrap_servers=[server])
    producer.send("test-topic", b"a message")
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=[server])
    partition = TopicPartition("test-topic", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning()
    assert consumer.end_offsets([partition])[partition] == 1
    consumer.close()


def test_the_librarys_own_tests() -> None:
    with KafkaContainer() as container:
        write_and_count(container)
    with KafkaContainer("confluentinc/cp-kafka:7.6.0").with_kraft() as container:
        assert container.kraft_enabled
        write_and_count(container)
    with KafkaContainer(port=9888) as container:
        assert container.port == 9888
        write_and_count(container)
        host, port = container.get_container_host_ip(), container.get_exposed_port(9888)
        assert container.get_bootstrap_server() == f"{host}:{port}"


def test_environment_variables_are_settings_and_those_of_a_container_are_not(tmp_path: Path) -> None:
    file = tmp_path / "kafka.env"
    file.write_text("# settings\nexport KAFKA_LOG_RETENTION_MS='7000'\n")
    container = (
        KafkaContainer(env={"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"})
        .with_env("KAFKA_NUM_PARTITIONS", 3)
        .with_envs(KAFKA_AUTO_CREATE_TOPICS_ENABLE="false", KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka:9092")
        .with_env_file(file)
        .with_cluster_id("MkU3OEVBNTcwNTJENDM2Qk")
        .with_exposed_ports(9093)
        .with_name("kafka")
    )
    assert container.status == "not_started"
    with container:
        assert (container.status, container.get_container_id().isdecimal()) == ("running", True)
        admin = AdminClient({"bootstrap.servers": container.get_bootstrap_server()})
        resource = ConfigResource(ResourceType.BROKER, "1")
        configs = admin.describe_configs([resource])[resource].result(30)
        names = ("num.partitions", "log.retention.ms", "auto.create.topics.enable")
        assert [configs[name].value for name in names] == ["3", "7000", "false"]
        assert admin.list_topics(timeout=30).cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
        assert b"started" in container.get_logs()[0]
        assert container.broker is not None
        assert container.broker.topic("t").partitions == 3
    assert container.status == "not_started"


def test_a_port_of_the_machine_can_be_chosen_and_a_stopped_one_starts_anew() -> None:
    port = free_port()
    container = KafkaContainer().with_bind_ports("9093/tcp", port).start(timeout=60)
    assert container.get_exposed_port("9093/tcp") == container.get_exposed_port(9092) == port
    write_and_count(container)
    container.stop()
    container.stop(force=True, delete_volume=True)
    with container:
        write_and_count(container)


def test_every_public_method_is_there_and_what_needs_a_container_says_so() -> None:
    container = KafkaContainer()
    for name in METHODS.split():
        if name in ONLY_CONTAINERS:
            with pytest.raises(NotImplementedError, match=f"{name} needs a container"):
                getattr(container, name)
        else:
            assert hasattr(container, name), name
    taken = list(inspect.signature(KafkaContainer.__init__).parameters)
    expected = ["self", "image", "port", "wait_strategy_check_string", "listener_name", "security_protocol", "kwargs"]
    assert taken == expected
    assert not hasattr(container, "with_nothing")


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="now called port"):
        KafkaContainer(port_to_expose=9093)
    with pytest.raises(ValueError, match="expected PLAINTEXT"):
        KafkaContainer(security_protocol="SSL")
    with pytest.raises(RuntimeError, match="not started"):
        KafkaContainer().get_bootstrap_server()
    with KafkaContainer() as container, pytest.raises(ValueError, match="expected 9093 or 9092"):
        container.get_exposed_port(8080)

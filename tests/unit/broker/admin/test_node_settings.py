"""The settings of each of several nodes on one machine (`serve --brokers 3`)."""

from __future__ import annotations

import pytest

from broker.admin.node_settings import CONTROLLER, all_settings, joining
from broker.config.broker_config import ConfigurationError
from broker.config.sources import load

CLUSTER_ID = "k2hLyQu2SZu2ZLwXKgnjPw"


def of(node_id: int, *settings: str, count: int = 3) -> dict[str, str]:
    given = all_settings(load(settings=settings), count)[node_id]
    if node_id != CONTROLLER:
        given = given | joining("127.0.0.1:9999", CLUSTER_ID)
    load(settings=(*settings, *(f"{name}={value}" for name, value in given.items())))  # the node itself takes them
    return given


def test_the_controller_is_a_node_of_its_own_and_the_brokers_join_it() -> None:
    nodes = all_settings(load(settings=["listeners=PLAINTEXT://127.0.0.1:9092"]), 3)
    assert list(nodes) == [CONTROLLER, 1, 2, 3]
    controller, third = (of(node_id, "listeners=PLAINTEXT://127.0.0.1:9092") for node_id in (CONTROLLER, 3))
    assert controller["process.roles"] == "controller"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:0"
    assert "odradek.cluster.id" not in controller
    assert third["process.roles"] == "broker"
    assert third["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert third["controller.quorum.bootstrap.servers"] == "127.0.0.1:9999"
    assert third["odradek.cluster.id"] == CLUSTER_ID
    assert [controller["node.id"], third["node.id"]] == ["3000", "3"]


def test_each_broker_has_a_folder_in_each_folder_and_the_controller_one() -> None:
    assert of(2, "log.dirs=/a,/b")["log.dirs"] == "/a/node-2,/b/node-2"
    assert of(CONTROLLER, "log.dirs=/a,/b")["log.dirs"] == "/a/controller"


def test_the_first_acls_are_the_controllers() -> None:
    settings = (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "odradek.create.acls=app READ TOPIC orders",
    )
    assert of(2, *settings)["odradek.create.acls"] == ""
    assert "odradek.create.acls" not in of(CONTROLLER, *settings)


def test_ports_follow_each_other() -> None:
    settings = (
        "listeners=PLAINTEXT://:9092,OTHER://[::1]:9093",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "advertised.listeners=PLAINTEXT://here:9092,OTHER://there:9093",
        "odradek.http.port=9404",
        "odradek.control=127.0.0.1:9500",
        "schema.registry.listeners=http://127.0.0.1:8081,https://[::1]:8082,http://127.0.0.1:0",
    )
    second = of(2, *settings)
    assert second["listeners"] == "PLAINTEXT://:9094,OTHER://[::1]:9095"
    assert second["advertised.listeners"] == "PLAINTEXT://here:9094,OTHER://there:9095"
    assert second["odradek.http.port"] == "9405"
    assert second["odradek.control"] == "127.0.0.1:9501"
    assert second["schema.registry.listeners"] == "http://127.0.0.1:8084,https://[::1]:8085,http://127.0.0.1:0"
    controller = of(CONTROLLER, *settings)
    assert controller["advertised.listeners"] == controller["listeners"] == "CONTROLLER://127.0.0.1:0"
    assert controller["odradek.http.port"] == "9407"
    assert controller["odradek.control"] == "127.0.0.1:9503"


def test_a_free_port_stays_one() -> None:
    second = of(2, "listeners=PLAINTEXT://127.0.0.1:0", "odradek.control=127.0.0.1:0")
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert not {"odradek.control", "odradek.http.port"} & second.keys()


def test_there_are_three_replicas_where_there_are_nodes_and_nobody_says_otherwise() -> None:
    assert of(1)["default.replication.factor"] == "3"
    assert of(1, count=2)["offsets.topic.replication.factor"] == "2"
    assert of(1, count=1)["transaction.state.log.min.isr"] == "1"
    assert of(1, count=2)["share.coordinator.state.topic.replication.factor"] == "2"
    assert of(1)["share.coordinator.state.topic.min.isr"] == "2"
    assert "default.replication.factor" not in of(1, "default.replication.factor=1")


@pytest.mark.parametrize(
    ("settings", "count", "said"),
    [
        (["node.id=4"], 3, "node.id: expected not to be set with --brokers"),
        (["process.roles=broker"], 3, "process.roles: expected not to be set"),
        ([], 0, "--brokers 0: expected 1 to 16"),
        ([], 17, "--brokers 17: expected 1 to 16"),
        (["listeners=PLAINTEXT://:65534"], 3, "port 65536: expected at most 65535"),
        (
            [
                "listeners=PLAINTEXT://:9092,OTHER://:9094",
                "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
            ],
            3,
            "listeners: expected ports that follow each other",
        ),
    ],
)
def test_what_cannot_be_is_said(settings: list[str], count: int, said: str) -> None:
    loaded = load(settings=settings)
    with pytest.raises(ConfigurationError, match=said):
        all_settings(loaded, count)

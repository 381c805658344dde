"""The settings of each of several nodes on one machine (`serve --brokers 3`)."""

from __future__ import annotations

import pytest

from broker.config.broker_config import ConfigurationError
from broker.config.sources import load
from broker.supervisor.node_settings import Joined, settings_of

JOINED = Joined("127.0.0.1:9999", "k2hLyQu2SZu2ZLwXKgnjPw")


def of(node_id: int, *settings: str, count: int = 3) -> dict[str, str]:
    given = settings_of(load(settings=settings), count, node_id, None if node_id == 1 else JOINED)
    load(settings=(*settings, *given))  # the node itself takes them
    return dict(one.split("=", 1) for one in given)


def test_the_first_node_is_the_controller_and_the_others_join_it() -> None:
    first, third = of(1, "listeners=PLAINTEXT://127.0.0.1:9092"), of(3, "listeners=PLAINTEXT://127.0.0.1:9092")
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:0"
    assert "odradek.cluster.id" not in first
    assert third["process.roles"] == "broker"
    assert third["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert third["controller.quorum.bootstrap.servers"] == JOINED.controller
    assert third["odradek.cluster.id"] == JOINED.cluster_id
    assert [first["node.id"], third["node.id"]] == ["1", "3"]


def test_each_node_has_a_folder_in_each_folder() -> None:
    assert of(2, "log.dirs=/a,/b")["log.dirs"] == "/a/node-2,/b/node-2"


def test_ports_follow_each_other() -> None:
    settings = (
        "listeners=PLAINTEXT://:9092,OTHER://[::1]:9093",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "advertised.listeners=PLAINTEXT://here:9092,OTHER://there:9093",
        "odradek.http.port=9404",
        "odradek.control=127.0.0.1:9500",
    )
    second = of(2, *settings)
    assert second["listeners"] == "PLAINTEXT://:9094,OTHER://[::1]:9095"
    assert second["advertised.listeners"] == "PLAINTEXT://here:9094,OTHER://there:9095"
    assert second["odradek.http.port"] == "9405"
    assert second["odradek.control"] == "127.0.0.1:9501"


def test_a_free_port_stays_one() -> None:
    second = of(2, "listeners=PLAINTEXT://127.0.0.1:0", "odradek.control=127.0.0.1:0")
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert not {"odradek.control", "odradek.http.port"} & second.keys()


def test_there_are_three_replicas_where_there_are_nodes_and_nobody_says_otherwise() -> None:
    assert of(1)["default.replication.factor"] == "3"
    assert of(1, count=2)["offsets.topic.replication.factor"] == "2"
    assert of(1, count=1)["transaction.state.log.min.isr"] == "1"
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
        for node_id in range(1, max(count, 1) + 1):
            settings_of(loaded, count, node_id)

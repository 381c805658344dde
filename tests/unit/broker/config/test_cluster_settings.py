"""The settings of a broker whose controllers are other nodes."""

from __future__ import annotations

import pytest

from broker.config.broker_config import ConfigurationError
from broker.config.controllers import ControllerAddress, controllers, inter_broker_listener
from tests.unit.broker.config.loading import load_text

BROKER = """\
process.roles=broker
node.id=4
controller.quorum.voters=3000@127.0.0.1:9093, 3001@[::1]:9094
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092
"""

CONTROLLER = """\
process.roles=controller
node.id=3000
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:9093
"""


def test_a_broker_alone_that_names_controllers_is_in_a_cluster() -> None:
    config = load_text(BROKER).config
    assert config.is_in_cluster
    assert controllers(config) == (
        ControllerAddress("127.0.0.1", 9093, 3000),
        ControllerAddress("::1", 9094, 3001),
    )
    assert inter_broker_listener(config) == "PLAINTEXT"


def test_bootstrap_servers_have_no_ids() -> None:
    text = BROKER.replace("controller.quorum.voters=3000@127.0.0.1:9093, 3001@[::1]:9094", "") + (
        "controller.quorum.bootstrap.servers=a:1,b:2\n"
    )
    config = load_text(text).config
    assert config.is_in_cluster
    assert [str(each) for each in controllers(config)] == ["a:1", "b:2"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "process.roles=broker\n",
        "process.roles=broker,controller\ncontroller.quorum.voters=1@127.0.0.1:9093\ncontroller.listener.names=C\n",
    ],
)
def test_other_nodes_stand_alone(text: str) -> None:
    assert not load_text(text).config.is_in_cluster


COMBINED = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://kafka1:9092,CONTROLLER://kafka1:9093
"""


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            "controller.quorum.voters=1@kafka1:9093,2@kafka2:9093,3@kafka3:9093",
            "controller.quorum.voters: expected node 1, this one, alone: there is no quorum of several here",
        ),
        ("controller.quorum.voters=2@kafka2:9093", "expected node 1, this one, alone"),
        (
            "controller.quorum.bootstrap.servers=kafka1:9093,kafka2:9093",
            "controller.quorum.bootstrap.servers: expected this node alone: there is no quorum of several here",
        ),
        ("controller.quorum.voters=kafka1:9093", "expected id@host:port"),
    ],
)
def test_combined_nodes_are_not_several_clusters_unnoticed(more: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_text(COMBINED + more)
    assert complaint in str(refused.value)
    with pytest.raises(ConfigurationError) as refused:  # process.roles is forgotten
        load_text(f"node.id=1\n{more}")
    assert complaint in str(refused.value)


@pytest.mark.parametrize(
    ("servers", "seems_other"),
    [("kafka1:9093", False), ("localhost:9093", False), ("kafka2:9093", True), ("kafka1:9094", True)],
)
def test_a_bootstrap_server_that_may_be_another_node_is_warned_of(servers: str, *, seems_other: bool) -> None:
    warnings = load_text(f"{COMBINED}controller.quorum.bootstrap.servers={servers}").warnings
    assert [servers in line and "process.roles=broker" in line for line in warnings] == [True] * seems_other


def test_a_combined_node_that_names_itself_stands_alone() -> None:
    assert load_text(f"{COMBINED}controller.quorum.voters=1@kafka1:9093").warnings == ()


def test_a_controller_alone_needs_no_listener_for_clients() -> None:
    loaded = load_text(CONTROLLER)
    assert not loaded.config.is_broker
    assert not loaded.config.is_in_cluster
    assert loaded.listeners.bound == loaded.listeners.advertised == ()
    assert [str(each) for each in loaded.listeners.controllers] == ["CONTROLLER://127.0.0.1:9093"]
    assert loaded.warnings == ()
    own = "controller.quorum.voters=3000@127.0.0.1:9093\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    assert load_text(CONTROLLER + own).listeners == loaded.listeners


@pytest.mark.parametrize(
    ("given", "instead", "complaint"),
    [
        ("node.id=3000", "", "node.id is not set: expected a number of its own"),
        ("controller.listener.names=CONTROLLER", "", "controller.listener.names is not set"),
        (
            "listeners=CONTROLLER://127.0.0.1:9093",
            "listeners=CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092",
            "since process.roles is controller alone; PLAINTEXT://127.0.0.1:9092 is another",
        ),
        ("listeners=CONTROLLER://127.0.0.1:9093", "", "expected one of controller.listener.names"),
        (
            "node.id=3000",
            "node.id=3000\ncontroller.quorum.voters=3000@a:9093,3001@b:9093",
            "controller.quorum.voters: expected node 3000, this one, alone",
        ),
        (
            "node.id=3000",
            "node.id=3000\ncontroller.quorum.bootstrap.servers=a:9093,b:9093",
            "controller.quorum.bootstrap.servers: expected this node alone",
        ),
    ],
)
def test_what_a_controller_alone_cannot_have(given: str, instead: str, complaint: str) -> None:
    assert given in CONTROLLER
    with pytest.raises(ConfigurationError) as refused:
        load_text(CONTROLLER.replace(given, instead))
    assert complaint in str(refused.value)


def test_internal_topics_have_kafkas_replicas_in_a_cluster() -> None:
    config = load_text(BROKER).config
    alone = load_text("").config
    prefixes = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    for name in (f"{prefix}.replication.factor" for prefix in prefixes):
        assert (config.integer(name), alone.integer(name)) == (3, 1)
        assert load_text(BROKER + f"{name}=1\n").config.integer(name) == 1
    for name in (f"{prefix}.min.isr" for prefix in prefixes[1:]):
        assert (config.integer(name), alone.integer(name)) == (2, 1)


@pytest.mark.parametrize(
    ("given", "instead", "complaint"),
    [
        ("node.id=4", "", "node.id is not set: expected a number of its own"),
        ("node.id=4", "node.id=3000", "expected other nodes than this, node 3000"),
        ("3001@[::1]:9094", "[::1]:9094", "expected id@host:port, which '[::1]:9094' is not"),
        ("3001@[::1]:9094", "3001@somewhere", "expected id@host:port, which '3001@somewhere' is not"),
        ("3001@[::1]:9094", "3001@somewhere:0", "expected id@host:port"),
        ("controller.listener.names=CONTROLLER", "", "controller.listener.names is not set"),
        (
            "controller.listener.names=CONTROLLER",
            "controller.listener.names=SASL_SSL",
            "sasl.mechanism.controller.protocol = 'GSSAPI': expected one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            "controller.listener.names=CONTROLLER",
            "controller.listener.names=C\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT",
            "expected it to have a protocol in listener.security.protocol.map",
        ),
        (
            "listeners=PLAINTEXT://127.0.0.1:9092",
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "expected none that controller.listener.names has",
        ),
        (
            "node.id=4",
            "node.id=4\ninter.broker.listener.name=INSIDE",
            "inter.broker.listener.name = 'INSIDE': expected one of the advertised listeners, PLAINTEXT",
        ),
        (
            "node.id=4",
            "node.id=4\ninter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT",
            "expected it not to be set together with inter.broker.listener.name",
        ),
        (
            "listeners=PLAINTEXT://127.0.0.1:9092",
            "listeners=SASL_SSL://127.0.0.1:9092\nsecurity.inter.broker.protocol=SASL_SSL\n"
            "sasl.mechanism.inter.broker.protocol=PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config: expected a login module with username and password",
        ),
        (
            "node.id=4",
            "node.id=4\nbroker.heartbeat.interval.ms=5000",
            "broker.heartbeat.interval.ms = 5000: expected at most half of broker.session.timeout.ms, 9000",
        ),
    ],
)
def test_what_kafka_refuses(given: str, instead: str, complaint: str) -> None:
    assert given in BROKER
    with pytest.raises(ConfigurationError) as refused:
        load_text(BROKER.replace(given, instead))
    assert complaint in str(refused.value)

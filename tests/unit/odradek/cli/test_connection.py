"""How a command reaches a cluster, and why no broker lets a client in, from what librdkafka says about each."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError

from odradek.cli import connection
from odradek.cli.connection import Reasons, TargetCluster

V4, V6 = SimpleNamespace(host="127.0.0.1", port=9092), SimpleNamespace(host="2001:db8::5", port=9093)


@pytest.mark.parametrize(
    ("controller", "nodes", "address"),
    [(V4, [V6], "127.0.0.1:9092"), (V6, [V4], "[2001:db8::5]:9093"), (None, [V6], "[2001:db8::5]:9093")],
)
def test_an_ipv6_address_has_brackets_and_a_cluster_without_a_controller_is_asked_by_any_broker(
    controller: SimpleNamespace | None, nodes: list[SimpleNamespace], address: str
) -> None:
    reached = None, SimpleNamespace(controller=controller, nodes=nodes)
    with patch.object(TargetCluster, "_reached", reached), patch.object(connection, "takes_connections", bool):
        config = TargetCluster({"bootstrap.servers": "localhost:9092"}, 5).python_config()
    assert config["bootstrap_servers"] == [address]


def test_a_broker_that_takes_no_connection_is_not_begun_with() -> None:
    reached = None, SimpleNamespace(controller=V4, nodes=[V4, V6])
    for there, address in ((V6, "[2001:db8::5]:9093"), (None, "127.0.0.1:9092")):
        with (
            patch.object(TargetCluster, "_reached", reached),
            patch.object(connection, "takes_connections", there.__eq__),
        ):
            config = TargetCluster({"bootstrap.servers": "localhost:9092"}, 5).python_config()
        assert config["bootstrap_servers"] == [address]


ONE, TWO = "sasl_ssl://one:9092/bootstrap: ", "sasl_ssl://two:9093/bootstrap: "
PASSWORD = "SASL authentication error: Authentication failed (after 100ms in state AUTH_REQ)"
REFUSED = "Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT, 3 identical errors)"
CLOSED = "Disconnected: connection closed by peer: receive 0 after POLLIN (after 0ms in state APIVERSION_QUERY)"


def reasons(servers: str = "one,two:9093", protocol: str = "SASL_SSL") -> Reasons:
    return Reasons({"bootstrap.servers": servers, "security.protocol": protocol})


def tell(heard: Reasons, code: int, text: str) -> None:
    error: Any = KafkaError(code, text)
    heard.error(error)


def log(heard: Reasons, text: str) -> None:
    line = f"FAIL [rdkafka#producer-1] [thrd:x]: {text}"
    heard.handle(logging.LogRecord("odradek-cli", logging.INFO, "", 0, line, (), None))


def test_it_is_hopeless_once_each_broker_failed_and_one_for_good() -> None:
    heard = reasons()
    tell(heard, KafkaError._AUTHENTICATION, ONE + PASSWORD)
    assert not heard.hopeless, "the other may let it in"
    tell(heard, KafkaError._TRANSPORT, TWO + REFUSED)
    assert heard.hopeless
    assert str(heard).startswith("one:9092: SASL authentication error: Authentication failed (-X sasl.mechanism, ")
    assert "; two:9093: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (" in str(heard)


def test_a_refused_connection_may_be_a_broker_that_starts() -> None:
    heard = reasons("one")
    for _ in range(9):
        tell(heard, KafkaError._TRANSPORT, ONE + REFUSED)
    assert not heard.hopeless and "Connection refused" in str(heard)


@pytest.mark.parametrize(
    ("protocol", "state", "hint"),
    [
        ("PLAINTEXT", "APIVERSION_QUERY", "may be one of TLS"),
        ("SASL_PLAINTEXT", "APIVERSION_QUERY", "may be one of TLS"),
        ("PLAINTEXT", "UP", "may want a login"),
        ("SSL", "UP", "may want a login"),
        ("SSL", "SSL_HANDSHAKE", "may be one without TLS"),
    ],
)
def test_a_connection_that_is_closed_twice_without_a_word_is_an_answer(protocol: str, state: str, hint: str) -> None:
    heard = reasons("one", protocol)
    for hopeless in (False, True):
        log(heard, ONE + CLOSED.replace("APIVERSION_QUERY", state))
        assert heard.hopeless is hopeless
    assert hint in str(heard)


def test_a_client_without_a_token_is_told_so() -> None:
    heard = Reasons({"bootstrap.servers": "one", "sasl.mechanism": "OAUTHBEARER"})
    assert "OAUTHBEARER has no token" in str(heard)

"""`odradek` where a cluster refuses: a login, TLS, or one of several things."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import KafkaException, Producer

from odradek import Broker
from tests.brokers import sound_broker
from tests.command_line import Odradek, on_a_terminal

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "sasl.enabled.mechanisms": "PLAIN",
}
PATIENT = ("--timeout", "300")
"""Longer than a command may take here: what waits for it fails the test."""


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker(SETTINGS, security="SASL_SSL", users={"admin": "secret", "app": "secret"}) as broker:
        yield broker


def settings(broker: Broker, user: str, changed: Mapping[str, str | None]) -> list[str]:
    """-X with the security settings of a client; those that are None are left out."""
    config = {**broker.client_config("confluent", user=user), **changed}
    named = {k: v for k, v in config.items() if k.startswith(("security", "sasl", "ssl")) and v is not None}
    return [word for name, value in named.items() for word in ("-X", f"{name}={value}")]


@pytest.mark.parametrize("command", [("topics", "list"), ("doctor",)])
@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"sasl.password": "wrong"}, "Invalid username or password"),
        ({"sasl.mechanism": "SCRAM-SHA-512"}, "Unsupported SASL mechanism: broker's supported mechanisms: PLAIN"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "the listener may be one of TLS"),
        ({"ssl.ca.location": None}, "certificate could not be verified"),
        (
            {"security.protocol": "SSL", "sasl.mechanism": None, "sasl.username": None, "sasl.password": None},
            "the listener may want a login",
        ),
    ],
    ids=["password", "mechanism", "plaintext-to-tls", "unknown-authority", "no-login"],
)
def test_why_a_client_is_not_let_in_is_said_at_once(
    broker: Broker, command: tuple[str, ...], changed: Mapping[str, str | None], cause: str
) -> None:
    odradek = Odradek(broker.bootstrap_servers)
    status, _, error = odradek.run(*command, *PATIENT, *settings(broker, "admin", changed))
    assert (status, cause in error) == (1, True), error


def test_a_name_without_address_is_said_at_once() -> None:
    status, _, error = Odradek("no-such-host.invalid:9092").run("topics", "list", *PATIENT)
    assert (status, "Failed to resolve 'no-such-host.invalid" in error) == (1, True), error


def test_a_person_is_told_at_once_that_a_command_waits_for_a_broker() -> None:
    command = ("-b", "127.0.0.1:1", "--timeout", "1.5", "topics", "list")
    waits = "no broker answers at 127.0.0.1:1 yet; waiting"
    assert on_a_terminal(*command).decode().startswith(waits)
    assert waits not in Odradek("127.0.0.1:1").run("--timeout", "1.5", "topics", "list")[2], "a program is not told"


def test_tls_to_a_listener_without_it_is_said_at_once() -> None:
    with sound_broker() as plain:
        odradek = Odradek(plain.bootstrap_servers)
        status, _, error = odradek.run("topics", "list", *PATIENT, "-X", "security.protocol=SSL")
    assert (status, "the listener may be one without TLS" in error) == (1, True), error


def test_a_group_that_is_refused_does_not_hide_another(broker: Broker) -> None:
    odradek = Odradek(broker.bootstrap_servers)
    admin, app = settings(broker, "admin", {}), settings(broker, "app", {})
    odradek.told("topics", "create", "open", "closed", "-p", "1", *admin)
    for topic, group in (("open", "seen"), ("closed", "unseen")):
        odradek.told("produce", topic, "x", *admin)
        odradek.told("consume", topic, "-g", group, "-e", *admin)
    rule = ("acls", "add", "--principal", "User:app", *admin)
    odradek.told(*rule, "--operation", "describe", "--operation", "read", "--topic", "open", "--group", "seen")
    status, out, error = odradek.run("groups", "describe", "unseen", "seen", "--json", *app)
    seen, unseen = json.loads(out)
    assert (status, seen["group"], seen["offsets"][0]["lag"]) == (1, "seen", 0)
    assert (unseen["group"], unseen["error"]) == ("unseen", "GROUP_AUTHORIZATION_FAILED")
    assert "group unseen: GROUP_AUTHORIZATION_FAILED" in error
    status, out, error = odradek.run("consume", "closed", "open", "-e", *app)
    assert (status, out, "topic closed: TOPIC_AUTHORIZATION_FAILED" in error) == (1, "x\n", True), error
    odradek.told("acls", "add", "--principal", "User:app", *admin, "--operation", "write", "--topic", "open")
    odradek.told("bench", "latency", "open", "-n", "2", *app)
    assert odradek.told("bench", "consume", "open", "--seconds", "60", *app).startswith("3 records")
    status, out, error = odradek.run("topics", "describe", "open", *app)  # whose configurations need another rule
    assert (status, out.splitlines()[-1].split()[-1]) == (1, "3"), out
    assert "configurations open: TOPIC_AUTHORIZATION_FAILED" in error


def test_a_transaction_is_aborted_where_the_broker_allows_only_short_ones() -> None:
    with Broker({"transaction.max.timeout.ms": "2000"}) as broker:
        broker.topic("paid", partitions=1)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "transactional.id": "payer",
                "transaction.timeout.ms": 1500,
            }
        )
        producer.init_transactions(30)
        odradek = Odradek(broker.bootstrap_servers)
        odradek.told("transactions", "abort", "payer")
        (found,) = odradek.json("transactions", "describe", "payer")
        assert found["timeout_ms"] == 1500
        with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
            producer.begin_transaction()
            producer.produce("paid", b"never")
            producer.commit_transaction(30)

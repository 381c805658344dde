"""Listeners: what is bound, what is advertised, what is refused as Kafka refuses it."""

from __future__ import annotations

import pytest

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.listeners import Listener, Listeners, parse_listeners
from broker.config.sources import load
from tests.unit.broker.config.loading import load_text


def listeners(text: str, **more: str) -> Listeners:
    named = {name.replace("_", "."): value for name, value in more.items()}
    return parse_listeners(BrokerConfig.of({"listeners": text, **named}))


TWO = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"}


def test_the_default_is_loopback_alone() -> None:
    assert load().listeners.bound == (Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://localhost:0", "localhost", 0),
        ("plaintext://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        (" PLAINTEXT://a_b:1 ", "a_b", 1),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert listeners(text).bound == (Listener("PLAINTEXT", "PLAINTEXT", host, port),)


def test_ports_may_be_shared_by_one_ipv4_and_one_ipv6_address_or_be_any() -> None:
    assert len(listeners("A://127.0.0.1:9092,B://[::1]:9092", **TWO).bound) == 2
    assert len(listeners("A://a:0,B://b:0", **TWO).bound) == 2


def test_a_name_may_have_any_protocol_that_is_served() -> None:
    assert [(x.name, x.protocol) for x in listeners("A://a:1,B://b:2", **TWO).bound] == [
        ("A", "PLAINTEXT"),
        ("B", "PLAINTEXT"),
    ]


@pytest.mark.parametrize(
    ("text", "more", "complaint"),
    [
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", {}, "a different name"),
        ("A://a:9092,B://b:9092", TWO, "a different port"),
        ("A://127.0.0.1:9092,B://127.0.0.2:9092", TWO, "a different port"),
        ("FOO://a:1", {}, "expected FOO to have a protocol"),
        ("PLAINTEXT://a", {}, "NAME://host:port"),
        ("PLAINTEXT://a:99999", {}, "NAME://host:port"),
        ("PLAINTEXT://a:" + "9" * 5000, {}, "NAME://host:port"),
        ("", {}, "expected one that"),
        ("PLAINTEXT://0.0.0.0:9092", {}, "0.0.0.0"),
        ("A://a:1", {"listener_security_protocol_map": "A:FOO"}, "PROTOCOL one of"),
        ("A://a:1", {"listener_security_protocol_map": "A"}, "PROTOCOL one of"),
        ("PLAINTEXT://a:1", {"advertised_listeners": ""}, "at least one listener"),
        ("PLAINTEXT://a:1", {"advertised_listeners": "SSL://a:1"}, "names out of PLAINTEXT"),
        ("PLAINTEXT://a:1", {"advertised_listeners": "PLAINTEXT://a:1,PLAINTEXT://b:1"}, "a different name"),
        ("PLAINTEXT://a:1", {"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "0.0.0.0"),
    ],
)
def test_what_is_refused(text: str, more: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        listeners(text, **more)


def test_controller_listeners_are_those_of_a_controller_and_else_left_out_with_a_warning() -> None:
    settings = "listeners=PLAINTEXT://a:1,CONTROLLER://a:2\ncontroller.listener.names=CONTROLLER\n"
    loaded = load_text("process.roles=broker,controller\n" + settings)
    assert [x.name for x in loaded.listeners.bound] == ["PLAINTEXT"]
    assert [str(x) for x in loaded.listeners.controllers] == ["CONTROLLER://a:2"]
    assert loaded.warnings == ()
    loaded = load_text("process.roles=broker\n" + settings)
    assert not loaded.listeners.controllers
    assert loaded.warnings == ("there is no controller here: CONTROLLER://a:2 is not opened",)


def test_advertised_addresses_take_the_bound_port_and_the_machines_name() -> None:
    found = listeners("A://:0,B://[::1]:2", **TWO)
    resolved = found.resolve({"A": 5000, "B": 2}, "here")
    assert {name: str(listener) for name, listener in resolved.items()} == {"A": "A://here:5000", "B": "B://[::1]:2"}


def test_advertised_listeners_may_leave_some_out() -> None:
    found = listeners("A://a:1,B://b:2", advertised_listeners="B://outside:7", **TWO)
    assert [str(x) for x in found.advertised] == ["B://outside:7"]
    assert len(found.bound) == 2

"""Settings about who may come to the HTTP port: trusted proxies, and whose users log in at the console."""

from __future__ import annotations

import pytest

from broker.config.sources import load
from broker.config.structured import trusted_proxies
from tests.unit.broker.config.test_sources import problems

LISTENERS = """
listeners=OUTSIDE://:9092,INSIDE://:9093,PLAIN://:9094,BOTH://:9095
listener.security.protocol.map=OUTSIDE:SASL_PLAINTEXT,INSIDE:SASL_PLAINTEXT,PLAIN:PLAINTEXT,BOTH:SASL_SSL
inter.broker.listener.name=INSIDE
sasl.enabled.mechanisms=SCRAM-SHA-256
listener.name.both.ssl.client.auth=required
"""


def test_proxies_are_addresses_and_networks() -> None:
    config = load([("file", "odradek.http.trusted.proxies=10.0.0.1, 192.0.2.7/24,fd00::/8")]).config
    assert [str(each) for each in trusted_proxies(config)] == ["10.0.0.1/32", "192.0.2.0/24", "fd00::/8"]


@pytest.mark.parametrize("text", ["proxy", "10.0.0.1/33", "*", "10.0.0"])
def test_other_proxies_stop_the_start(text: str) -> None:
    (line,) = problems(f"odradek.http.trusted.proxies={text}")
    assert line == f"odradek.http.trusted.proxies = {text!r}: expected an address or a network such as 10.0.0.0/8"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("inside", "it is for brokers"),
        ("PLAIN", "its clients have no passwords"),
        ("BOTH", "its clients have to show certificates"),
        ("ELSEWHERE", "there is no such listener"),
    ],
)
def test_a_listener_whose_users_never_log_in_at_the_console_stops_the_start(name: str, why: str) -> None:
    found = [
        line for line in problems(LISTENERS + f"odradek.console.login.listeners=OUTSIDE,{name}") if "login" in line
    ]
    assert found == [
        f"odradek.console.login.listeners = {name!r}: expected a listener whose users have passwords; {why}"
    ]


def test_the_only_listener_is_for_clients_too() -> None:
    text = "listeners=SASL_PLAINTEXT://:9092\nsecurity.inter.broker.protocol=SASL_PLAINTEXT\n"
    lines = problems(f"{text}sasl.enabled.mechanisms=SCRAM-SHA-256\nodradek.console.login.listeners=OTHER")
    assert [line for line in lines if "login" in line] == [
        "odradek.console.login.listeners = 'OTHER': expected a listener whose users have passwords; there is no such "
        "listener"
    ]
    load([("file", f"{text}sasl.enabled.mechanisms=SCRAM-SHA-256\nodradek.console.login.listeners=sasl_plaintext")])

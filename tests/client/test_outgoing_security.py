"""A node's own connections to others, over TLS and SASL: to a broker of ours, as its replicas' fetchers open them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.metadata.v12 import MetadataRequest

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.config.controllers import INTER_BROKER_MECHANISM, MECHANISMS
from broker.config.listener_settings import MODULES
from broker.config.listeners import Listener
from broker.peers.call import PeerAuthenticationError, PeerUnreachableError, entity_call
from broker.peers.client import PeerClient, PeerNetwork, PeerSettings, ask_versions
from broker.security.as_client import secured
from odradek import Broker
from storage.workers import ThreadWorkers
from tests.brokers import sound_broker
from timing.clock import SystemClock

NAME, PASSWORD = "node=1,a", "seçret"
CALL = entity_call(
    MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
)


@pytest.fixture(scope="module")
def other() -> Iterator[Broker]:
    with sound_broker({"connections.max.reauth.ms": 2000}, security="SASL_SSL", users={NAME: PASSWORD}) as broker:
        yield broker


def jaas(mechanism: str, password: str) -> str:
    return f'{MODULES[mechanism]} required username="{NAME}" password="{password}";'


def settings(other: Broker, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(other.ca_file),
        INTER_BROKER_MECHANISM: mechanism,
        f"listener.name.sasl_ssl.{mechanism.lower()}.sasl.jaas.config": jaas(mechanism, password),
    }


def ask(other: Broker, config: dict[str, str], *, protocol: str = "SASL_SSL", seconds: float = 0) -> list[int]:
    """The answers' brokers, of as many requests as are answered in that time, one at least."""

    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        workers = ThreadWorkers(loop)
        network = PeerNetwork(SystemClock(loop), random.SystemRandom())
        listener = Listener("SASL_SSL", protocol, "", 0)
        current = CurrentConfig(BrokerConfig.of(config))
        network = secured(network, current, listener, workers, INTER_BROKER_MECHANISM)
        host, _, port = other.bootstrap_servers.rpartition(":")
        client = PeerClient(host, int(port), PeerSettings("node"), network, ask_versions)
        answers: list[Any] = []
        try:
            end = loop.time() + seconds
            while not answers or loop.time() < end:
                answers += await asyncio.gather(*(client.send(CALL) for _ in range(3)))
                await asyncio.sleep(0.01)
        finally:
            client.close()
            workers.close()
        return [len(answer.brokers) for answer in answers]

    return asyncio.run(run())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_node_logs_in(other: Broker, mechanism: str) -> None:
    assert set(ask(other, settings(other, mechanism))) == {1}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused(other: Broker, mechanism: str) -> None:
    with pytest.raises(PeerAuthenticationError, match="refuses node=1,a: Authentication failed"):
        ask(other, settings(other, mechanism, "wrong"))


def test_a_mechanism_that_is_not_served_is_named() -> None:
    only = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with sound_broker(only, security="SASL_PLAINTEXT", users={NAME: PASSWORD}) as broker:
        config = {INTER_BROKER_MECHANISM: "PLAIN", "sasl.jaas.config": jaas("PLAIN", PASSWORD)}
        with pytest.raises(PeerAuthenticationError, match="does not take PLAIN: it has SCRAM-SHA-256"):
            ask(broker, config, protocol="SASL_PLAINTEXT")


def test_an_unknown_authority_is_not_trusted(other: Broker) -> None:
    config = settings(other, "PLAIN")
    del config["ssl.truststore.type"], config["ssl.truststore.location"]
    with pytest.raises(PeerUnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(other, config)


def test_a_missing_truststore_is_named(other: Broker) -> None:
    config = settings(other, "PLAIN") | {"ssl.truststore.location": "/no/such"}
    with pytest.raises(PeerUnreachableError, match="/no/such"):
        ask(other, config)


def test_connections_are_replaced_before_their_session_is_over(other: Broker) -> None:
    """Requests that were sent before are answered, and none is refused."""
    before = other.log().count("the session is over")
    answers = ask(other, settings(other, "SCRAM-SHA-512"), seconds=5)
    assert len(answers) > 30
    assert other.log().count("the session is over") == before

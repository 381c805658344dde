"""A client that shows who it is gets Kafka's recorded answer at every step: SASL, sessions, TLS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import sound_broker
from tests.conformance.authentication.every import CONVERSATIONS, recorded
from tests.conformance.authentication.settings import LISTENERS, Certificates, add_scram_users
from tests.conformance.authentication.talk import play
from tests.conformance.transcripts import differences


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ports(certificates: Certificates) -> Iterator[dict[str, int]]:
    listeners = ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *LISTENERS))
    with sound_broker(certificates.settings() | {"listeners": listeners}) as broker:
        add_scram_users(broker.listeners["PLAINTEXT"])
        yield {name: int(address.rpartition(":")[2]) for name, address in broker.listeners.items()}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_as_kafka_does(name: str, ports: dict[str, int], certificates: Certificates) -> None:
    got = play(CONVERSATIONS[name], ports, certificates)
    found = differences(recorded()[name], got)
    assert not found, "\n".join(found)


def test_every_recorded_conversation_is_still_held() -> None:
    assert recorded().keys() == CONVERSATIONS.keys()

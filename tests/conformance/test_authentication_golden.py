"""A client that shows who it is gets Kafka's recorded answer at every step: SASL, sessions, TLS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


UNKNOWN = ("an unknown user", "a user of the other mechanism", "an unknown token", "a user's name as a token")
"""Whom Kafka refuses at the first message of SCRAM. Here nobody sees who exists: they are refused as for a password."""


def expected(name: str) -> dict[str, Any]:
    steps = recorded()[name]
    if name == "scram":
        assert all(f"{one}: final" not in steps for one in UNKNOWN)
        answers = {part: steps[f"a wrong password: {part}"] for part in ("first", "final")}
        steps |= {f"{one}: {part}": answer for one in UNKNOWN for part, answer in answers.items()}
    return steps


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_as_kafka_does(name: str, ports: dict[str, int], certificates: Certificates) -> None:
    got = play(CONVERSATIONS[name], ports, certificates)
    found = differences(expected(name), got)
    assert not found, "\n".join(found)


def test_every_recorded_conversation_is_still_held() -> None:
    assert recorded().keys() == CONVERSATIONS.keys()

"""Every API, asked by every kind of user, is answered as a real Kafka with the same ACLs answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocol.api.table import API_TABLE, OWN_TABLE
from tests.brokers import sound_broker
from tests.conformance.authorization.every import QUESTIONS, Answers, matrix, recorded
from tests.conformance.authorization.world import SETTINGS, USERS, World
from tests.conformance.deviations import names_what_is_wrong

NOT_ASKED = {
    "sasl_handshake": "spoken before the client is known: tests/conformance/authentication",
    "sasl_authenticate": "spoken before the client is known: tests/conformance/authentication",
    "explain": "Kafka has it not: tests/unit/broker/test_operator_requests.py",
    "create_backup": "Kafka has it not: tests/unit/broker/test_operator_requests.py",
    "ask_registry": "Kafka has it not: tests/unit/broker/registry/test_cluster.py",
}
"""APIs that have no question here, and why."""


WRONG = {"create_acls of any type", "create_acls with a pattern for filters", "create_acls of any operation"}
"""What makes Kafka throw, if it gets so far: here the error is INVALID_REQUEST."""


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    with sound_broker(SETTINGS | {"listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0"}) as broker:
        world = World(int(broker.listeners["SASL"].rpartition(":")[2]))
        world.make()
        yield matrix(world)


@pytest.mark.parametrize("title", QUESTIONS)
def test_everybody_is_answered_as_by_kafka(title: str, answers: Answers) -> None:
    if title in WRONG:
        assert names_what_is_wrong(recorded()[title], answers[title])
        assert any("42 INVALID_REQUEST" in given for given in answers[title].values())
    else:
        assert answers[title] == recorded()[title]


def test_every_question_was_put_to_kafka_as_every_user() -> None:
    assert {title: set(by_user) for title, by_user in recorded().items()} == {title: set(USERS) for title in QUESTIONS}


def test_every_api_of_the_table_has_a_question() -> None:
    assert {asked.api for asked in QUESTIONS.values()} | set(NOT_ASKED) == {
        api.name for api in (*API_TABLE, *OWN_TABLE)
    }
    assert not {asked.api for asked in QUESTIONS.values()} & set(NOT_ASKED)

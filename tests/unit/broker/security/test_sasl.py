"""SASL in virtual time: when refusals come, what a stranger may send, what is logged. The answers are Kafka's recorded
ones (`tests/conformance/authentication`).
"""

from __future__ import annotations

import re
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from broker.network.request import USER, CloseConnectionError, Principal
from broker.security.sasl import conversations as oauthbearer
from broker.security.sasl import conversations as scram
from broker.security.sasl.authenticator import MOST_TOKEN_BYTES
from broker.security.sasl.conversations import (
    AuthenticationError,
    BadTokenError,
    Challenge,
    Conversation,
    OAuthBearerConversation,
    PlainConversation,
    ScramConversation,
    Success,
    Token,
)
from broker.security.sources import ScramCredential
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, sized

DELAY_MS, REAUTH_MS = 100, 10_000
CONFIG = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="geheim" user_bob="bobs";'
    ),
    "listener.name.sasl.plain.connections.max.reauth.ms": str(REAUTH_MS),
    "listener.name.sasl.plain.connection.failed.authentication.delay.ms": "5",
}
METADATA: dict[str, Any] = {
    "topics": (),
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
ALICE = b"\0alice\0geheim"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig(config=CONFIG) as one:
        await one.secure("SASL", "SASL_PLAINTEXT")
        yield one


async def shaken(rig: Rig, version: int = 1) -> Client:
    client = rig.connect(listener="SASL")
    done = await client.ask("sasl_handshake", version, mechanism="PLAIN")
    assert done.error_code.name == "none"
    return client


async def test_who_is_known_is_told_for_how_long(rig: Rig) -> None:
    client = await shaken(rig)
    done = await client.ask("sasl_authenticate", 2, auth_bytes=ALICE)
    assert done.session_lifetime.total_seconds() * 1000 == REAUTH_MS
    assert client.connection.principal == Principal(USER, "alice")
    assert not client.connection.principal.token_authenticated
    assert rig.node.local.security.attempts == {("SASL", "PLAIN", True): 1}


async def test_connection_failed_authentication_delay_ms_holds_a_refusal_back_and_then_closes(
    rig: Rig,
) -> None:
    client = await shaken(rig)
    with capture_logs() as logs:
        client.send("sasl_authenticate", 2, auth_bytes=b"\0alice\0wrong-geheim")
        await rig.clock.run(DELAY_MS - 1)
        assert client.replies() == []
        await rig.clock.run(1)
    (reply,) = client.replies()
    assert answer(reply, "sasl_authenticate", 2).error_code.name == "sasl_authentication_failed"
    assert await client.closed()
    assert not [line for line in logs if "geheim" in str(line)]
    assert rig.node.local.security.attempts == {("SASL", "PLAIN", False): 1}


async def test_a_close_without_an_answer_is_held_back_too(rig: Rig) -> None:
    client = rig.connect(listener="SASL")
    client.send("metadata", 12, **METADATA)
    await rig.clock.run(DELAY_MS - 1)
    assert not await client.closed()
    await rig.clock.run(1)
    assert await client.closed()
    assert client.transport.sent == b""


async def test_what_comes_during_the_delay_is_not_looked_at(rig: Rig) -> None:
    client = await shaken(rig)
    client.send("sasl_authenticate", 2, auth_bytes=b"\0alice\0wrong")
    client.send("sasl_authenticate", 2, auth_bytes=ALICE)
    await rig.clock.run(DELAY_MS)
    assert len(client.replies()) == 1
    assert await client.closed()
    assert rig.node.local.security.attempts == {("SASL", "PLAIN", False): 1}


async def test_a_client_that_goes_during_the_delay_leaves_nothing(rig: Rig) -> None:
    client = await shaken(rig)
    client.send("sasl_authenticate", 2, auth_bytes=b"\0alice\0wrong")
    client.transport.reset()
    await settle()
    await rig.clock.run(DELAY_MS)
    assert not rig.node.server.connections


async def test_api_versions_of_the_future_in_the_middle_of_a_login_closes_the_connection(rig: Rig) -> None:
    client = await shaken(rig)
    with capture_logs() as logs:
        client.transport.feed(sized(struct.pack(">hhih", 18, 99, 1, -1) + b"\0"))
        await settle()
    assert client.transport.lost
    assert [log["event"] for log in logs] == ["connection closed"]


async def test_connections_max_reauth_ms_ends_a_session_to_the_millisecond(rig: Rig) -> None:
    client = await shaken(rig)
    await client.ask("sasl_authenticate", 2, auth_bytes=ALICE)
    rig.clock.advance(REAUTH_MS - 1)
    assert (await client.ask("metadata", 12, **METADATA)).cluster_id
    rig.clock.advance(1)
    client.send("metadata", 12, **METADATA)
    assert await client.closed()


async def test_kip_368_re_authentication_begins_a_session_anew(rig: Rig) -> None:
    client = await shaken(rig)
    for _ in range(3):
        await client.ask("sasl_authenticate", 2, auth_bytes=ALICE)
        rig.clock.advance(REAUTH_MS - 1)
        assert (await client.ask("metadata", 12, **METADATA)).cluster_id
        await client.ask("sasl_handshake", 1, mechanism="PLAIN")


async def test_requests_of_a_known_client_without_sessions_go_straight_to_the_dispatcher() -> None:
    config = CONFIG | {"listener.name.sasl.plain.connections.max.reauth.ms": "0"}
    async with Rig(config=config) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        client = await shaken(rig)
        assert client.connection.dispatcher is not rig.node.dispatcher
        await client.ask("sasl_authenticate", 2, auth_bytes=ALICE)
        assert client.connection.dispatcher is rig.node.dispatcher


async def test_a_plaintext_listener_has_no_gate(rig: Rig) -> None:
    assert rig.connect().connection.dispatcher is rig.node.dispatcher


@pytest.mark.long
@given(frames=st.lists(st.binary(max_size=40), min_size=1, max_size=3))
async def test_any_bytes_before_authentication_close_the_connection_or_wait(frames: list[bytes]) -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        client = await shaken(rig, version=0)
        before = len(client.transport.sent)
        for data in frames:
            client.transport.feed(sized(data))
            await rig.clock.run(DELAY_MS)
        assert client.transport.sent[before:] == b""
        assert await client.closed()


# -- conversations alone


def steps_of(conversation: Conversation, messages: list[bytes]) -> list[object]:
    found: list[object] = []
    for message in messages:
        try:
            step = conversation.evaluate(message)
        except (AuthenticationError, CloseConnectionError) as error:
            return [*found, type(error)]
        found.append(type(step))
    return found


class Chance:
    """Random bytes that are always the same."""

    def randbytes(self, count: int) -> bytes:
        return bytes(count)


CREDENTIAL = ScramCredential(b"salt", b"s" * 32, b"k" * 32, 4096, Principal(USER, "bob"))


@given(st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=3))
def test_any_tokens_are_steps_or_refused(messages: list[bytes]) -> None:
    allowed = {Challenge, AuthenticationError, CloseConnectionError}
    for conversation in (
        PlainConversation({"a": "b"}),
        ScramConversation("SCRAM-SHA-256", lambda *_: CREDENTIAL, Chance()),  # type: ignore[arg-type]
    ):
        assert {*steps_of(conversation, messages)} <= allowed


def test_right_plain_tokens_only() -> None:
    assert steps_of(PlainConversation({"a": "b"}), [b"\0a\0b"]) == [Success]
    assert steps_of(PlainConversation({}), [b"\0a\0no password is this one, which takes the time of a comparison"]) == [
        AuthenticationError
    ]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_token_longer_than_any_is_refused_unread(rig: Rig, mechanism: str) -> None:
    client = rig.connect(listener="SASL")
    await client.ask("sasl_handshake", 1, mechanism=mechanism)
    client.send("sasl_authenticate", 1, auth_bytes=b"\0alice\0geheim" + b"x" * MOST_TOKEN_BYTES)
    await rig.clock.run(DELAY_MS)
    (reply,) = client.replies()
    assert answer(reply, "sasl_authenticate", 1).error_code.name == "sasl_authentication_failed"
    assert await client.closed()


def may_go_back(pattern: re.Pattern[str]) -> bool:
    """Whether a match may try an endless repetition with fewer and fewer items: then its time is no longer linear."""
    without_classes = re.sub(r"\\.|\[(?:\\.|[^]\\])*\]", "c", pattern.pattern)
    return re.search(r"(?<![*+?}])(?:[*+]|\{\d*,\})(?!\+)", without_classes) is not None


@pytest.mark.parametrize("pattern", [scram._FIRST, scram._FINAL, scram._PROOF, oauthbearer._FIRST, oauthbearer._AUTH])
def test_a_strangers_token_is_read_once(pattern: re.Pattern[str]) -> None:
    assert not may_go_back(pattern)


@pytest.mark.parametrize("text", ["a*", "(a+)", "[+*]+b", "(?:(?:a,b+)c)?", "a+?", "a{2,}"])
def test_a_pattern_that_may_go_back_is_noticed(text: str) -> None:
    assert may_go_back(re.compile(text))


def test_of_two_scram_proofs_the_last_counts() -> None:
    conversation = ScramConversation("SCRAM-SHA-256", lambda *_: CREDENTIAL, Chance())  # type: ignore[arg-type]
    messages = [b"n,,n=bob,r=abc", b"c=biws,r=abc,p=AAAA,p=" + b"A" * 43 + b"="]
    assert steps_of(conversation, messages) == [Challenge, AuthenticationError]


async def no_token(_text: str) -> Token:
    raise BadTokenError("none is good")


@given(st.binary(max_size=80) | st.text(max_size=80).map(lambda text: f"n,,\x01auth=Bearer {text}\x01\x01".encode()))
async def test_any_bearer_token_is_a_step_or_refused(message: bytes) -> None:
    conversation = OAuthBearerConversation(no_token)
    try:
        assert isinstance(await conversation.evaluate(message), Challenge)
    except (AuthenticationError, CloseConnectionError):
        return

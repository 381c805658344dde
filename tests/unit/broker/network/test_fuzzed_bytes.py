"""Bytes that a stranger made up: an answer or an end of the connection, never an error that nobody expected."""

from __future__ import annotations

import random
import struct

import pytest
from structlog.testing import capture_logs

from protocol.api.table import API_TABLE
from protocol.errors import KafkaError
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin, LogConfig
from storage.log.record_checks import LargeBatchError
from storage.log.validator import validate
from tests.doubles.clock import settle
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import NOW, answer, batch, sized

LIKELY = (0, 0, 0, 0, 0, 1, 1, 2, 3, 5, 0x61, 0x74, 0x7F, 0x80, 0xFF)
"""Bytes of short lengths, of names, of nulls and of numbers that are too large."""
CONFIG = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="geheim";'
    ),
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    ),
}
TOKENS = (b"\0alice\0geheim", b"n,,n=alice,r=abc", b"n,,\x01auth=Bearer e30.e30.\x01\x01", b"c=biws,r=abc,p=YWJj")


def mutated(chance: random.Random, data: bytes) -> bytes:
    """A few bytes changed, removed, or doubled."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(3):
            case 0:
                out[at : at + 1] = bytes([chance.choice((*LIKELY, chance.randrange(256)))])
            case 1:
                del out[at : at + chance.randint(1, 8)]
            case _:
                out[at:at] = out[at : at + chance.randint(1, 8)]
    return bytes(out)


@pytest.mark.long
async def test_bodies_of_every_request_and_version(request: pytest.FixtureRequest) -> None:
    chance = random.Random(39)
    async with Rig() as rig:
        await rig.create("t")
        answered = 0
        with capture_logs() as logs:
            for api in API_TABLE:
                for version in range(api.lowest, api.highest + 1):
                    for _ in range(request.config.getoption("--fuzz")):
                        body = bytes(chance.choices(LIKELY, k=chance.randrange(60)))
                        client = rig.connect()
                        client.transport.feed(sized(struct.pack(">hhih", api.key, version, 1, -1) + body))
                        await settle()
                        answered += len(client.replies())
                        client.transport.reset()
                        assert "unexpected error in a handler" not in {log["event"] for log in logs}, logs[-1]
                        logs.clear()
        assert answered, "no body was more than refused by its reader"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
async def test_tokens_before_the_client_is_known(mechanism: str, request: pytest.FixtureRequest) -> None:
    chance = random.Random(40)
    async with Rig(config=CONFIG) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        with capture_logs() as logs:
            answers = set()
            for number in range(100 * request.config.getoption("--fuzz")):
                client = rig.connect(listener="SASL")
                assert (await client.ask("sasl_handshake", 1, mechanism=mechanism)).error_code.name == "none"
                client.send("sasl_authenticate", 2, auth_bytes=mutated(chance, TOKENS[number % len(TOKENS)]))
                await rig.clock.run(200)
                for reply in client.replies():
                    answers.add(answer(reply, "sasl_authenticate", 2).error_code.name)
                client.transport.reset()
                await settle()
        assert "unexpected error while a client authenticated" not in {log["event"] for log in logs}, logs
        assert "sasl_authentication_failed" in answers


@pytest.mark.parametrize("codec", Compression)
def test_record_batches_of_each_codec(codec: Compression, request: pytest.FixtureRequest) -> None:
    chance = random.Random(41)
    good = batch(b"value" * 20, b"", b"x" * 300, compression=codec)
    answers = set()
    for _ in range(500 * request.config.getoption("--fuzz")):
        bad = bytearray(mutated(chance, good))
        try:
            validate(memoryview(bad), LogConfig(), AppendOrigin.CLIENT, NOW, "t-0")
            answers.add("taken")
        except (KafkaError, LargeBatchError) as error:
            answers.add(type(error).__name__)
    assert len(answers) > 1

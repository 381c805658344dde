"""What Apache Kafka's own classes answer (`tools/recorders/KafkaAnswers.java`), and what is answered here."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64encode
from collections.abc import Awaitable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.network.request import USER, CloseConnectionError, Principal
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
from broker.security.sasl.jwks import Jwks, Refresh
from broker.security.sasl.signed_tokens import Expectations, SignedTokens
from broker.security.sasl.unsecured_tokens import UnsecuredTokens
from broker.security.sources import ScramCredential, SecurityError
from broker.security.tls.principal_mapping import parse_rules, principal_name
from tests.doubles.clock import ManualClock
from tests.doubles.workers import LoopWorkers

ROOT = Path(__file__).parents[4]
KAFKA: dict[str, Any] = json.loads((ROOT / "tests/conformance/data/kafka_logins.json").read_text())

# What of Java's patterns is refused, each by its name; Kafka takes these rules.
REFUSED_HERE = {
    "RULE:CN=([a-z&&[^s]]*).*/$1/": "has && in a class",
    "RULE:CN=([a-zA-Z&&[^k]]*).*/$1/": "has && in a class",
    "RULE:CN=([a-z[A-Z]]*).*/$1/": "has a class inside a class",
    "RULE:[[:alpha:]]N=.*/c/": "has a class inside a class",
    r"RULE:CN=(\p{Alpha}*).*/$1/": r"has \p{Alpha}",
    r"RULE:CN=(\p{javaUpperCase}).*/$1/": r"has \p{javaUpperCase}",
    "RULE:CN=(?i)(DUKE).*/$1/": "has (?i)",
    r"RULE:CN=Duke\h*.*/h/": r"has \h",
    "RULE:(?x)CN= .*/x/": "has (?x)",
    "RULE:(?m)^CN=.*$/c/": "has (?m)",
    "RULE:(?-i)CN=.*/c/": "has (?-i)",
    r"RULE:CN=.*\Z/z/": r"has \Z",
    r"RULE:\0103N=.*/c/": r"has \0",
    r"RULE:CN=Duke.*\R?/c/": r"has \R",
    r"RULE:[\QC\E]N=.*/c/": r"has \QC\E in a class",
}


@pytest.mark.parametrize(("rules", "name", "kafkas"), KAFKA["mappings"])
def test_ssl_principal_mapping_rules(rules: str, name: str, kafkas: str | list[str]) -> None:
    try:
        found = principal_name(parse_rules("key", rules), name)
    except SecurityError as error:
        assert kafkas == ["refused"] or REFUSED_HERE[rules] in str(error)
    else:
        assert rules not in REFUSED_HERE
        assert (["none"] if found is None else found) == kafkas


async def step(conversation: Conversation, message: bytes) -> tuple[str, bytes]:
    """What becomes of a message, in the recorder's words, and the answer."""
    try:
        found = conversation.evaluate(message)
        answer = await found if isinstance(found, Awaitable) else found
    except (AuthenticationError, CloseConnectionError):
        return "refused", b""
    assert isinstance(answer, Challenge | Success)
    return ("done" if isinstance(answer, Success) else "continues"), answer.data


SALT = b"0123456789"
SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)
CLIENT_KEY = hmac.digest(SALTED, b"Client Key", "sha256")
STORED_KEY = hashlib.sha256(CLIENT_KEY).digest()

RFC_5802 = {
    # Kafka reads these, but computes the proof of another text: without what it does not know.
    ("n,,n=alice,r=abc", "c=biws,r={r},x=1"),
    ("n,,n=alice,r=abc", "c=biws,r={r},ext=a,more=b c"),
    ("n,,m=x,n=alice,r=abc", "c=biws,r={r}"),
    ("n,,n=alice,r=abc,x=1,x=2", "c=biws,r={r}"),
}


def credential(name: str, is_token: bool) -> ScramCredential | None:
    if is_token or name == "nobody":
        return None
    server_key = hmac.digest(SALTED, b"Server Key", "sha256")
    return ScramCredential(SALT, STORED_KEY, server_key, 4095 if name == "few" else 4096, Principal(USER, name))


@pytest.mark.parametrize(("first", "final", "after", "proved", "kafkas_first", "kafkas_final"), KAFKA["scram"])
async def test_scram_messages(
    first: str, final: str, after: str, proved: str, kafkas_first: str, kafkas_final: str | None
) -> None:
    conversation = ScramConversation("SCRAM-SHA-256", credential, Random(1))
    said, challenge = await step(conversation, first.encode())
    assert said == kafkas_first
    if said != "continues":
        return
    server_first = challenge.decode()
    nonce = server_first.removeprefix("r=").partition(",")[0]
    bare = first.split(",", 2)[2]
    message = f"{bare},{server_first},{proved.replace('{r}', nonce)}"
    signature = hmac.digest(STORED_KEY, message.encode(), "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(signature, CLIENT_KEY, strict=True))).decode()
    said, _ = await step(conversation, f"{final.replace('{r}', nonce)},p={proof}{after}".encode())
    if (first, final) in RFC_5802 and proved == final:
        assert (kafkas_final, said) == ("refused", "done")
    else:
        assert said == kafkas_final


class SamePasswords(dict[str, str]):
    """The same password for whoever comes."""

    def get(self, name: str, default: object = None) -> str:
        return "secret"


@pytest.mark.parametrize(("message", "kafkas"), KAFKA["plain"])
async def test_plain_messages(message: str, kafkas: str) -> None:
    assert (await step(PlainConversation(SamePasswords()), message.encode()))[0] == kafkas


@pytest.mark.parametrize(("message", "kafkas"), KAFKA["bearer"])
async def test_oauthbearer_messages(message: str, kafkas: str) -> None:
    async def validate(text: str) -> Token:
        return Token("alice", 10**15)

    assert (await step(OAuthBearerConversation(validate), message.encode()))[0] == kafkas


@pytest.mark.parametrize(("header", "claims", "options", "now_s", "token", "kafkas"), KAFKA["unsecured"])
async def test_unsecured_tokens(
    header: str, claims: str, options: dict[str, str], now_s: int, token: str, kafkas: list[Any]
) -> None:
    try:
        found = await UnsecuredTokens(options, lambda: now_s * 1000).validate(token)
        said: list[Any] = [found.name, found.expires_ms // 1000 - now_s]
    except BadTokenError as error:
        said = [error.status]
    assert said == (["invalid_token"] if kafkas == ["thrown"] else kafkas), (header, claims)


@pytest.mark.parametrize(("what", "keys", "now_s", "token", "skew_s", "kafkas"), KAFKA["tokens"])
async def test_signed_tokens(
    tmp_path: Path, what: str, keys: list[Any], now_s: int, token: str, skew_s: int, kafkas: str | list[Any]
) -> None:
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": keys}))
    clock = ManualClock(now_s * 1000)
    jwks = Jwks(file.as_uri(), Refresh(60_000, 100, 1_000), clock, LoopWorkers())
    tokens = SignedTokens(jwks, Expectations((), None, skew_s, "scope", "sub"), clock.wall_ms)
    try:
        found = await tokens.validate(token)
        said: str | list[Any] = [found.name, found.expires_ms // 1000 - now_s]
    except BadTokenError:
        said = "refused"
    if what == "no kid, second of two keys":  # Kafka tries the first key alone, wherever the right one is
        assert (kafkas, said) == ("refused", ["alice", 600])
    else:
        assert said == kafkas

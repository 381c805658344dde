"""The tokens of each mechanism: good ones, wrong ones, and malformed ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.authentication.conversations_handshake import shake, works
from tests.conformance.authentication.settings import BOB, EVE, SCRAM_PASSWORD
from tests.conformance.authentication.talk import Talk, conversation
from tests.conformance.wire import Wire


def asked(t: Talk, step: str, token: bytes, mechanism: str) -> Wire:
    """One token on a connection of its own."""
    wire = t.connect()
    assert isinstance(wire.call("sasl_handshake", 1, {"mechanism": mechanism}), dict)
    t.call(step, wire, "sasl_authenticate", 2, auth_bytes=token)
    return wire


@conversation
def plain(t: Talk) -> None:
    for step, text in {
        "good": "\0alice\0alice-secret",
        "on one's own behalf": "alice\0alice\0alice-secret",
        "another alphabet": "\0Ünï\0pässword",
        "a wrong password": "\0alice\0wrong",
        "a prefix of the password": "\0alice\0alice-secre",
        "an unknown user": "\0nobody\0alice-secret",
        "another's behalf": "bob\0alice\0alice-secret",
        "no name": "\0\0alice-secret",
        "no password": "\0alice\0",
        "two parts": "alice\0alice-secret",
        "four parts": "\0alice\0alice-secret\0",
        "nothing": "",
        "only zeros": "\0\0",
        "the case of the name": "\0Alice\0alice-secret",
    }.items():
        asked(t, step, text.encode(), "PLAIN")
    asked(t, "no UTF-8", b"\0alice\0\xff\xfe", "PLAIN")


@dataclass
class ScramClient:
    """The client's side of SCRAM, with every part for a conversation to change."""

    user: str
    digest: str
    password: str = SCRAM_PASSWORD
    nonce: str = "fyko+d2lbbFgONRv9qkxdawL"
    header: str = "n,,"
    before: str = ""
    extensions: str = ""

    @property
    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    @property
    def bare(self) -> str:
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"{self.before}n={name},r={self.nonce}{self.extensions}"

    def final(self, server_first: str, channel: str = "biws", nonce: str | None = None) -> tuple[bytes, bytes, bytes]:
        """The message without its proof, the proof, and the server's proof to come."""
        parts = dict(part.split("=", 1) for part in server_first.split(","))
        salt = base64.b64decode(parts["s"])
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), salt, int(parts["i"]))
        key = hmac.digest(salted, b"Client Key", self.digest)
        stored = hashlib.new(self.digest, key).digest()
        without = f"c={channel},r={parts['r'] if nonce is None else nonce}"
        message = f"{self.bare},{server_first},{without}".encode()
        signature = hmac.digest(stored, message, self.digest)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        verifier = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), message, self.digest)
        return without.encode(), proof, verifier


def with_proof(without: bytes, proof: bytes) -> bytes:
    return without + b",p=" + base64.b64encode(proof)


def first_answered(t: Talk, step: str, wire: Wire, client: ScramClient) -> str:
    """Send the first message, keep the shape of the answer, and return its text."""
    answer = wire.call("sasl_authenticate", 2, {"auth_bytes": client.first})
    if not isinstance(answer, dict) or not answer["auth_bytes"]:
        t.keep(step, answer)
        return ""
    text: str = answer["auth_bytes"].decode()
    parts = dict(part.split("=", 1) for part in text.split(","))
    shown = {"order": [part[0] for part in text.split(",")], "i": parts["i"]}
    t.keep(step, answer | {"auth_bytes": json.dumps(shown | {"continues": parts["r"].startswith(client.nonce)})})
    return text


def log_in(t: Talk, step: str, client: ScramClient, mechanism: str, change: Callable[..., bytes] = with_proof) -> None:
    """A whole authentication; `change` makes the last message of its parts."""
    wire = t.connect()
    assert isinstance(wire.call("sasl_handshake", 1, {"mechanism": mechanism}), dict)
    text = first_answered(t, f"{step}: first", wire, client)
    if not text:
        return
    without, proof, verifier = client.final(text)
    answer: Any = wire.call("sasl_authenticate", 2, {"auth_bytes": change(without, proof)})
    if isinstance(answer, dict) and answer["auth_bytes"] == b"v=" + base64.b64encode(verifier):
        answer["auth_bytes"] = "<the server's proof>"
    t.keep(f"{step}: final", answer)


SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


@conversation
def scram(t: Talk) -> None:
    log_in(t, "good", ScramClient(BOB, "sha256"), SHA_256)
    log_in(t, "good, 512", ScramClient(EVE, "sha512"), SHA_512)
    log_in(t, "a wrong password", ScramClient(BOB, "sha256", "wrong"), SHA_256)
    log_in(t, "an unknown user", ScramClient("nobody", "sha256"), SHA_256)
    log_in(t, "a user of the other mechanism", ScramClient(BOB, "sha512"), SHA_512)
    log_in(t, "an unknown token", ScramClient("no-such-token", "sha256", extensions=",tokenauth=true"), SHA_256)
    log_in(t, "a user's name as a token", ScramClient(BOB, "sha256", extensions=",tokenauth=true"), SHA_256)
    log_in(t, "no token", ScramClient(BOB, "sha256", extensions=",tokenauth=false"), SHA_256)


@conversation
def scram_first_messages(t: Talk) -> None:
    for step, changes in {
        "one's own behalf": {"header": f"n,a={BOB},"},
        "another's behalf": {"header": "n,a=alice,"},
        "a channel that is not bound": {"header": "y,,"},
        "a channel that is bound": {"header": "p=tls-unique,,"},
        "no header": {"header": ""},
        "an extension that must be known": {"before": "m=x,"},
        "an unknown extension": {"extensions": ",ext=value"},
        "a space in the nonce": {"nonce": "a b"},
        "no nonce": {"nonce": ""},
        "a nonce of another alphabet": {"nonce": "ä"},
        "an extension without a value": {"extensions": ",ext"},
    }.items():
        wire = t.connect()
        assert isinstance(wire.call("sasl_handshake", 1, {"mechanism": SHA_256}), dict)
        first_answered(t, step, wire, ScramClient(BOB, "sha256", **changes))
    for step, text in {"nothing": "", "no user": "n,,n=,r=abc", "an equals sign": "n,,n=a=b,r=abc"}.items():
        asked(t, step, text.encode(), SHA_256)


@conversation
def scram_final_messages(t: Talk) -> None:
    def last(step: str, change: Callable[[bytes, bytes], bytes]) -> None:
        log_in(t, step, ScramClient(BOB, "sha256"), SHA_256, change)

    last("a proof of another", lambda without, proof: with_proof(without, bytes(len(proof))))
    last("a short proof", lambda without, proof: with_proof(without, proof[:-1]))
    last("the proof of the other hash", lambda without, proof: with_proof(without, proof * 2))
    last("an empty proof", lambda without, _: without + b",p=")
    last("no proof", lambda without, _: without)
    last("a proof that is no base64", lambda without, _: without + b",p=!!!!")
    last("another nonce", lambda without, proof: with_proof(without.replace(b"fyko", b"FYKO"), proof))
    last("nothing", lambda *_: b"")
    last("the first message again", lambda *_: ScramClient(BOB, "sha256").first)


@conversation
def scram_with_bare_tokens(t: Talk) -> None:
    for step, password in {"good": SCRAM_PASSWORD, "wrong": "wrong"}.items():
        client = ScramClient(BOB, "sha256", password)
        wire = t.connect()
        shake(t, wire, SHA_256, 0, f"{step}: handshake")
        text = t.bare(
            f"{step}: first", wire, client.first, lambda data: [part[:1] for part in data.decode().split(",")]
        )
        without, proof, _ = client.final(text.decode())
        t.bare(f"{step}: final", wire, with_proof(without, proof), lambda data: data[:2].decode())
        works(t, wire, f"{step}: another request")


def unsigned(claims: dict[str, Any], header: dict[str, Any] | None = None, signature: str = "") -> str:
    parts = (json.dumps(part).encode() for part in (header or {"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), signature])


def bearer(token: str, header: str = "n,,", scheme: str = "Bearer", more: str = "") -> bytes:
    return f"{header}\x01auth={scheme} {token}\x01{more}\x01".encode()


@conversation
def oauthbearer(t: Talk) -> None:
    now = int(time.time())
    claims = {"sub": "olga", "iat": now, "exp": now + 3600}
    good = unsigned(claims)

    def ask(step: str, token: bytes) -> None:
        wire = asked(t, step, token, "OAUTHBEARER")
        t.call(f"{step}: then one byte", wire, "sasl_authenticate", 2, auth_bytes=b"\x01")

    for step, token in {
        "good": bearer(good),
        "a scheme in lower case": bearer(good, scheme="bearer"),
        "another scheme": bearer(good, scheme="Basic"),
        "one's own behalf": bearer(good, header="n,a=olga,"),
        "another's behalf": bearer(good, header="n,a=alice,"),
        "an extension": bearer(good, more="trace=1\x01"),
        "expired": bearer(unsigned(claims | {"exp": now - 60})),
        "no end": bearer(unsigned({"sub": "olga", "iat": now})),
        "no subject": bearer(unsigned({"iat": now, "exp": now + 3600})),
        "issued in the future": bearer(unsigned(claims | {"iat": now + 1800})),
        "no time of issue": bearer(unsigned({"sub": "olga", "exp": now + 3600})),
        "not yet valid": bearer(unsigned(claims | {"nbf": now + 1800})),
        "ends as a text": bearer(unsigned(claims | {"exp": str(now + 3600)})),
        "a signature": bearer(unsigned(claims, signature="abcd")),
        "another algorithm": bearer(unsigned(claims, {"alg": "RS256"})),
        "two parts": bearer("e30.e30"),
        "no JSON": bearer("abc.def."),
        "no token": bearer(""),
        "no auth": b"n,,\x01x=y\x01\x01",
        "no header": b"\x01auth=Bearer " + good.encode() + b"\x01\x01",
        "no end of the message": b"n,,\x01auth=Bearer " + good.encode() + b"\x01",
        "nothing": b"",
        "one byte": b"\x01",
    }.items():
        ask(step, token)
    wire = asked(t, "a bad token first", bearer(unsigned(claims | {"exp": now - 60})), "OAUTHBEARER")
    t.call("and then a good one", wire, "sasl_authenticate", 2, auth_bytes=bearer(good))
    works(t, wire)
    wire = t.connect()
    shake(t, wire, "OAUTHBEARER", 0, "handshake v0")
    t.bare("a bare token", wire, bearer(good))
    wire = t.connect()
    shake(t, wire, "OAUTHBEARER", 0, "handshake v0 again")
    t.bare("a bad bare token", wire, bearer("abc.def."), bytes.decode)
    t.bare("a bad bare token: then one byte", wire, b"\x01")

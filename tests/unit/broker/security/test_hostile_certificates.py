"""Clients whose certificates are signed by the right authority, and whose names are nothing that a name should be.

Each client gets in or is refused with a reason. No connection is left in the middle of its handshake.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from trustme import CA

from broker.network.request import UnknownClientError
from broker.network.tls import TlsState
from broker.security.node_security import ListenerSecurity
from broker.security.tls.principal_mapping import MOST_CHARACTERS, Rule
from tests.certificates import element, pair, pair_of, renamed, trusting
from tests.conformance.authentication.settings import PLAIN_NAME
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Rig
from tests.unit.broker.security.tls_client import TlsClient

CA_ = CA()
ALICE = pair_of(CA_, PLAIN_NAME)
UTF8, BITS, T61, IA5, UNIVERSAL, BMP = 0x0C, 0x03, 0x14, 0x16, 0x1C, 0x1E
COMMON_NAME, UNKNOWN_TYPE = bytes.fromhex("0603550403"), bytes.fromhex("06072a030405060708")


def part(tag: int, value: bytes, kind: bytes = COMMON_NAME) -> bytes:
    """One part of a name: a set with one attribute."""
    return element(0x31, element(0x30, kind + element(tag, value)))


TAKEN = {
    "of no parts": (b"", ""),
    "an empty part": (part(UTF8, b""), "CN="),
    "control characters": (part(UTF8, b"a\r\n\x1b[31m\0b"), "CN=a\r\n\x1b[31m\\00b"),
    "UTF-16": (part(BMP, "h\u00e4\u00df".encode("utf-16-be")), "CN=h\u00e4\u00df"),
    "UTF-32": (part(UNIVERSAL, "\U0001f600".encode("utf-32-be")), "CN=\U0001f600"),
    "a type that nobody knows": (part(UTF8, b"", UNKNOWN_TYPE), "1.2.3.4.5.6.7.8=#0c00"),
    "as long as may be": (part(UTF8, b"x" * (MOST_CHARACTERS - 3)), "CN=" + "x" * (MOST_CHARACTERS - 3)),
}
REFUSED = {
    "longer": part(UTF8, b"x" * (MOST_CHARACTERS - 2)),
    "much longer": part(UTF8, b"x" * 12_000),
    "of many parts": part(UTF8, b"x") * 5_000,
    "letters of T.61": part(T61, b"\xe4\xff"),
    "what ASCII does not have": part(IA5, b"\xff"),
    "bits": part(BITS, b"\0abc"),
    "a sequence": part(0x30, b""),
    "a part without an attribute": element(0x31, b""),
}
REFUSED_BY_OPENSSL = {
    "bytes that are no UTF-8": part(UTF8, b"\xff\xfe"),
    "half a character of UTF-16": part(BMP, b"abc"),
    "a lone surrogate": part(BMP, b"\xd8\0"),
    "what is no character": part(UNIVERSAL, b"\0\xff\xff\xff"),
    "a number": part(0x02, b"\x05"),
    "an attribute without a value": element(0x31, element(0x30, COMMON_NAME)),
}
"""No client can show these while OpenSSL is so strict."""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "broker.pem").write_bytes(pair(CA_).pem)
    (tmp_path / "ca.pem").write_bytes(CA_.cert_pem.bytes())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }


@pytest.fixture
async def rig(settings: dict[str, str]) -> AsyncIterator[Rig]:
    async with Rig(config=settings) as one:
        await one.secure("TLS", "SSL")
        yield one


def showing(subject: bytes, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = trusting(CA_, renamed(CA_, ALICE, element(0x30, subject)))
    context.minimum_version = context.maximum_version = version
    return context


async def refusal(rig: Rig, context: ssl.SSLContext) -> str:
    """Why the broker refuses a client; it must do so, close the connection, and forget it."""
    client = TlsClient(rig, context)
    with capture_logs() as logs:
        await client.shake()
    (reason,) = (str(line["reason"]) for line in logs if line["event"] == "TLS handshake failed")
    assert client.transport.lost
    assert client.layer._state is TlsState.CLOSED
    assert not rig.node.server.connections
    assert len(rig.node.server.strangers) == 0
    return reason


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("subject", TAKEN)
async def test_an_odd_name_is_a_principal(rig: Rig, subject: str, version: ssl.TLSVersion) -> None:
    der, name = TAKEN[subject]
    client = TlsClient(rig, showing(der, version))
    assert await client.shake()
    assert await client.ask("api_versions", 0) is not None
    assert str(client.connection.principal) == f"User:{name}"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("subject", REFUSED)
async def test_what_is_no_name_is_a_failed_handshake(rig: Rig, subject: str, version: ssl.TLSVersion) -> None:
    reason = await refusal(rig, showing(REFUSED[subject], version))
    assert "the client's certificate" in reason
    assert len(reason) < 400


@pytest.mark.parametrize("subject", [*REFUSED, *REFUSED_BY_OPENSSL])
async def test_what_is_no_name_is_refused_by_us_too(rig: Rig, subject: str) -> None:
    der = element(0x30, (REFUSED | REFUSED_BY_OPENSSL)[subject])
    certificate = ssl.PEM_cert_to_DER_cert(renamed(CA_, ALICE, der).chain.decode())
    with pytest.raises(UnknownClientError, match="the client's certificate"):
        rig.node.local.security.listeners["TLS"].principal_of(certificate)


@dataclass(frozen=True, slots=True)
class Thrower(Rule):
    """A rule with a bug."""

    def apply(self, name: str) -> str | None:
        raise IndexError(name)


def use_rule(rig: Rig, rule: Rule) -> None:
    security: Any = rig.node.local.security.listeners["TLS"]
    assert isinstance(security, ListenerSecurity)
    security.prepared = replace(security.prepared, rules=(rule,))


async def test_a_rule_that_throws_closes_only_its_connection(rig: Rig) -> None:
    use_rule(rig, Thrower(None, (), ""))
    assert await refusal(rig, trusting(CA_, ALICE)) == "an unexpected error"
    use_rule(rig, Rule(re.compile("CN=(.*?),.*"), (1,), "U"))
    client = TlsClient(rig, trusting(CA_, ALICE))
    assert await client.shake()
    assert str(client.connection.principal) == "User:ALICE"


async def test_the_name_is_read_by_the_worker_too(settings: dict[str, str]) -> None:
    workers = HeldLane("TLS handshakes")
    async with Rig(config=settings, workers=workers) as rig:
        await rig.secure("TLS", "SSL")
        asked: list[bytes | None] = []
        security = rig.node.local.security.listeners["TLS"]
        read = security.principal_of

        def count(certificate: bytes | None) -> Any:
            asked.append(certificate)
            return read(certificate)

        security.principal_of = count
        client = TlsClient(rig, trusting(CA_, ALICE))
        await client.hello()
        workers.run_next()
        await client.exchange()
        client.tls.do_handshake()
        await client.exchange()
        assert not asked, "the loop has read the name itself"
        workers.run_next()
        await client.exchange()
        assert len(asked) == 1
        assert client.layer._state is TlsState.OPEN

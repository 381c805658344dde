"""TLS between a transport and a connection, byte by byte, in virtual time."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs
from trustme import CA

from broker.network.tls import MOST_HANDSHAKE_BYTES, TlsState
from tests.certificates import pair, pair_of, trusting
from tests.conformance.authentication.settings import PLAIN_NAME
from tests.doubles.clock import ManualClock, settle
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Rig
from tests.unit.broker.security.tls_client import TlsClient
from tests.unit.broker.wire import frame

CA_ = CA()
TRUSTING = trusting(CA_)
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="secret";'
METADATA: dict[str, Any] = {
    "topics": (),
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
EVENTS = {"TLS handshake failed", "a plaintext client spoke to a TLS listener", "connection closed"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "broker.pem").write_bytes(pair(CA_).pem)
    (folder / "ca.pem").write_bytes(CA_.cert_pem.bytes())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.both.ssl.client.auth": "required",
        "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": JAAS,
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=Odradek$/$1/",
    }


@pytest.fixture
async def rig(settings: dict[str, str]) -> AsyncIterator[Rig]:
    async with Rig(config=settings) as one:
        await one.secure("TLS", "SSL")
        await one.secure("MUTUAL", "SSL")
        yield one


def events(logs: Sequence[Mapping[str, object]]) -> list[object]:
    return [line["event"] for line in logs if line["event"] in EVENTS]


async def test_requests_are_answered(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    assert await client.shake()
    assert await client.ask("metadata", 12, **METADATA) is not None
    assert str(client.connection.principal) == "User:ANONYMOUS"
    assert len(rig.node.server.strangers) == 0


async def test_bytes_may_come_one_by_one(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    assert await client.shake()
    client.tls.write(frame("metadata", 12, 1, **METADATA))
    for byte in client._outgoing.read():
        client.transport.feed(bytes([byte]))
    await client.exchange()
    assert client.read()[4:8] == b"\0\0\0\1"


async def test_many_large_requests_at_once(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    assert await client.shake()
    long_name = "n" * 30_000
    requests = [frame("metadata", 12, n, client_id=long_name, **METADATA) for n in range(20)]
    for request in requests:
        client.tls.write(request)
    await client.exchange()
    replies = client.read()
    found = []
    while replies:
        size = int.from_bytes(replies[:4], "big")
        found.append(int.from_bytes(replies[4:8], "big"))
        replies = replies[4 + size :]
    assert found == [*range(20)]


@pytest.mark.parametrize(
    "start", [b"GET / HTTP/1.1\r\n\r\n", frame("metadata", 12, 1, **METADATA), b"\x16\x02", b"\x00"]
)
async def test_plaintext_is_logged_as_that_and_closed(rig: Rig, start: bytes) -> None:
    client = TlsClient(rig, TRUSTING)
    with capture_logs() as logs:
        client.transport.feed(start)
        await settle()
    assert client.transport.lost
    assert events(logs) == ["a plaintext client spoke to a TLS listener"]


async def test_what_no_handshake_can_go_on_with_is_closed(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    with capture_logs() as logs:
        client.transport.feed(b"\x16\x03\x01\x00\x05hello")
        await settle()
    assert client.transport.lost
    assert events(logs) == ["TLS handshake failed"]


async def test_a_handshake_that_never_ends_is_cut(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    await client.hello()
    with capture_logs() as logs:
        for _ in range(MOST_HANDSHAKE_BYTES // 1000 + 2):
            client.transport.feed(b"\x16\x03\x03\x40\x00" + bytes(995))
        await settle()
    assert client.transport.lost
    assert events(logs) == ["TLS handshake failed"]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("listener", "who", "principal"),
    [
        ("TLS", None, "User:ANONYMOUS"),
        ("TLS", "alice", "User:ANONYMOUS"),
        ("MUTUAL", "alice", "User:alice"),
        ("MUTUAL", None, None),
        ("MUTUAL", "expired", None),
        ("MUTUAL", "stranger", None),
        ("MUTUAL", "unnamed", None),
    ],
)
async def test_certificates(
    rig: Rig, version: ssl.TLSVersion, listener: str, who: str | None, principal: str | None
) -> None:
    certificates = {
        "alice": pair_of(CA_, PLAIN_NAME),
        "expired": pair_of(CA_, PLAIN_NAME, expired=True),
        "stranger": pair_of(CA(), PLAIN_NAME),
        "unnamed": pair(CA_),
    }
    context = trusting(CA_, certificates[who] if who else None)
    context.minimum_version = context.maximum_version = version
    client = TlsClient(rig, context, listener)
    shaken = await client.shake()
    found = await client.ask("metadata", 12, **METADATA) if shaken else None
    assert (found is not None) == (principal is not None)
    if principal is None:
        assert client.transport.lost
    else:
        assert str(client.connection.principal) == principal


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("listener", "protocol", "known_as"),
    [("MUTUAL", "SSL", "User:alice"), ("BOTH", "SASL_SSL", "User:ANONYMOUS")],  # whom SASL has yet to tell
)
async def test_a_session_is_not_resumed_beyond_the_end_of_the_certificate(
    settings: dict[str, str], version: ssl.TLSVersion, listener: str, protocol: str, known_as: str
) -> None:
    """OpenSSL checks a certificate when a session begins, and never again. Only the broker's time is moved here."""
    async with Rig(config=settings, clock=ManualClock(int(time.time() * 1000))) as rig:
        await rig.secure(listener, protocol)
        context = trusting(CA_, pair_of(CA_, PLAIN_NAME))
        context.minimum_version = context.maximum_version = version
        client = TlsClient(rig, context, listener)
        assert await client.shake()
        assert await client.ask("api_versions", 0) is not None
        for days, principal in ((0, known_as), (2, None)):
            rig.clock.stall(days * 24 * 3600 * 1000)
            again = TlsClient(rig, context, listener, session=client.tls.session)
            with capture_logs() as logs:
                await again.shake()
            assert again.tls.session_reused
            assert again.transport.lost == (principal is None)
            if principal is not None:
                assert str(again.connection.principal) == principal
        assert [line["reason"] for line in logs if line["event"] == "TLS handshake failed"] == [
            "the client's certificate: certificate has expired"
        ]


async def test_an_alert_tells_the_client_why(rig: Rig) -> None:
    client = TlsClient(rig, trusting(CA_, pair_of(CA(), PLAIN_NAME)), "MUTUAL")
    assert await client.shake()  # TLS 1.3: the client learns of it only when it reads
    await client.send(b"x")
    client.read()
    assert client.error is not None
    assert "UNKNOWN_CA" in str(client.error).upper()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_that_refuses_our_certificate_is_logged_as_that(rig: Rig, version: ssl.TLSVersion) -> None:
    context = trusting(CA())
    context.minimum_version = context.maximum_version = version
    client = TlsClient(rig, context)
    with capture_logs() as logs:
        assert not await client.shake()
    (line,) = (line for line in logs if line["event"] == "TLS handshake failed")
    assert line["reason"] == "the client refuses our certificate: unknown ca"


async def test_a_goodbye_closes_and_is_answered(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    assert await client.shake()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    await client.exchange()
    assert client.transport.lost
    client.tls.unwrap()  # the broker's own has come: no truncation


async def test_a_client_that_does_not_read_is_not_read_from(rig: Rig) -> None:
    client = TlsClient(rig, TRUSTING)
    assert await client.shake()
    client.transport.stalled = True
    for n in range(400):
        client.tls.write(frame("api_versions", 0, n))
    await client.exchange()
    assert not client.transport.reading
    client.transport.take()
    await client.exchange()
    sizes = client.read()
    assert sizes.count(b"\0\0\1\x8f") == 1  # the last one's correlation id
    assert client.transport.reading


async def test_steps_of_a_handshake_run_elsewhere(settings: dict[str, str]) -> None:
    workers = HeldLane("TLS handshakes")
    async with Rig(config=settings, workers=workers) as rig:
        await rig.secure("TLS", "SSL")
        client = TlsClient(rig, TRUSTING)
        await client.hello()
        assert not client.transport.sent, "the loop has taken the step itself"
        workers.run_next()
        await settle()
        assert client.transport.sent
        client.transport.reset()
        await settle()


async def test_a_connection_lost_during_a_step_is_forgotten(settings: dict[str, str]) -> None:
    workers = HeldLane("TLS handshakes")
    async with Rig(config=settings, workers=workers) as rig:
        await rig.secure("TLS", "SSL")
        client = TlsClient(rig, TRUSTING)
        await client.hello()
        client.transport.reset()
        await settle()
        workers.run_next()
        await settle()
        assert client.layer._state is TlsState.CLOSED
        assert not client.transport.sent
        assert not rig.node.server.connections


async def test_why_a_client_refuses_us_is_known_though_it_has_gone(settings: dict[str, str]) -> None:
    """It sends its alert and closes at once: the worker reads the alert when the connection is lost already."""
    workers = HeldLane("TLS handshakes")
    async with Rig(config=settings, workers=workers) as rig:
        await rig.secure("TLS", "SSL")
        client = TlsClient(rig, trusting(CA()))
        await client.hello()
        workers.run_next()
        await settle()
        await client.exchange()
        with pytest.raises(ssl.SSLCertVerificationError):
            client.tls.do_handshake()
        await client.exchange()
        client.transport.reset()
        await settle()
        with capture_logs() as logs:
            workers.run_next()
            await settle()
        assert [line["reason"] for line in logs] == ["the client refuses our certificate: unknown ca"]

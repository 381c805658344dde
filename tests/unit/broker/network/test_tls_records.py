"""What TLS lets a client send besides data: changes of keys, tiny records, names of servers (SNI), protocols (ALPN)."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from structlog.testing import capture_logs
from trustme import CA

from broker.network.tls import MOST_WITHOUT_DATA
from tests.certificates import pair, trusting
from tests.unit.broker.rig import Rig
from tests.unit.broker.security.tls_client import TlsClient
from tests.unit.broker.wire import frame

CA_ = CA()
DATA, HANDSHAKE = b"\x17", b"\x16"
QUIETLY, ASKING_FOR_OURS = b"\x18\0\0\1\0", b"\x18\0\0\1\1"
CHANGE_BYTES = 27


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    (tmp_path / "broker.pem").write_bytes(pair(CA_).pem)
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "broker.pem")}
    async with Rig(config=settings) as one:
        await one.secure("TLS", "SSL")
        yield one


class Records:
    """Makes the records of a client that has shaken hands and sent nothing since (RFC 8446, 5.2 and 7.2)."""

    def __init__(self, key_log: Path) -> None:
        lines = [
            line.split() for line in key_log.read_text().splitlines() if line.startswith("CLIENT_TRAFFIC_SECRET_0")
        ]
        self._use(bytes.fromhex(lines[-1][2]))

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._key, self._iv = AESGCM(self._expanded("key", 32)), self._expanded("iv", 12)

    def _expanded(self, label: str, size: int) -> bytes:
        name = f"tls13 {label}".encode()
        info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)

    def record(self, content: bytes, kind: bytes = DATA) -> bytes:
        head = b"\x17\3\3" + (len(content) + 17).to_bytes(2, "big")
        nonce = (int.from_bytes(self._iv, "big") ^ self._number).to_bytes(12, "big")
        self._number += 1
        return head + self._key.encrypt(nonce, content + kind, head)

    def change(self, message: bytes) -> bytes:
        made = self.record(message, HANDSHAKE)
        self._use(self._expanded("traffic upd", 48))
        return made


async def shaken(rig: Rig, tmp_path: Path) -> tuple[TlsClient, Records]:
    context = trusting(CA_)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(tmp_path / "keys.log")
    client = TlsClient(rig, context)
    assert await client.shake()
    assert client.tls.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
    return client, Records(tmp_path / "keys.log")


@pytest.mark.parametrize("message", [QUIETLY, ASKING_FOR_OURS], ids=["update_not_requested", "update_requested"])
async def test_a_flood_of_key_updates_ends_the_connection(rig: Rig, tmp_path: Path, message: bytes) -> None:
    """Attack: each takes 20 microseconds of the loop, 90 ms of what is read at once, and there is no end of them."""
    client, records = await shaken(rig, tmp_path)
    flood = b"".join(records.change(message) for _ in range(20_000))
    with capture_logs() as logs:
        client.transport.feed(flood)
        await client.exchange()
    assert client.transport.lost
    assert [line["error"] for line in logs] == ["TLS: too many records without data"]
    answered = len(client.transport.sent) // CHANGE_BYTES
    assert answered < 2 * MOST_WITHOUT_DATA / CHANGE_BYTES


@pytest.mark.long
async def test_answers_to_key_updates_do_not_pile_up_for_a_client_that_reads_nothing(rig: Rig, tmp_path: Path) -> None:
    """Attack: data now and then, a byte of a request that is never whole, and OpenSSL's answers took all memory."""
    client, records = await shaken(rig, tmp_path)
    client.transport.stalled = True
    client.transport.feed(records.record((1 << 20).to_bytes(4, "big")))
    for _ in range(100):
        client.transport.feed(b"".join(records.change(ASKING_FOR_OURS) for _ in range(500)) + records.record(b"x"))
        await client.exchange()
    assert not client.transport.lost
    assert not client.transport.reading
    assert len(client.transport.unsent) < 256 << 10
    client.transport.take()
    await client.exchange()
    assert client.transport.reading


async def test_who_wastes_gets_little_room_and_others_much(rig: Rig, tmp_path: Path) -> None:
    client, records = await shaken(rig, tmp_path)
    first = len(client.layer.get_buffer(-1))
    client.transport.feed(records.record((1 << 20).to_bytes(4, "big") + bytes(12_000)))
    assert len(client.layer.get_buffer(-1)) > first
    client.transport.feed(b"".join(records.change(QUIETLY) for _ in range(1000)) + records.record(b"x"))
    assert len(client.layer.get_buffer(-1)) == first
    client.transport.feed(records.record(bytes(12_000)))
    assert len(client.layer.get_buffer(-1)) == first
    assert not client.transport.lost


async def test_key_updates_between_requests_and_records_of_a_byte_are_right(rig: Rig, tmp_path: Path) -> None:
    client, records = await shaken(rig, tmp_path)
    for number in range(200):
        request = frame("api_versions", 0, number)
        sent = records.change(ASKING_FOR_OURS) + b"".join(records.record(bytes([byte])) for byte in request)
        client.transport.feed(sent)
        await client.exchange()
        assert client.read()[4:8] == number.to_bytes(4, "big")
    assert not client.transport.lost


@pytest.mark.parametrize("name", ["wrong.example", "a" * 63 + ".example", "xn--9ca", "127.0.0.1", None])
async def test_any_name_of_a_server_gets_the_listeners_certificate(rig: Rig, name: str | None) -> None:
    context = trusting(CA_)
    context.check_hostname = False
    context.set_alpn_protocols(["h2", "http/1.1", "kafka", "x" * 255])
    client = TlsClient(rig, context)
    client.tls = context.wrap_bio(client._incoming, client._outgoing, server_hostname=name)
    assert await client.shake()
    assert client.tls.selected_alpn_protocol() is None
    assert (await client.ask("api_versions", 0)).error_code.name == "none"

"""Clients that break the protocol: their own connection may end, nothing else changes and memory stays bounded."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from odradek import Broker
from protocol.api.table import API_TABLE
from tests.brokers import sound_broker
from tests.client import raw
from tests.client.raw import API_VERSIONS, METADATA, PRODUCE, RawConnection, frame, header

MB = 1 << 20
REQUEST_MAX_BYTES = 100 * MB


@pytest.fixture(scope="module")
def victim(own_cluster: None) -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def bystander(victim: Broker) -> Iterator[RawConnection]:
    """A well-behaved connection, open since before the broken requests, that the same process must serve after them."""
    pid = victim.pid
    with RawConnection(victim.bootstrap_servers) as connection:
        connection.ask(1)
        yield connection
        connection.ask(2)
    assert victim.pid == pid


def string(text: bytes) -> bytes:
    return struct.pack(">h", len(text)) + text


FATAL = {
    "length of zero": struct.pack(">i", 0),
    "length of minus one": struct.pack(">i", -1),
    "least length": struct.pack(">i", -(2**31)),
    "greatest length": struct.pack(">i", 2**31 - 1),
    "length just over the limit": struct.pack(">i", REQUEST_MAX_BYTES + 1),
    "frame that ends in the api key": frame(b"\x00"),
    "frame that ends in the version": frame(struct.pack(">hb", API_VERSIONS, 0)),
    "frame that ends in the correlation id": frame(struct.pack(">hhh", API_VERSIONS, 0, 0)),
    "client id longer than the frame": frame(struct.pack(">hhih", METADATA, 1, 1, 500) + b"abc"),
    "unknown api key": frame(header(9999, 0, 1)),
    "negative api key": frame(header(-1, 0, 1)),
    "negative version": frame(header(METADATA, -1, 1)),
    "version never made": frame(header(METADATA, 99, 1) + struct.pack(">i", -1)),
    "produce version no longer served": frame(header(PRODUCE, 2, 1) + struct.pack(">hii", -1, 1000, 0)),
    "array longer than memory": frame(header(METADATA, 1, 1) + struct.pack(">i", 2**31 - 1)),
    "string longer than the frame": frame(header(METADATA, 1, 1) + struct.pack(">ih", 1, 32767) + b"abc"),
    "flexible body cut short": frame(header(METADATA, 12, 1) + b"\x00\xff\xff\xff\xff\x0f"),
    "varint without end": frame(header(METADATA, 12, 1) + b"\x00" + b"\xff" * 40),
    "records longer than the frame": frame(
        header(PRODUCE, 3, 1)
        + struct.pack(">hhi", -1, -1, 1000)
        + struct.pack(">i", 1)
        + string(b"t")
        + struct.pack(">iii", 1, 0, 2**30)
    ),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(193),
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
}


@pytest.mark.parametrize("name", FATAL)
def test_broken_frame_ends_its_connection_alone(victim: Broker, name: str) -> None:
    with RawConnection(victim.bootstrap_servers) as connection:
        connection.ask()
        connection.send(FATAL[name])
        assert connection.is_closed_by_broker()


def test_api_versions_of_the_future_is_answered(victim: Broker) -> None:
    with RawConnection(victim.bootstrap_servers) as connection:
        connection.send(frame(header(API_VERSIONS, 99, 7) + b"\x00"))
        unsupported_version = 35
        assert connection.read_frame()[:6] == struct.pack(">ih", 7, unsupported_version)
        connection.ask()


def test_random_bodies_of_every_api(victim: Broker) -> None:
    chance = random.Random(20)
    before = raw.resident_bytes(victim.pid)
    for api in API_TABLE:
        for version in range(api.lowest, api.highest + 1):
            with RawConnection(victim.bootstrap_servers) as connection:
                body = chance.randbytes(chance.randrange(1, 200))
                connection.send(frame(header(api.key, version, 1) + body))
                connection.socket.shutdown(socket.SHUT_WR)
                connection.is_closed_by_broker()
    assert raw.resident_bytes(victim.pid) - before < 100 * MB


def test_random_bytes_without_any_frame(victim: Broker) -> None:
    chance = random.Random(21)
    for _ in range(100):
        with RawConnection(victim.bootstrap_servers) as connection:
            connection.send(chance.randbytes(chance.randrange(1, 4000)))
            connection.socket.shutdown(socket.SHUT_WR)
            assert connection.is_closed_by_broker()


def test_one_byte_at_a_time(victim: Broker) -> None:
    connections = [RawConnection(victim.bootstrap_servers) for _ in range(30)]
    for byte in raw.api_versions(correlation_id=5):
        for connection in connections:
            connection.send(bytes([byte]))
    for connection in connections:
        with connection:
            assert connection.read_frame()[:6] == struct.pack(">ih", 5, 0)


def test_promised_but_never_sent_bytes_take_no_memory(victim: Broker) -> None:
    before = raw.peak_resident_bytes(victim.pid)
    connections = [RawConnection(victim.bootstrap_servers) for _ in range(100)]
    for connection in connections:
        connection.send(struct.pack(">i", REQUEST_MAX_BYTES) + header(PRODUCE, 9, 1))
    with RawConnection(victim.bootstrap_servers) as other:
        other.ask()
    for connection in connections:
        connection.socket.close()
    assert raw.peak_resident_bytes(victim.pid) - before < 100 * MB


def test_half_closed_connection_is_let_go(victim: Broker) -> None:
    before = raw.open_descriptors(victim.pid)
    for beginning in (b"", raw.api_versions(), raw.api_versions()[:7], struct.pack(">i", 1000)):
        with RawConnection(victim.bootstrap_servers) as connection:
            connection.send(beginning)
            connection.socket.shutdown(socket.SHUT_WR)
            assert connection.is_closed_by_broker()
    assert raw.open_descriptors(victim.pid) <= before


def test_connections_that_come_and_go_leave_no_descriptor(victim: Broker) -> None:
    before = raw.open_descriptors(victim.pid)
    for number in range(500):
        with RawConnection(victim.bootstrap_servers) as connection:
            if number % 2:
                connection.send(raw.api_versions())
    deadline = time.monotonic() + raw.PATIENCE_SECONDS
    while raw.open_descriptors(victim.pid) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert raw.open_descriptors(victim.pid) <= before


def test_client_that_never_reads_its_answers(victim: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": victim.bootstrap_servers})
    for _ in range(8):
        producer.produce(topic, random.Random(22).randbytes(900_000), partition=0)
    assert producer.flush(30) == 0
    before = raw.peak_resident_bytes(victim.pid)
    requests = b"".join(raw.fetch(topic, number, max_bytes=4 * MB) for number in range(2000))
    connections = [RawConnection(victim.bootstrap_servers) for _ in range(5)]
    for connection in connections:
        connection.socket.setblocking(False)
        _send_what_fits(connection.socket, requests)
    with RawConnection(victim.bootstrap_servers) as other:
        for number in range(100):
            other.ask(number)
    for connection in connections:
        connection.socket.close()
    assert raw.peak_resident_bytes(victim.pid) - before < 200 * MB


def _send_what_fits(sock: socket.socket, data: bytes) -> None:
    """Send until the other side has taken nothing for half a second, or all is sent."""
    sent = 0
    deadline = time.monotonic() + 0.5
    while sent < len(data) and time.monotonic() < deadline:
        try:
            sent += sock.send(data[sent : sent + 65536])
        except BlockingIOError:
            time.sleep(0.01)
        else:
            deadline = time.monotonic() + 0.5

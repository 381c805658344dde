"""Clients that mean harm, or are broken: half frames, bodies that make no sense, answers that nobody reads."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from multiprocessing.synchronize import Event

from benchmarks.by_hand import data, frame, text
from benchmarks.first_record import ask, one_record, request_frame
from benchmarks.stalls.row import Place, Row, create
from protocol.records.build import Record, build_batch

AT_ONCE = 50
FETCH, PRODUCE, METADATA = 1, 0, 3
ANNOUNCED, SENT = 1_000_000, 300_000
KINDS = [(PRODUCE, 7), (FETCH, 11), (2, 4), (METADATA, 8), (8, 7), (9, 6), (10, 2), (11, 5), (14, 3), (19, 4), (32, 2)]
"""Requests without tagged fields, by key and version."""
READERS = 100
SLOW_TOPIC = "for-slow-readers"


def half_frames(place: Place, begun: Event, ended: Event) -> None:
    """Open connections, send a part of what is announced, and go."""
    part = struct.pack(">i", ANNOUNCED) + frame(PRODUCE, 7)[4:] + bytes(SENT)
    begun.set()
    while not ended.is_set():
        for connection in _opened(place.ports[0]):
            with connection, contextlib.suppress(OSError):
                connection.sendall(part)


def broken_bodies(place: Place, begun: Event, ended: Event) -> None:
    """Send random bytes where the fields of a request should be."""
    rng = random.Random(1)
    begun.set()
    while not ended.is_set():
        for connection in _opened(place.ports[0]):
            with connection, contextlib.suppress(OSError):
                kind, version = rng.choice(KINDS)
                connection.sendall(frame(kind, version, rng.randbytes(rng.randrange(1, 20_000))))


def slow_readers(place: Place, begun: Event, ended: Event) -> None:
    """Ask for all that a topic has, and read it a little at a time; who has waited a while begins anew."""
    create(place, [SLOW_TOPIC])
    _fill(place.ports[0])
    begun.set()
    fetch = _fetch()
    while not ended.is_set():
        readers = _opened(place.ports[0], READERS)
        for reader in readers:
            reader.sendall(fetch)
        until = time.monotonic() + 2
        while time.monotonic() < until and not ended.is_set():
            for reader in readers:
                reader.recv(4096)
            time.sleep(0.01)
        for reader in readers:
            reader.close()


def _opened(port: int, count: int = AT_ONCE) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]


def _fill(port: int) -> None:
    """50 MB of records."""
    batch = bytes(build_batch([Record(n, time.time_ns() // 10**6, None, bytes(900)) for n in range(1000)]))
    place = struct.pack(">i", 1) + text(SLOW_TOPIC) + struct.pack(">ii", 1, 0)
    request = frame(PRODUCE, 7, struct.pack(">hhi", -1, -1, 30_000), place, data(batch))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while ask(connection, request_frame(PRODUCE, 3, one_record(SLOW_TOPIC.encode(), b"first")))[-14:-12] != b"\0\0":
            time.sleep(0.01)
        for _ in range(55):
            ask(connection, request)


def _fetch() -> bytes:
    most = 50_000_000
    head = struct.pack(">iiiib", -1, 500, 1, most, 0)
    partition = struct.pack(">i", 1) + text(SLOW_TOPIC) + struct.pack(">iiqi", 1, 0, 0, most)
    return frame(FETCH, 4, head, partition)


ROWS = (
    Row("half-frames", half_frames),
    Row("broken-bodies", broken_bodies),
    Row("slow-readers", slow_readers),
)

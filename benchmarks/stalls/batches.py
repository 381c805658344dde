"""Batches that take long to check: recompressed, of a million records, unpacked to a hundred times their size."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Event

from confluent_kafka.admin import NewTopic

from benchmarks.by_hand import data, frame, text
from benchmarks.stalls.row import Place, Row
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression

PRODUCE, PRODUCE_VERSION = 0, 7
SETTINGS = {"message.max.bytes": "60000000", "socket.request.max.bytes": "104857600"}


def recompressed() -> bytes:
    """20 MB of records that compress to about a fifth."""
    rng = random.Random(1)
    value = bytes(rng.choices(b"abcdefgh ", k=1000))
    records = [Record(n, _now_ms(), None, value[n % 500 :] + value[: n % 500]) for n in range(20_000)]
    return bytes(build_batch(records, compression=Compression.LZ4))


def many() -> bytes:
    return bytes(
        build_batch([Record(n, _now_ms(), None, b"v%d" % n) for n in range(1_000_000)], compression=Compression.LZ4)
    )


def bomb() -> bytes:
    return bytes(build_batch([Record(0, _now_ms(), None, bytes(100_000_000))], compression=Compression.GZIP))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def produce(made: Callable[[], bytes], compression: str, place: Place, begun: Event, ended: Event) -> None:
    """Produce a batch again and again, to a topic with that `compression.type`."""
    batch = made()
    topic = f"batches-{time.monotonic_ns()}"
    admin = place.admin()
    config = {"compression.type": compression, "retention.bytes": "100000000", "segment.bytes": "100000000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    head = struct.pack(">hhi", -1, -1, 30_000)  # no transactional id, acks=all, its timeout
    request = frame(
        PRODUCE, PRODUCE_VERSION, head, struct.pack(">i", 1), text(topic), struct.pack(">ii", 1, 0), data(batch)
    )
    with socket.create_connection(("127.0.0.1", place.ports[0])) as connection:
        while not ended.is_set():
            connection.sendall(request)
            begun.set()
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            connection.recv(size, socket.MSG_WAITALL)
    admin.delete_topics([topic])[topic].result(30)


ROWS = (
    Row("recompressed", partial(produce, recompressed, "gzip"), settings=SETTINGS),
    Row("many-records", partial(produce, many, "producer"), settings=SETTINGS),
    Row("bomb", partial(produce, bomb, "producer"), settings=SETTINGS),
)

"""Consumers that ask for 50 MB at once: `python -m benchmarks.large_fetches --help`.

Forty connections send a Fetch of five partitions with 10 MB each. None of them takes its answer at first, as consumers
with a slow network do, then each takes all of it; after that one of them asks again and again.
"""

from __future__ import annotations

import socket
import struct
import time

from confluent_kafka import Producer

from benchmarks.by_hand import frame, text
from benchmarks.compaction import resident_mb
from benchmarks.compare import compare
from benchmarks.contenders import Contender
from benchmarks.measures import MEGABYTE, Topic, cpu_seconds

CONSUMERS = 40
PARTITIONS = 5
PARTITION_BYTES = 10 * MEGABYTE
SETTLED_SECONDS = 3.0
REPEATED = 40


def one_pass(contender: Contender) -> dict[str, float]:
    """Every measure once, by name."""
    with Topic(f"127.0.0.1:{contender.port}", PARTITIONS) as topic:
        fill(f"127.0.0.1:{contender.port}", topic)
        request = fetch(topic)
        sockets = [socket.create_connection(("127.0.0.1", contender.port)) for _ in range(CONSUMERS)]
        before = resident_mb(contender.pid())
        for one in sockets:
            one.sendall(request)
        time.sleep(SETTLED_SECONDS)
        found = {"memory for 40 untaken answers, MB": resident_mb(contender.pid()) - before}
        for one in sockets:
            take(one)
        cpu, began, taken = cpu_seconds(contender.pid()), time.perf_counter(), 0
        for _ in range(REPEATED):
            sockets[0].sendall(request)
            taken += take(sockets[0])
        found["one consumer, MB/s"] = taken / MEGABYTE / (time.perf_counter() - began)
        found["one consumer, broker CPU ms/MB"] = (cpu_seconds(contender.pid()) - cpu) * 1000 * MEGABYTE / taken
        for one in sockets:
            one.close()
    return found


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for _ in range(PARTITION_BYTES // 1000 * 11 // 10):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"x" * 1000, partition=partition)
        producer.poll(0)
    assert producer.flush(120) == 0


def fetch(topic: str) -> bytes:
    """A Fetch 4 of all partitions from their beginnings."""
    limits = struct.pack(">iiiib", -1, 500, 1, PARTITIONS * PARTITION_BYTES, 0)
    partitions = [struct.pack(">iqi", partition, 0, PARTITION_BYTES) for partition in range(PARTITIONS)]
    return frame(1, 4, limits, struct.pack(">i", 1), text(topic), struct.pack(">i", PARTITIONS), *partitions)


def take(sock: socket.socket) -> int:
    """Take a whole answer and return its size in bytes."""
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    assert size > PARTITIONS * PARTITION_BYTES, "an answer without all partitions' records"
    buffer = bytearray(MEGABYTE)
    left: int = size
    while left:
        left -= sock.recv_into(buffer)
    return int(size)


if __name__ == "__main__":
    compare("python -m benchmarks.large_fetches", __doc__, one_pass)

"""How long a small client waits while another sends what takes long to check: `python -m benchmarks.stall --help`.

The small client asks for the versions of the APIs, a request every 2 ms, on a connection of its own. Meanwhile a second
process produces, one batch after the other: 20 MB of records in lz4 to a topic that is stored as gzip; a million small
records in lz4; or gzip that unpacks to a hundred times its size. Printed are the 99th percentile and the longest of the
small client's waits, in ms.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.by_hand import data, frame, text
from benchmarks.contenders import Contender, arguments, contenders, serving
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression

PRODUCE, PRODUCE_VERSION = 0, 7
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
PAUSE_S = 0.002
SETTINGS = {"message.max.bytes": "60000000", "socket.request.max.bytes": "104857600"}


def _recompressed() -> bytes:
    """20 MB of records that compress to about a fifth."""
    rng = random.Random(1)
    value = bytes(rng.choices(b"abcdefgh ", k=1000))
    records = [Record(n, _now_ms(), None, value[n % 500 :] + value[: n % 500]) for n in range(20_000)]
    return bytes(build_batch(records, compression=Compression.LZ4))


def _many() -> bytes:
    return bytes(
        build_batch([Record(n, _now_ms(), None, b"v%d" % n) for n in range(1_000_000)], compression=Compression.LZ4)
    )


def _bomb() -> bytes:
    return bytes(build_batch([Record(0, _now_ms(), None, bytes(100_000_000))], compression=Compression.GZIP))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


WORKS: dict[str, tuple[Callable[[], bytes], str]] = {
    "recompressed": (_recompressed, "gzip"),
    "many records": (_many, "producer"),
    "bomb": (_bomb, "producer"),
}
"""The batch, and the topic's `compression.type`."""


def send(port: int, topic: str, work: str, begun: Event, ended: Event) -> None:
    """Produce the batch again and again until `ended`."""
    batch = WORKS[work][0]()
    head = struct.pack(">hhi", -1, -1, 30_000)  # no transactional id, acks=all, its timeout
    request = frame(
        PRODUCE, PRODUCE_VERSION, head, struct.pack(">i", 1), text(topic), struct.pack(">ii", 1, 0), data(batch)
    )
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while not ended.is_set():
            connection.sendall(request)
            begun.set()
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            connection.recv(size, socket.MSG_WAITALL)


def waits(port: int, seconds: float) -> list[float]:
    """How long each request of the small client took, in ms."""
    found: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            began = time.perf_counter()
            connection.sendall(API_VERSIONS)
            size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            connection.recv(size, socket.MSG_WAITALL)
            found.append((time.perf_counter() - began) * 1e3)
            time.sleep(PAUSE_S)
    return found


def one_pass(contender: Contender, work: str, seconds: float) -> tuple[float, float]:
    """The 99th percentile and the longest of the waits, in ms."""
    topic = f"{work.replace(' ', '-')}-{time.monotonic_ns()}"
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{contender.port}"})
    config = {"compression.type": WORKS[work][1], "retention.bytes": "100000000", "segment.bytes": "100000000"}
    admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    spawning = multiprocessing.get_context("spawn")
    begun, ended = spawning.Event(), spawning.Event()
    sender = spawning.Process(target=send, args=(contender.port, topic, work, begun, ended))
    sender.start()
    begun.wait(60)
    found = waits(contender.port, seconds)
    ended.set()
    sender.join(60)
    admin.delete_topics([topic])[topic].result(30)
    return statistics.quantiles(found, n=100)[-1], max(found)


def main() -> None:
    parser = arguments("python -m benchmarks.stall", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    options = parser.parse_args()
    measured = contenders(options.kafka, options.alone, SETTINGS)
    with contextlib.ExitStack() as running:
        for contender in measured:
            running.enter_context(serving(contender))
            one_pass(contender, options.works[0], 3.0)  # warms up
        for work in options.works:
            figures: dict[str, list[tuple[float, float]]] = {contender.name: [] for contender in measured}
            for _ in range(options.rounds):
                for contender in measured:
                    figures[contender.name].append(one_pass(contender, work, options.seconds))
            for name, passes in figures.items():
                p99, longest = (statistics.median(values) for values in zip(*passes, strict=True))
                sys.stdout.write(f"{work}, {name}: p99 {p99:.1f} ms, longest {longest:.1f} ms\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()

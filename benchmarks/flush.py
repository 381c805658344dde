"""Flush before acknowledgement (`flush.messages=1`), beside Apache Kafka: `python -m benchmarks.flush --help`.

Each producer sends a record to one partition, waits for it and sends the next. Measured: records per second over all
producers, and how long each record waits.
"""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import threading
import time

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.contenders import arguments, contenders, serving
from benchmarks.first_record import ask, one_record, request_frame

TOPIC = "flushed"
PRODUCERS = (1, 10, 100)


def main() -> None:
    options = _options()
    for contender in contenders(options.kafka, options.alone):
        with serving(contender):
            make_topic(contender.port)
            measure(contender.port, 4, options.seconds)  # not counted
            for producers in PRODUCERS:
                waits = sorted(measure(contender.port, producers, options.seconds))
                sys.stdout.write(
                    f"{contender.name}: {producers} producers: {len(waits) / options.seconds:.0f} records/s, "
                    f"p50 {waits[len(waits) // 2]:.2f} ms, p99 {waits[len(waits) * 99 // 100]:.2f} ms\n"
                )
                sys.stdout.flush()


def make_topic(port: int) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"flush.messages": "1"})])[TOPIC].result(30)


def measure(port: int, producers: int, seconds: float) -> list[float]:
    """The milliseconds that each record took."""
    produce = request_frame(0, 3, one_record(TOPIC.encode(), b"x" * 100))
    waits: list[list[float]] = [[] for _ in range(producers)]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=_produce, args=(port, produce, until, one)) for one in waits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [wait for one in waits for wait in one]


def _produce(port: int, produce: bytes, until: float, waits: list[float]) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.perf_counter()) and time.monotonic() < until:
            answer = ask(connection, produce)
            (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)
            assert error == 0, error
            waits.append((time.perf_counter() - began) * 1000)


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.flush", __doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of producers")
    return parser.parse_args()


if __name__ == "__main__":
    main()

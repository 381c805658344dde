"""Many connections, each with one small Produce at a time: `python -m benchmarks.many_connections --help`.

Each connection sends one record of 100 bytes with acks=all and waits for the answer before the next. The clients speak
the protocol by hand and share the machine's cores with the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import struct
import sys
import time
from collections.abc import Sequence

import uvloop

from benchmarks.by_hand import Asker, data, flood, frame, text
from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.measures import PARTITIONS, Topic, cpu_seconds
from protocol.records.build import Record, build_batch

PRODUCE, VERSION = 0, 7
SECONDS = 4.0


def produce(topic: str, partition: int) -> bytes:
    batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, b"v" * 100)])
    head = struct.pack(">hhi", -1, -1, 30_000)  # no transactional id, acks=all, its timeout
    return frame(
        PRODUCE, VERSION, head, struct.pack(">i", 1), text(topic), struct.pack(">ii", 1, partition), data(bytes(batch))
    )


async def measure(leaders: Sequence[int], pids: Sequence[int], topic: str, connections: int) -> tuple[float, float]:
    """Requests per second, and the brokers' CPU in us for each; `leaders` is the port of each partition's leader."""
    loop = asyncio.get_running_loop()
    partitions = [number % len(leaders) for number in range(connections)]
    askers = [(await loop.create_connection(Asker, "127.0.0.1", leaders[index]))[1] for index in partitions]
    requests = [produce(topic, index) for index in partitions]
    for asker, request in zip(askers, requests, strict=True):
        await accepted(asker, request, 4 + 2 + len(topic) + 4 + 4)
    before = sum(map(cpu_seconds, pids))
    rate = await flood(askers, requests, SECONDS)
    for asker in askers:
        asker.transport.close()
    return rate, (sum(map(cpu_seconds, pids)) - before) * 1e6 / (rate * SECONDS)


async def accepted(asker: Asker, request: bytes, error: int) -> None:
    """Repeat a request until there is no error code, which is at `error`: Kafka makes a new topic known late."""
    for _ in range(100):
        if (await asker.ask(request))[error : error + 2] == b"\0\0":
            return
        await asyncio.sleep(0.1)
    raise RuntimeError("refused")


def one_pass(contender: Contender, connections: int) -> tuple[float, float]:
    with Topic(f"127.0.0.1:{contender.port}") as topic:
        return uvloop.run(measure([contender.port] * PARTITIONS, [contender.pid()], topic, connections))


def main() -> None:
    parser = arguments("python -m benchmarks.many_connections", __doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 50, 500])
    options = parser.parse_args()
    measured = contenders(options.kafka, options.alone)
    with contextlib.ExitStack() as running:
        for contender in measured:
            one_pass(running.enter_context(serving(contender)), max(options.connections))  # warms up
        for connections in options.connections:
            for contender in measured:
                passes = [one_pass(contender, connections) for _ in range(options.rounds)]
                rate, cpu = (statistics.median(figures) for figures in zip(*passes, strict=True))
                sys.stdout.write(
                    f"{connections} connections, {contender.name}: {rate:,.0f}/s, {cpu:.0f} us of CPU each\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()

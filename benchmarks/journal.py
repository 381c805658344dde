"""What the journal costs a broker: `python -m benchmarks.journal`.

Two brokers, of which only one has a control interface and so keeps a journal, are asked by turns, by the same client
over sockets. The figure is the broker's own CPU time for a request (microseconds), since that does not depend on what
else the machine does: the median of the rounds, and the difference.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import struct
from datetime import timedelta

import uvloop

from benchmarks.by_hand import Asker, data, flood, frame, text
from benchmarks.measures import cpu_seconds
from odradek import Broker
from protocol.records.build import Record, build_batch

TOPIC = "bench"
CONNECTIONS = 8
RECORDS, RECORD_BYTES = 10, 100
PRODUCE, FETCH, METADATA = 0, 1, 3
MAX_WAIT_MS, MAX_BYTES = 0, 1 << 20


def requests() -> dict[str, bytes]:
    """A request of each kind, whole frames."""
    batch = bytes(build_batch([Record(i, 0, None, bytes(RECORD_BYTES)) for i in range(RECORDS)]))
    one = struct.pack(">i", 1)
    produce = frame(
        PRODUCE,
        7,
        struct.pack(">hhi", -1, -1, int(timedelta(seconds=30).total_seconds() * 1000)),
        one + text(TOPIC) + one + struct.pack(">i", 0) + data(batch),
    )
    fetch = frame(
        FETCH,
        4,
        struct.pack(">iiiib", -1, MAX_WAIT_MS, 0, MAX_BYTES, 0),
        one + text(TOPIC) + one + struct.pack(">iqi", 0, 0, len(batch)),
    )
    return {
        f"Produce of {RECORDS} x {RECORD_BYTES} bytes": produce,
        f"Fetch of {len(batch)} bytes": fetch,
        "Metadata of a topic": frame(METADATA, 1, one + text(TOPIC)),
    }


async def connect(broker: Broker) -> list[Asker]:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Asker, host, int(port)))[1] for _ in range(CONNECTIONS)]


async def cpu_us(broker: Broker, askers: list[Asker], request: bytes, seconds: float) -> float:
    """The broker's CPU time for a request, in microseconds."""
    before = cpu_seconds(broker.pid)
    rate = await flood(askers, [request] * len(askers), seconds)
    return (cpu_seconds(broker.pid) - before) / (rate * seconds) * 1e6


async def compare(rounds: int, seconds: float) -> None:
    settings = {"odradek.create.topics": f"{TOPIC}:1:1", "log.retention.ms": -1}
    with Broker({**settings, "odradek.control": ""}) as without, Broker(settings) as with_journal:
        connections = {broker: await connect(broker) for broker in (without, with_journal)}
        for name, request in requests().items():
            taken: dict[Broker, list[float]] = {without: [], with_journal: []}
            for _ in range(rounds):
                for broker, askers in connections.items():
                    taken[broker].append(await cpu_us(broker, askers, request, seconds))
            off, on = (statistics.median(taken[broker]) for broker in (without, with_journal))
            print(f"{name}: {off:.1f} us without, {on:.1f} us with a journal: {(on / off - 1) * 100:+.1f} %")  # noqa: T201


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--seconds", type=float, default=0.5, help="of each round and broker")
    given = options.parse_args()
    uvloop.run(compare(given.rounds, given.seconds))


if __name__ == "__main__":
    main()

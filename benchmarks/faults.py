"""What faults cost where none strikes: `python -m benchmarks.faults --help`.

CPU time of the broker for a request, so that a busy machine matters little. Each connection sends its next request once
the last is answered. Every broker has a control interface but the first; the rest differ in the faults that are set.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import struct
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.by_hand import Asker, data, flood, frame, text
from benchmarks.measures import cpu_seconds
from odradek import Broker
from protocol.records.build import Record, build_batch

PRODUCE, FETCH = 0, 1
CONNECTIONS = 8
TOPIC = "bench"

Variant = tuple[str, dict[str, Any], Callable[[Broker], object]]

VARIANTS: list[Variant] = [
    ("no control interface", {"odradek.control": ""}, lambda _: None),
    ("no fault", {}, lambda _: None),
    ("a fault of another API", {}, lambda broker: broker.fault(api="EndTxn", error="PRODUCER_FENCED")),
    ("a fault of another client", {}, lambda broker: broker.fault(client_id="other", error=7)),
    ("a fault of another topic", {}, lambda broker: broker.fault(api="Produce", topic="other", error=7)),
    ("a slow connection of another client", {}, lambda broker: broker.throttle(client_id="other", bytes_per_second=1)),
]


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.faults", description="What faults cost where none strikes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measure")
    options = parser.parse_args()
    found: dict[str, list[list[float]]] = {name: [] for name, _, _ in VARIANTS}
    for number in range(options.rounds):
        sys.stderr.write(f"round {number + 1} of {options.rounds}\n")
        for name, settings, set_fault in VARIANTS if number % 2 == 0 else reversed(VARIANTS):
            with Broker({**settings, "odradek.create.topics": f"{TOPIC}:1"}, profile="kafka") as broker:
                set_fault(broker)
                found[name].append([asyncio.run(measure(broker, one, options.seconds)) for one in (produce(), fetch())])
    sys.stdout.write(f"{'CPU us a request, median of the rounds':44}{'Produce':>10}{'Fetch':>10}\n")
    for name, rounds in found.items():
        medians = [statistics.median(figures) for figures in zip(*rounds, strict=True)]
        sys.stdout.write(f"{name:44}" + "".join(f"{median:10.1f}" for median in medians) + "\n")


def produce() -> bytes:
    """One record of 100 bytes, acks=1, version 3."""
    batch = bytes(build_batch([Record(0, 0, None, bytes(100))]))
    head = struct.pack(">hhii", -1, 1, 30_000, 1) + text(TOPIC)
    return frame(PRODUCE, 3, head, struct.pack(">ii", 1, 0), data(batch))


def fetch() -> bytes:
    """From offset 0, at most 1,000 bytes, version 4."""
    head = struct.pack(">iiiib", -1, 0, 0, 1000, 0) + struct.pack(">i", 1) + text(TOPIC)
    return frame(FETCH, 4, head, struct.pack(">iiqi", 1, 0, 0, 1000))


async def measure(broker: Broker, request: bytes, seconds: float) -> float:
    """Microseconds of CPU time that the broker uses for a request."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    loop = asyncio.get_running_loop()
    askers = [(await loop.create_connection(Asker, host, int(port)))[1] for _ in range(CONNECTIONS)]
    await flood(askers, [request] * CONNECTIONS, 0.5)
    before = cpu_seconds(broker.pid)
    rate = await flood(askers, [request] * CONNECTIONS, seconds)
    used = cpu_seconds(broker.pid) - before
    for asker in askers:
        asker.transport.close()
    return used * 1e6 / (rate * seconds)


if __name__ == "__main__":
    main()

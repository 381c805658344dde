"""Compaction of many updates of few keys, beside Apache Kafka's: `python -m benchmarks.compaction --help`.

The cleaner is held back while the updates are written, and then released. Measured from then until the checkpoint says
that everything is clean: the time, the largest resident set, and the longest round trip of a client that keeps asking
for the broker's versions. That round trip includes the loop's longest stall and whatever else the machine does, which
the same measurement without compaction shows.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benchmarks.contenders import Contender, arguments, contenders, serving
from benchmarks.first_record import ask

TOPIC = "updates"
NEVER_MS = 2**62
HELD_BACK = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": str(NEVER_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(32 << 20),
    "file.delete.delay.ms": "100",
}
SETTINGS = {"log.cleaner.backoff.ms": "100"}
POLL_SECONDS = 0.02
IDLE_SECONDS = 5
GIVE_UP_SECONDS = 600


class HasFolder(Protocol):
    """A broker, as far as its files are concerned."""

    @property
    def folder(self) -> Path: ...


@dataclass(slots=True)
class Watch:
    """Resident megabytes and round trips in milliseconds, for as long as it runs."""

    pid: int
    port: int
    memory_mb: float = 0.0
    trips_ms: list[float] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        api_versions = struct.pack(">ihhih", 10, 18, 0, 1, -1)
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self.stopped.is_set():
                began = time.perf_counter()
                ask(connection, api_versions)
                self.trips_ms.append((time.perf_counter() - began) * 1000)
                self.memory_mb = max(self.memory_mb, resident_mb(self.pid))
                time.sleep(0.001)


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    options = _options()
    for contender in contenders(options.kafka, options.alone, SETTINGS):
        with serving(contender):
            measure(contender, options.updates, options.keys)


def measure(contender: Contender, updates: int, keys: int) -> None:
    servers = f"127.0.0.1:{contender.port}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=HELD_BACK)])[TOPIC].result(30)
    fill(servers, updates, keys)
    before = size_of(contender)
    idle = Watch(contender.pid(), contender.port)
    thread = threading.Thread(target=idle.run)
    thread.start()
    time.sleep(IDLE_SECONDS)
    idle.stopped.set()
    thread.join()
    watch = Watch(contender.pid(), contender.port)
    idle_mb = resident_mb(watch.pid)
    thread = threading.Thread(target=watch.run)
    thread.start()
    began = time.monotonic()
    set_lag(admin, 0)
    while cleaned_to(contender) < updates:
        if time.monotonic() - began > GIVE_UP_SECONDS:
            raise TimeoutError("the log was not cleaned")
        time.sleep(POLL_SECONDS)
    took = time.monotonic() - began
    watch.stopped.set()
    thread.join()
    time.sleep(1)
    trips = sorted(watch.trips_ms)
    left = check(servers, updates, keys)
    sys.stdout.write(
        f"{contender.name}: {updates} updates of {keys} keys in {took:.1f} s, {updates / took / 1000:.0f}k records/s; "
        f"{before / 2**20:.1f} MB to {size_of(contender) / 2**20:.2f} MB, {left} records left; "
        f"memory {idle_mb:.0f} to {watch.memory_mb:.0f} MB; round trip p50 {trips[len(trips) // 2]:.2f} ms, "
        f"p99 {trips[len(trips) * 99 // 100]:.2f} ms, longest {trips[-1]:.1f} ms "
        f"({max(idle.trips_ms):.1f} ms without compaction)\n"
    )


def fill(servers: str, updates: int, keys: int) -> None:
    """Write every key in turn; its last value is its number in the last round. One more record seals the segment."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 10**6})
    for number in range(updates):
        while True:
            try:
                producer.produce(TOPIC, key=b"key-%d" % (number % keys), value=b"value-%d" % number)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(120) == 0
    admin = AdminClient({"bootstrap.servers": servers})
    set_config(admin, "segment.ms", "1")
    time.sleep(0.1)
    producer.produce(TOPIC, key=b"last", value=b"record")
    assert producer.flush(30) == 0
    set_config(admin, "segment.ms", str(7 * 24 * 3600 * 1000))


def set_lag(admin: AdminClient, lag_ms: int) -> None:
    set_config(admin, "min.compaction.lag.ms", str(lag_ms))


def set_config(admin: AdminClient, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def cleaned_to(contender: HasFolder) -> int:
    path = contender.folder / "data" / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), default=0)


def size_of(contender: Contender) -> int:
    return sum(path.stat().st_size for path in (contender.folder / "data" / f"{TOPIC}-0").glob("*.log"))


def check(servers: str, updates: int, keys: int) -> int:
    """Read all that is left: exactly the last value of each key. Returns the number of records."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "check", "enable.auto.commit": False})
    end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), 30)[1]
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, bytes] = {}
    read = 0
    while True:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        read += 1
        found[bytes(message.key() or b"")] = bytes(message.value() or b"")
        if message.offset() == end - 1:
            break
    consumer.close()
    expected = {b"key-%d" % (number % keys): b"value-%d" % number for number in range(updates - keys, updates)}
    assert found == expected | {b"last": b"record"}
    assert read == keys + 1
    return read


def _options() -> argparse.Namespace:
    parser = arguments("python -m benchmarks.compaction", __doc__)
    parser.add_argument("--updates", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Mixed load with retention and compaction on: what the broker holds for it is given back when the load ends.

12 seconds here; `ODRADEK_SOAK_SECONDS=1800` is the long form.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker

SECONDS = float(os.environ.get("ODRADEK_SOAK_SECONDS", "12"))
WARM_UP_SECONDS = min(4.0, SECONDS / 4)
LOOKS = 30
THREADS = 40
"""There are nine kinds of disk work; each has up to four threads, which are made when work of it overlaps."""
PATIENCE_SECONDS = 20.0
MEMORY_MB = 25.0
SETTINGS = {
    "odradek.http.port": "0",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "300",
    "log.segment.bytes": str(1 << 20),
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "500",
}
TOPICS = {
    "trimmed": {"retention.bytes": str(2 << 20), "file.delete.delay.ms": "100"},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.1",
        "file.delete.delay.ms": "100",
        "segment.ms": "1000",
    },
}

pytestmark = [pytest.mark.usefixtures("own_cluster"), pytest.mark.timeout(SECONDS + 120)]


class Load:
    """Threads that produce, write transactions and consume until the end of the `with` block."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.failures: list[str] = []
        self.done = dict.fromkeys(("trimmed", "compacted", "transactions", "consumed"), 0)
        work = (self._trimmed, self._compacted, self._transact, self._consume)
        self._threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in work]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - told by the test, whatever it is
            self.failures.append(f"{work.__name__}: {error!r}")

    def _producer(self, **options: Any) -> Producer:
        return Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5} | options)

    def _produce(self, producer: Producer, topic: str, keys: int, value: bytes) -> None:
        while not self._stop.is_set():
            for number in range(200):
                producer.produce(topic, key=b"%d" % (number % keys), value=value)
            assert producer.flush(30) == 0
            self.done[topic] += 200
            self._stop.wait(0.02)

    def _trimmed(self) -> None:
        self._produce(self._producer(), "trimmed", 200, b"x" * 1000)

    def _compacted(self) -> None:
        self._produce(self._producer(**{"enable.idempotence": True}), "compacted", 20, b"y" * 200)

    def _transact(self) -> None:
        producer = self._producer(**{"transactional.id": "soak"})
        producer.init_transactions(30)
        while not self._stop.is_set():
            producer.begin_transaction()
            producer.produce("trimmed", b"in a transaction")
            if self.done["transactions"] % 3:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
            self.done["transactions"] += 1
            self._stop.wait(0.02)

    def _consume(self) -> None:
        while not self._stop.is_set():
            consumer = Consumer(
                {"bootstrap.servers": self._bootstrap, "group.id": "soak", "auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["trimmed", "compacted"])
            until = time.monotonic() + 3
            while time.monotonic() < until and not self._stop.is_set():
                self.done["consumed"] += sum(one.error() is None for one in consumer.consume(500, 0.2))
            consumer.close()


class Held:
    """What a process holds: descriptors, memory, waiting operations."""

    def __init__(self, broker: Broker) -> None:
        process = Path(f"/proc/{broker.pid}")
        self.descriptors = len(list((process / "fd").iterdir()))
        self.memory_mb = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        self.threads = len(list((process / "task").iterdir()))
        url = f"http://127.0.0.1:{broker.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = [line.rsplit(" ", 1) for line in lines if line[0] != "#"]
        self.waiting = sum(float(value) for name, value in values if "purgatory" in name)
        self.timers = sum(float(value) for name, value in values if name == "odradek_timers")

    def __str__(self) -> str:
        return (
            f"{self.memory_mb:.1f} MB, {self.descriptors} descriptors, {self.threads} threads, "
            f"{self.timers:.0f} timers, {self.waiting:.0f} in purgatories"
        )


def settled(broker: Broker, wanted: Callable[[Held], bool]) -> Held:
    """What is held once it is as wanted, or after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not wanted(held := Held(broker)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return held


def size_of(broker: Broker, topic: str, *, at_most: int) -> int:
    """The bytes of its segments, once they are few enough, or after a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        size = sum(path.stat().st_size for path in (broker.data_dir / f"{topic}-0").glob("*.log"))
        if size <= at_most or time.monotonic() > deadline:
            return size
        time.sleep(0.2)


def test_what_a_load_takes_is_given_back() -> None:
    with Broker(SETTINGS, profile="dev") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
        for made in admin.create_topics(topics).values():
            made.result(30)
        with Load(broker.bootstrap_servers) as warm_up:
            time.sleep(WARM_UP_SECONDS)
        before = settled(broker, lambda held: held.waiting == 0)
        told = [f"before: {before}"]
        with Load(broker.bootstrap_servers) as load:
            for minute in range(LOOKS):
                time.sleep((SECONDS - WARM_UP_SECONDS) / LOOKS)
                told.append(f"under load, {minute + 1} of {LOOKS}: {Held(broker)}, done {load.done}")
        after = settled(broker, lambda held: held.waiting == 0 and held.descriptors <= before.descriptors + 4)
        told.append(f"after: {after}")
        sys.stdout.write("\n".join(told) + "\n")
        assert warm_up.failures + load.failures == []
        assert all(load.done.values()), load.done
        assert after.waiting == 0
        assert after.timers <= before.timers + 4
        assert after.descriptors <= before.descriptors + 4
        assert after.threads <= THREADS
        assert after.memory_mb <= before.memory_mb + MEMORY_MB
        for topic, most in (("trimmed", 4 << 20), ("compacted", 6 << 20)):
            assert size_of(broker, topic, at_most=most) <= most
        log = broker.log()
        assert "cleaned log" in log
        assert "removing segments" in log
        assert "Traceback" not in log
        assert '"error"' not in log
        assert broker.stop() == 0

"""Idempotent producers that write to a topic until they are told to stop, and checks of what was acknowledged."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from protocol.records.batch import LOG_OVERHEAD, read_header
from protocol.records.build import iter_records
from tests.client.kafka_node import command
from tests.cluster.reader import Reader
from tests.crash.reading import COMPLAINTS, GAP
from tests.messages import place_of, value_of

PAUSE_S = 0.002
DELIVERY_SECONDS = 180


class Load:
    """One producer in a thread. `acknowledged` has the value at each (partition, offset)."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "delivery.timeout.ms": DELIVERY_SECONDS * 1000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send nothing more; return once everything sent was acknowledged or has failed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_S):
            value = f"{self._name}-{number}".encode()
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self._producer.flush(DELIVERY_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[place_of(message)] = value_of(message)
        else:
            self.failed.append(str(error))


def complaints(data_dir: Path) -> list[str]:
    """Lines in which Kafka's DumpLogSegments finds fault with a log."""
    logs = sorted(map(str, data_dir.glob("*-*/*.log")))
    assert logs
    tool = command("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(logs))
    run = subprocess.run(tool, capture_output=True, timeout=300, check=True)
    lines = (run.stdout + run.stderr).decode().splitlines()
    return [line for line in lines if GAP.match(line) or any(word in line.lower() for word in COMPLAINTS)]


def batches_of(data_dir: Path, topic: str, partition: int) -> bytes:
    """The bytes of all batches of a replica, whatever its segments are."""
    return b"".join(path.read_bytes() for path in sorted((data_dir / f"{topic}-{partition}").glob("*.log")))


def records_of(data: bytes) -> dict[int, bytes]:
    """Offset to value."""
    found: dict[int, bytes] = {}
    at = 0
    while at + LOG_OVERHEAD < len(data):
        header = read_header(data, at)
        batch = data[at : at + header.size]
        if not header.is_control:
            found.update((record.offset, record.value or b"") for record in iter_records(batch, header))
        at += header.size
    return found


def check_replicas(folders: Sequence[Path], topic: str, partitions: int, loads: Sequence[Load | Reader]) -> int:
    """Check that all replicas are equal, and have everything acknowledged or read, once; return how many records."""
    total = 0
    for partition in range(partitions):
        contents = [batches_of(folder, topic, partition) for folder in folders]
        assert contents[0], f"{topic}-{partition} is empty"
        assert all(one == contents[0] for one in contents), f"the replicas of {topic}-{partition} differ"
        held = records_of(contents[0])
        assert sorted(held) == list(range(len(held)))
        values = list(held.values())
        assert len(set(values)) == len(values), f"a record of {topic}-{partition} is there twice"
        for load in loads:
            known = load.seen if isinstance(load, Reader) else load.acknowledged
            for (index, offset), value in known.items():
                if index == partition:
                    assert held.get(offset) == value, f"{value!r} was at {topic}-{partition} {offset}"
        total += len(held)
    return total

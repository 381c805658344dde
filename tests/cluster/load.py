"""Idempotent producers that write to a topic until they are told to stop, and checks of what was acknowledged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from protocol.records.batch import LOG_OVERHEAD, BatchHeader, read_header
from protocol.records.build import iter_records
from tests.client.kafka_node import command
from tests.cluster.reader import Reader
from tests.cluster.worker import Worker
from tests.crash.reading import COMPLAINTS, GAP
from tests.messages import partition_of, place_of, value_of

PAUSE_S = 0.002
DELIVERY_SECONDS = 180


class Load(Worker):
    """One producer in a thread.

    Attributes:
        acknowledged: the value at each (partition, offset).
        unplaced: partition and value of those acknowledged without an offset: librdkafka learns from a later record's
            acknowledgement that they have arrived, too.
        failed: why records were not taken.

    With more than one request in flight, librdkafka may write a record twice when leaders move (`twice`). What waits
    while there is no leader is sent in batches of `batch` records at most: each must fit into a segment.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, name: str, in_flight: int = 5, batch: int = 10_000
    ) -> None:
        super().__init__()
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.unplaced: set[tuple[int, bytes]] = set()
        self.failed: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._name = name
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "max.in.flight": in_flight,
                "batch.num.messages": batch,
                "linger.ms": 1,
                "delivery.timeout.ms": DELIVERY_SECONDS * 1000,
                "log_level": 0,
            }
        )

    def work(self) -> None:
        """Send; in the end, wait until everything sent was acknowledged or has failed."""
        number = 0
        while not self.told_to_stop.wait(PAUSE_S):
            value = f"{self._name}-{number}".encode()
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1
        self._producer.flush(DELIVERY_SECONDS)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        elif message.offset() is None:
            self.unplaced.add((partition_of(message), value_of(message)))
        else:
            self.acknowledged[place_of(message)] = value_of(message)

    def check_all(self, found: Mapping[tuple[int, int], bytes | None]) -> None:
        """Check that what was acknowledged, and nothing else, is what was found at each (partition, offset)."""
        unplaced = {at: value for at, value in found.items() if (at[0], value) in self.unplaced}
        assert {at: value for at, value in found.items() if at not in unplaced} == self.acknowledged
        assert len(unplaced) == len(self.unplaced)


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
    for header, batch in whole_batches(data):
        found.update((record.offset, record.value or b"") for record in iter_records(batch, header))
    return found


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch with records of clients."""
    return ((header, batch) for header, batch in all_batches(data) if not header.is_control)


def all_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    at = 0
    while at + LOG_OVERHEAD < len(data):
        header = read_header(data, at)
        yield header, data[at : at + header.size]
        at += header.size


def twice(data: bytes) -> list[str]:
    """What a broker took twice: each value that is there more than once in one epoch of its producer, with the places.

    A copy in a later epoch is the client's own. librdkafka raises its epoch when a batch overtakes another one in the
    move to a new leader (OUT_OF_ORDER_SEQUENCE_NUMBER), and sends anew all that is unanswered, though some of it may
    have arrived: confluentinc/librdkafka issue 4953.
    """
    found: dict[tuple[bytes, int, int], list[str]] = {}
    for header, batch in whole_batches(data):
        for record in iter_records(batch, header):
            by = f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
            place = f"{record.offset} (leader epoch {header.leader_epoch}, {by})"
            found.setdefault((record.value or b"", header.producer_id, header.producer_epoch), []).append(place)
    return [f"{value!r} at {places}" for (value, _, _), places in found.items() if len(places) > 1]


def check_replicas(folders: Sequence[Path], topic: str, partitions: int, loads: Sequence[Load | Reader]) -> int:
    """Check that all replicas are equal, have everything acknowledged or read, and nothing that a broker took twice;
    return how many records."""
    total = 0
    for partition in range(partitions):
        contents = [batches_of(folder, topic, partition) for folder in folders]
        assert contents[0], f"{topic}-{partition} is empty"
        assert all(one == contents[0] for one in contents), f"the replicas of {topic}-{partition} differ"
        held = records_of(contents[0])
        assert sorted(held) == list(range(len(held)))
        values = set(held.values())
        assert twice(contents[0]) == [], f"{topic}-{partition}"
        for load in loads:
            known = load.seen if isinstance(load, Reader) else load.acknowledged
            if isinstance(load, Load):
                for index, value in load.unplaced:
                    assert index != partition or value in values, f"{value!r} is not in {topic}-{partition}"
            for (index, offset), value in known.items():
                if index == partition:
                    assert held.get(offset) == value, f"{value!r} was at {topic}-{partition} {offset}"
        total += len(held)
    return total

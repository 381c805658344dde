"""A transactional producer that commits and aborts until it is told to stop, and what must then be in the logs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from protocol.records.batch import LOG_OVERHEAD, read_header
from protocol.records.build import ControlRecordType, iter_records, read_control_batch
from tests.cluster.load import batches_of
from tests.cluster.worker import Worker

STEP_SECONDS = 60
PAUSE_S = 0.02
MOST_RECORDS = 12


class TransactionalLoad(Worker):
    """One producer in a thread; each transaction has the same number of records in every partition.

    Attributes:
        ended: whether each transaction was committed, by its number; None where nobody knows.
        failures: errors after which the producer could not go on, and another one took its place.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.ended: list[bool | None] = []
        self.failures: list[str] = []
        self._settings = {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 60_000,
            "linger.ms": 1,
            "log_level": 0,
        }
        self._topic = topic
        self._partitions = partitions
        self._rng = random.Random(name)

    def work(self) -> None:
        producer = self._producer()
        while not self.told_to_stop.wait(PAUSE_S):
            number = len(self.ended)
            self.ended.append(None)
            try:
                self.ended[number] = self._transaction(producer, number)
            except KafkaException as error:
                self.failures.append(f"transaction {number}: {error}")
                producer = self._producer()

    def _producer(self) -> Producer:
        """One that has ended what the one before it has left open."""
        while True:
            producer = Producer(self._settings)
            try:
                producer.init_transactions(STEP_SECONDS)
            except KafkaException as error:
                self.failures.append(f"at the start: {error}")
                if self.told_to_stop.is_set():
                    raise
            else:
                return producer

    def _transaction(self, producer: Producer, number: int) -> bool:
        """Whether it was committed. Raises KafkaException if the producer is of no use any more."""
        producer.begin_transaction()
        for record in range(self._rng.randint(1, MOST_RECORDS)):
            for partition in range(self._partitions):
                value = f"{self.name}:{number}:{record}".encode()
                producer.produce(self._topic, value, partition=partition)
            producer.poll(0)
        if self._rng.random() < 0.3:
            self._abort(producer)
            return False
        return self._commit(producer)

    def _commit(self, producer: Producer) -> bool:
        while True:
            try:
                producer.commit_transaction(STEP_SECONDS)
            except KafkaException as failed:
                error = failed.args[0]
                if error.txn_requires_abort():
                    self._abort(producer)
                    return False
                if not error.retriable():
                    raise
            else:
                return True

    def _abort(self, producer: Producer) -> None:
        while True:
            try:
                producer.abort_transaction(STEP_SECONDS)
            except KafkaException as failed:
                if not failed.args[0].retriable():
                    raise
            else:
                return


def committed(data: bytes) -> list[bytes]:
    """The values of committed transactions in a log, in the order of their ends; nothing may be open."""
    found: list[bytes] = []
    open_values: dict[int, list[bytes]] = {}
    for at, size in _places(data):
        header, batch = read_header(data, at), data[at : at + size]
        if header.is_control:
            control = read_control_batch(batch, header)
            assert control is not None
            assert control[0] is not None
            values = open_values.pop(header.producer_id, [])
            found += values if control[0].type is ControlRecordType.COMMIT else []
        else:
            values = [record.value or b"" for record in iter_records(batch, header)]
            open_values.setdefault(header.producer_id, []).extend(values)
    assert not open_values, f"open transactions of {list(open_values)}"
    return found


def _places(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + LOG_OVERHEAD < len(data):
        size = read_header(data, at).size
        yield at, size
        at += size


def check_transactions(folders: Sequence[Path], topic: str, partitions: int, loads: Sequence[TransactionalLoad]) -> int:
    """Check that replicas are equal, and that each transaction is whole, once, or not at all; return how many are."""
    by_partition: list[dict[str, list[int]]] = []
    for partition in range(partitions):
        contents = [batches_of(folder, topic, partition) for folder in folders]
        assert all(one == contents[0] for one in contents), f"the replicas of {topic}-{partition} differ"
        values = committed(contents[0])
        assert max(Counter(values).values(), default=1) == 1, f"a record of {topic}-{partition} is there twice"
        numbers: dict[str, list[int]] = {}
        for value in values:
            name, number, _ = value.decode().split(":")
            numbers.setdefault(name, []).append(int(number))
        assert all(one == sorted(one) for one in numbers.values()), f"transactions of {topic}-{partition}: order"
        by_partition.append({name: sorted(one) for name, one in numbers.items()})
    assert all(one == by_partition[0] for one in by_partition), "a transaction is in some partitions only"
    for load in loads:
        found = set(by_partition[0].get(load.name, []))
        for at, was_committed in enumerate(load.ended):
            assert was_committed is None or was_committed == (at in found), f"{load.name} {at}"
    return sum(len(set(one)) for one in by_partition[0].values())

"""kill -9 at arbitrary moments, again and again: what was acknowledged stays, once, at its offset."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Self

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker
from tests.client import java_tools
from tests.crash.reading import complaints_of_dump_log_segments, read_partition
from tests.messages import place_of, value_of

TOPIC = "torture"
PARTITIONS = 3
ROUNDS, TORTURE_ROUNDS = 3, 10
COMPRESSIONS = ("zstd", "lz4", "gzip", "snappy", "none")

FLUSHED_EACH = {"log.flush.interval.messages": 1}
SMALL_SEGMENTS = {"log.segment.bytes": 1 << 20, "log.index.interval.bytes": 1024}


ACKNOWLEDGEMENT_SECONDS = 60


class Sender:
    """An idempotent producer in a thread of its own that sends numbered values until told to stop.

    It does not outlive its `with` block, whatever fails in there.
    """

    def __init__(self, bootstrap: str, name: str, compression: str) -> None:
        self.name = name
        self.sent = [0] * PARTITIONS
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []
        self._stop = threading.Event()
        self._progress = threading.Semaphore(0)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": compression,
                "queue.buffering.max.messages": 2000,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 200,
                # librdkafka that bootstraps anew while its only broker is away can lose requests for good.
                "metadata.recovery.strategy": "none",
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.purge()

    def wait_for_more(self, count: int) -> None:
        """Until that many more are acknowledged."""
        for _ in range(count):
            assert self._progress.acquire(timeout=ACKNOWLEDGEMENT_SECONDS), f"{self.name} got no acknowledgement"

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(ACKNOWLEDGEMENT_SECONDS) == 0
        assert self.failures == []

    def values(self, partition: int) -> list[bytes]:
        """All that was sent to a partition, in order."""
        return [self._value(partition, number) for number in range(self.sent[partition])]

    def _value(self, partition: int, number: int) -> bytes:
        return f"{self.name} {partition} {number} ".encode() + b"x" * (number % 700)

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                value = self._value(partition, self.sent[partition])
                try:
                    self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
                except BufferError:
                    self._producer.poll(0.01)
                else:
                    self.sent[partition] += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        place = place_of(message)
        if place in self.acknowledged:
            self.failures.append(f"two records were acknowledged at {place}")
        self.acknowledged[place] = value_of(message)
        self._progress.release()


@pytest.fixture(params=[SMALL_SEGMENTS, SMALL_SEGMENTS | FLUSHED_EACH], ids=["page-cache", "flushed-each"])
def broker(request: pytest.FixtureRequest, own_cluster: None) -> Iterator[Broker]:
    with Broker(request.param, profile="dev") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        yield broker


def test_acknowledged_records_outlive_kill_9(broker: Broker, request: pytest.FixtureRequest) -> None:
    rounds = TORTURE_ROUNDS if request.config.getoption("--torture") else ROUNDS
    chance = random.Random(3)
    passing: list[Sender] = []
    with Sender(broker.bootstrap_servers, "steady", "none") as steady:
        for number in range(rounds):
            compression = COMPRESSIONS[number % len(COMPRESSIONS)]
            with Sender(broker.bootstrap_servers, f"passing{number}", compression) as sender:
                passing.append(sender)
                sender.wait_for_more(chance.randrange(200, 3000))
                steady.wait_for_more(chance.randrange(200, 3000))
                broker.kill()
                broker.start()
                sender.wait_for_more(200)
                sender.finish()
        steady.finish()

    for partition in range(PARTITIONS):
        found = read_partition(broker.bootstrap_servers, TOPIC, partition)
        assert sorted(found) == list(range(len(found))), "offsets have no gap"
        in_order = [found[offset] for offset in sorted(found)]
        for sender in (steady, *passing):
            of_sender = [value for value in in_order if value.startswith(sender.name.encode() + b" ")]
            assert of_sender == sender.values(partition), f"{sender.name}: lost, doubled or out of order"
            for (where, offset), value in sender.acknowledged.items():
                if where == partition:
                    assert found[offset] == value

    assert broker.stop() == 0
    if java_tools.missing() is None:
        assert complaints_of_dump_log_segments(broker.data_dir, indexes=True) == []


@pytest.mark.usefixtures("own_cluster")
def test_apache_kafka_reads_a_folder_left_by_kill_9() -> None:
    if reason := java_tools.missing():
        pytest.skip(reason)
    with Broker(SMALL_SEGMENTS, profile="dev") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        with Sender(broker.bootstrap_servers, "only", "zstd") as sender:
            sender.wait_for_more(3000)
            broker.kill()
            assert complaints_of_dump_log_segments(broker.data_dir, indexes=False) == []
            broker.start()
            sender.finish()

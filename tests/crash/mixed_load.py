"""Load of every kind on one broker, which knows what it was promised, and what must therefore be found later.

It goes on through kills of the broker: clients try again, and what they cannot know counts as unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.messages import place_of, value_of

PATIENCE_SECONDS = 60.0
KEYS = 20
TOPICS = {
    "plain": (2, {}),
    "trimmed": (1, {"retention.bytes": str(256 << 10), "file.delete.delay.ms": "100"}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.1",
            "file.delete.delay.ms": "100",
        },
    ),
    "pairs": (2, {}),
}
"""Partitions and configuration."""

ALWAYS: dict[str, int | str] = {
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "linger.ms": 1,
}
ALWAYS |= {"metadata.recovery.strategy": "none"}  # else librdkafka can lose requests while its only broker is away


def create_topics(bootstrap: str) -> None:
    topics = [NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics(topics).values():
        made.result(30)


class Numbered:
    """An idempotent producer of ascending numbers.

    Attributes:
        sent: how many; all are acknowledged once `finish` is through.
        acknowledged: the number at each (partition, offset).
    """

    def __init__(self, bootstrap: str, topic: str, padding: int) -> None:
        self.topic = topic
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failures: list[str] = []
        self._padding = b" " + b"x" * padding
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **ALWAYS})
        self._partitions = TOPICS[topic][0]

    def burst(self) -> None:
        for _ in range(50):
            number = self.sent
            value, key = b"%d" % number + self._padding, b"%d" % (number % KEYS)
            partition = number % self._partitions
            self._producer.produce(self.topic, value, key, partition, on_delivery=self._delivered)
            self.sent += 1
        self._producer.poll(0)
        if len(self._producer) > 500:
            self._producer.flush(0.2)

    def finish(self) -> None:
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert self.failures == []
        assert len(self.acknowledged) == self.sent

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        self.acknowledged[place_of(message)] = int(value_of(message).split()[0])


class Pairs:
    """Transactions that write one number to both partitions of `pairs`, and commit it as the offset of a group.

    librdkafka (2.16) gives the sequence number of a message that it gave up at an abort to the next one. If a broker
    has the first, it takes the next for a duplicate, as Kafka does, and drops it. So nothing is left to be given up
    here, or a new producer is made.

    Attributes:
        committed, aborted, unknown: numbers by what came of their transactions.
    """

    GROUP = "pairs-group"

    def __init__(self, bootstrap: str) -> None:
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.unknown: set[int] = set()
        self._next = 0
        self._bootstrap = bootstrap
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.GROUP})
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        options = {"transactional.id": "pairs", "transaction.timeout.ms": 20_000}
        producer = Producer({"bootstrap.servers": self._bootstrap, **options, **ALWAYS})
        again(lambda: producer.init_transactions(5))
        return producer

    def burst(self) -> None:
        number = self._next
        self._next += 1
        self.unknown.add(number)
        commits = number % 3 != 0
        try:
            self._transact(number, commits)
        except KafkaException as failed:
            error = failed.args[0]
            if error.fatal():
                self._producer = self._new_producer()
                return
            again(lambda: self._producer.abort_transaction(5))
            self._producer = self._new_producer()
            commits = False
        self.unknown.remove(number)
        (self.committed if commits else self.aborted).add(number)

    def _transact(self, number: int, commits: bool) -> None:
        producer = self._producer
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("pairs", b"%d" % number, partition=partition)
        place = [TopicPartition("plain", 1, number + 1)]
        group = self._consumer.consumer_group_metadata()
        again(lambda: producer.send_offsets_to_transaction(place, group, 5))
        if commits:
            again(lambda: producer.commit_transaction(5))
        else:
            assert producer.flush(PATIENCE_SECONDS) == 0
            again(lambda: producer.abort_transaction(5))

    def finish(self) -> None:
        self._consumer.close()


def again(work: Callable[[], object]) -> None:
    """Do it, as often as the client says that it may be done again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            work()
            return
        except KafkaException as failed:
            if not failed.args[0].retriable() or time.monotonic() > deadline:
                raise


class Commits:
    """A group that commits ever larger offsets.

    Attributes:
        promised, tried: the last offset that was acknowledged, and the last one sent.
    """

    GROUP = "commits-group"

    def __init__(self, bootstrap: str) -> None:
        self.promised = self.tried = 0
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.GROUP, **ALWAYS})

    def burst(self) -> None:
        self.tried += 1
        try:
            self._consumer.commit(offsets=[TopicPartition("plain", 0, self.tried)], asynchronous=False)
        except KafkaException:
            time.sleep(0.05)  # the broker is away
        else:
            self.promised = self.tried

    def finish(self) -> None:
        self._consumer.close()


class MixedLoad:
    """All of it, each in a thread of its own, until the end of the `with` block, which waits for what is in flight."""

    def __init__(self, bootstrap: str) -> None:
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        bootstrap = self._bootstrap
        self.plain = Numbered(bootstrap, "plain", 300)
        self.trimmed = Numbered(bootstrap, "trimmed", 1000)
        self.compacted = Numbered(bootstrap, "compacted", 100)
        self.pairs = Pairs(bootstrap)
        self.commits = Commits(bootstrap)
        parts = (self.plain, self.trimmed, self.compacted, self.pairs, self.commits)
        self._threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in parts]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        """Wait for the load to end, unless the test has failed: the broker may be gone, and it would wait long."""
        self._stop.set()
        for thread in self._threads if failed is None else ():
            thread.join(2 * PATIENCE_SECONDS)

    def _run(self, part: Any) -> None:
        try:
            while not self._stop.is_set():
                part.burst()
                self._stop.wait(0.01)
            part.finish()
        except Exception as error:  # noqa: BLE001 - told by the test, whatever it is
            self.failures.append(f"{type(part).__name__}: {error!r}")

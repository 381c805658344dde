"""A consumer that reads a topic from its beginning as it grows, and remembers all that it has seen."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.cluster.worker import Worker
from tests.messages import place_of, value_of

POLL_SECONDS = 0.2


class Reader(Worker):
    """Reads in a thread. What it has seen must be there for ever: it is above no high watermark.

    Attributes:
        seen: the value at each (partition, offset).
        errors: what was wrong: offsets out of range, or records not in order.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self.seen: dict[tuple[int, int], bytes] = {}
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        self._next = dict.fromkeys(range(partitions), 0)

    def stop(self) -> None:
        super().stop()
        self._consumer.close()

    def work(self) -> None:
        while not self.told_to_stop.is_set():
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.errors.append(str(error))
                continue
            partition, offset = place_of(message)
            if offset != self._next[partition]:
                self.errors.append(f"{partition}: {offset} came where {self._next[partition]} was expected")
            self._next[partition] = offset + 1
            self.seen[partition, offset] = value_of(message)

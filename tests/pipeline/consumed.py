"""What a consumer gets from a topic: the judge of everything that reads a topic in another way."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition


def consumed(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    """(partition, offset, key, value, headers, (0 or 1 for the broker's, milliseconds)) of every record, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(30)
        assert message is not None, "the consumer saw nothing for 30 s"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
            continue
        kind, millis = message.timestamp()
        headers = tuple(message.headers() or ())
        place = message.partition(), message.offset()
        found.append((*place, message.key(), message.value(), headers, (kind - 1, millis)))
    consumer.close()
    return sorted(found, key=lambda one: one[:2])

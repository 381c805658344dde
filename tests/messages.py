"""Parts of a confluent_kafka message that came from a broker or got there: to its types they may all be missing."""

from __future__ import annotations

from confluent_kafka import Message


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def value_of(message: Message) -> bytes:
    """Of a message that is no tombstone."""
    value = message.value()
    assert value is not None
    return value

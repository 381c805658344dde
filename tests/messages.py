"""Parts of a confluent_kafka message that came from a broker or got there: to its types they may all be missing."""

from __future__ import annotations

from confluent_kafka import Message


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset."""
    offset = message.offset()
    assert offset is not None
    return partition_of(message), offset


def partition_of(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def value_of(message: Message) -> bytes:
    """Of a message that is no tombstone."""
    value = message.value()
    assert value is not None
    return value

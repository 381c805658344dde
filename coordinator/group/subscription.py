"""The topics that a member of a "consumer" group subscribes to, read from its protocol metadata.

Only version 0 of Kafka's `ConsumerProtocolSubscription` is read; every later version begins with it.
"""

from functools import lru_cache
from struct import Struct, error

CONSUMER_PROTOCOL_TYPE = "consumer"

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_LONGEST_KEPT = 4096
"""Bytes of a subscription that is remembered: clients send what they like, and it may be large."""


class UnreadableSubscription(Exception):
    """The metadata ends too early: whoever wrote it means something else by it. Kafka carries on without its topics."""


class AbsurdSubscription(UnreadableSubscription):
    """The metadata gives a length that cannot be: negative, or more than there are bytes."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics in a serialized subscription.

    Raises UnreadableSubscription, and AbsurdSubscription where Kafka's reader fails with an unexpected error.
    """
    return _read_again(metadata) if len(metadata) <= _LONGEST_KEPT else _read(metadata)


def _read(metadata: bytes) -> frozenset[str]:
    topics = set()
    try:
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        if not 0 <= count <= len(metadata) - position:
            raise AbsurdSubscription(f"{count} topics in {len(metadata)} bytes")
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            if length < 0:
                raise AbsurdSubscription("the name of a topic is null")
            position += 2 + length
            if position > len(metadata):
                raise AbsurdSubscription("the name of a topic is longer than what is there")
            topics.add(metadata[position - length : position].decode(errors="replace"))
    except error as cut_short:
        raise UnreadableSubscription("the subscription is cut short") from cut_short
    return frozenset(topics)


_read_again = lru_cache(maxsize=128)(_read)
"""A subscription is read more than once, and mostly that of one member is that of all."""

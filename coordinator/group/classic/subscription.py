"""The topics that a member of a "consumer" group subscribes to, read from its protocol metadata."""

from __future__ import annotations

from functools import lru_cache

from protocol.consumer_protocol import deserialize_topics

CONSUMER_PROTOCOL_TYPE = "consumer"

_LONGEST_KEPT = 4096
"""Bytes of a subscription that is remembered: clients send what they like, and it may be large."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics in a serialized subscription.

    Raises SchemaError, where Kafka carries on without them, and AbsurdLengthError, where it fails unexpectedly.
    """
    return _read_again(metadata) if len(metadata) <= _LONGEST_KEPT else _read(metadata)


def _read(metadata: bytes) -> frozenset[str]:
    return frozenset(deserialize_topics(metadata))


_read_again = lru_cache(maxsize=128)(_read)
"""A subscription is read more than once, and mostly all members have the same."""

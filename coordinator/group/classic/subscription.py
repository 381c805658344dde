"""The topics that a member of a "consumer" group subscribes to, read from its protocol metadata."""

from __future__ import annotations

from functools import lru_cache

from protocol.consumer_protocol import deserialize_topics

CONSUMER_PROTOCOL_TYPE = "consumer"

_LONGEST_KEPT = 4096
"""The largest subscription, in bytes, that is cached: clients may send large ones."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics in a serialized subscription.

    Raises SchemaError, where Kafka carries on without them, and ImpossibleLengthError, where it fails unexpectedly.
    """
    return _read_again(metadata) if len(metadata) <= _LONGEST_KEPT else _read(metadata)


def _read(metadata: bytes) -> frozenset[str]:
    return frozenset(deserialize_topics(metadata))


_read_again = lru_cache(maxsize=128)(_read)
"""The topics, cached: a subscription is read more than once, and most members have the same."""

"""Error codes that older clients do not understand."""

from __future__ import annotations

from protocol.errors import InvalidProducerEpoch, KafkaError, ProducerFenced


def fencing_known_from(version: int, first: int, error: KafkaError) -> KafkaError:
    """The error; PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH before version `first` of an API (KIP-588)."""
    if version < first and isinstance(error, ProducerFenced):
        return InvalidProducerEpoch()
    return error

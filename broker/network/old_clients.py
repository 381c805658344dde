"""Error codes that older clients do not understand."""

from __future__ import annotations

from protocol.errors import InvalidProducerEpoch, KafkaError, ProducerFenced


def fencing_known_from(version: int, first: int, error: KafkaError) -> KafkaError:
    """PRODUCER_FENCED is sent from version `first` of an API on, and INVALID_PRODUCER_EPOCH before (KIP-588)."""
    if version < first and isinstance(error, ProducerFenced):
        return InvalidProducerEpoch()
    return error

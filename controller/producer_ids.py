"""Blocks of producer ids for brokers (KIP-730; Kafka's `ProducerIdControlManager`)."""

from __future__ import annotations

from controller.decision import Decision
from controller.registration import require_epoch
from metadata.image import MetadataImage
from protocol.metadata.topics import ProducerIdsRecord

BLOCK_SIZE = 1000


def decide(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[range]:
    """The ids of the next block; no other broker ever gets them."""
    first = image.next_producer_id
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return Decision([record], range(first, first + BLOCK_SIZE))


def decide_for_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[range]:
    """As `decide`, for the request of a broker. Raises StaleBrokerEpoch."""
    require_epoch(image, broker_id, broker_epoch)
    return decide(image, broker_id, broker_epoch)

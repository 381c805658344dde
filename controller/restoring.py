"""Epochs and ids that must not go back when a snapshot of the metadata is restored: clients still know later ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from controller.decision import Decision
from metadata.image import MetadataImage
from metadata.snapshot import partition_record


def rise_above(image: MetadataImage, former: MetadataImage | None) -> Decision[None]:
    """Leader epochs and producer ids go on from those of `former`, if there is one.

    Clients take metadata with an older leader epoch for outdated. A producer id that a client has must never be given
    to another.
    """
    return Decision([] if former is None else list(_records(image, former)), None)


def _records(image: MetadataImage, former: MetadataImage) -> Iterator[Any]:
    for topic in image.topics.sorted():
        known = former.topics.by_id(topic.id)
        for index, partition in topic.in_order():
            before = None if known is None else known.partitions.get(index)
            if before is not None and before.leader_epoch > partition.leader_epoch:
                epoch = max(before.partition_epoch, partition.partition_epoch)
                higher = replace(partition, leader_epoch=before.leader_epoch, partition_epoch=epoch)
                yield partition_record(topic, index, higher)
    if former.next_producer_id > image.next_producer_id:
        from protocol.metadata.topics import ProducerIdsRecord

        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=former.next_producer_id)

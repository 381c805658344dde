"""From batches of the metadata log to images (Kafka's `MetadataBatchLoader`, KIP-868).

Records between BeginTransaction and EndTransaction take effect together; an AbortTransaction drops them. An image never
shows half of them, nor half of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage


class ImageLoader:
    """Applies batches one after the other; `image` is the newest complete one."""

    def __init__(self, image: MetadataImage = EMPTY) -> None:
        self.image = image
        self._transaction: list[Any] | None = None
        self._delta = MetadataDelta(image)

    @property
    def in_transaction(self) -> bool:
        """Whether the records so far end within a transaction."""
        return self._transaction is not None

    def load(self, records: Iterable[Any]) -> None:
        """Take the records of a batch; `publish` makes the image of them."""
        for record in records:
            name = record.__class__.__name__
            if name == "BeginTransactionRecord":
                self._transaction = []
            elif name == "EndTransactionRecord":
                self._delta.replay_all(self._transaction or ())
                self._transaction = None
            elif name == "AbortTransactionRecord":
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(record)
            else:
                self._delta.replay(record)

    def publish(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataDelta:
        """Make the image after all batches so far, the last of which ends at `offset`; return what has changed."""
        delta = self._delta
        self.image = delta.apply(offset, epoch, timestamp_ms)
        self._delta = MetadataDelta(self.image)
        return delta

"""Which batches belong to aborted transactions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from odradek_pipeline.datasource.indexes import AbortedTxn
from odradek_pipeline.protocol.records.batch import BatchHeader


class AbortedBatches:
    """`header in batches`: whether the batch belongs to one of the transactions.

    Transactions of one producer follow one another: for a batch, the last one that began before it is what counts.
    """

    def __init__(self, transactions: Iterable[AbortedTxn]) -> None:
        self._by_producer: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in transactions:
            self._by_producer.setdefault(producer_id, []).append((first, last))
        for of_producer in self._by_producer.values():
            of_producer.sort()

    def __contains__(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        of_producer = self._by_producer.get(header.producer_id)
        if of_producer is None:
            return False
        slot = bisect_right(of_producer, (header.base_offset, 1 << 63)) - 1
        return slot >= 0 and header.base_offset <= of_producer[slot][1]

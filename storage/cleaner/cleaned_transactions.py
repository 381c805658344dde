"""Which batches belong to aborted transactions, while a log is read from front to back.

The rules are those of Kafka's CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from protocol.primitives import Buffer
from protocol.records.batch import BatchHeader
from protocol.records.build import ControlRecordType, iter_records, read_end_marker
from storage.segments.txn_index import AbortedTxn, TxnIndex


@dataclass(slots=True)
class _Ongoing:
    txn: AbortedTxn
    has_data: bool = False


class CleanedTransactions:
    """Must be given every batch, in order of offsets.

    Attributes:
        index: collects the aborted transactions whose data was seen, as their markers are read; None for none.
    """

    def __init__(self) -> None:
        self.index: TxnIndex | None = None
        self._announced: list[tuple[int, AbortedTxn]] = []
        self._aborted: dict[int, _Ongoing] = {}
        self._committed: set[int] = set()

    def announce(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take in what the transaction indexes say of the batches to come; repetitions do no harm."""
        for txn in aborted:
            heappush(self._announced, (txn.first_offset, txn))

    def _begin_up_to(self, offset: int) -> None:
        while self._announced and self._announced[0][0] <= offset:
            txn = heappop(self._announced)[1]
            self._aborted.setdefault(txn.producer_id, _Ongoing(txn))

    def on_control_batch(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether the marker may go, because no data of its transaction was seen. Raises ValueError, OSError."""
        self._begin_up_to(header.last_offset)
        record = next(iter_records(batch, header), None)
        if record is None:
            return True  # the marker went in an earlier round
        marker = read_end_marker(record)
        if marker is None:
            return False
        if marker.type is ControlRecordType.COMMIT:
            known = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not known
        ongoing = self._aborted.pop(header.producer_id, None)
        if ongoing is None or not ongoing.has_data:
            return True
        if self.index is not None:
            self.index.append(ongoing.txn)
        return False

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction, so that all of it may go."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        ongoing = self._aborted.get(header.producer_id)
        if ongoing is None:
            self._committed.add(header.producer_id)
            return False
        ongoing.has_data = True
        return True

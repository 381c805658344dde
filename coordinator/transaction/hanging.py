"""What becomes of a transaction that is open in a partition, by what its coordinator knows."""

from __future__ import annotations

from coordinator.transaction.states import AT_REST, TransactionState
from coordinator.transaction.transaction_metadata import LAST_EPOCH_FOR_CLIENTS, TV_2, TransactionMetadata
from protocol.topic_partition import PartitionKey


def end_of_unknown(
    known: TransactionMetadata | None, producer_id: int, producer_epoch: int, partition: PartitionKey
) -> bool | None:
    """Whether to commit an open transaction of which the coordinator's log has no open one; None if it has.

    `known` is the transactional id that has the producer id, or had it before its current one; `producer_epoch` is the
    one in the partition. A coordinator's log that lost its end may know an older transaction of the same producer, and
    a partition that lost its own may have one open that ended long ago.

    Without a decision in the log, nobody may read the records. It can only be told from that of an earlier transaction
    if each has an epoch of its own (KIP-890).
    """
    if known is None:
        return False
    if known.state not in AT_REST:
        same = known.producer_id == producer_id and partition in known.partitions
        if known.state is TransactionState.PREPARE_ABORT:
            return None if same and known.producer_epoch >= producer_epoch else False
        return None if same and known.records_epoch == producer_epoch else False
    if known.state is not TransactionState.COMPLETE_COMMIT or known.client_version < TV_2:
        return False
    if known.producer_id == producer_id:
        return known.producer_epoch == producer_epoch + 1
    return known.producer_epoch == 0 and producer_epoch == LAST_EPOCH_FOR_CLIENTS

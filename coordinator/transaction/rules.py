"""Each request's effect on a transactional id: a new state, nothing, or an error (Kafka's TransactionCoordinator).

Pure functions of the current state; `current` is None for an unknown id. They raise KafkaError.

How it works: a transactional id goes Empty -> Ongoing -> PrepareCommit or PrepareAbort -> CompleteCommit or
CompleteAbort, and from there to Ongoing again (`PREDECESSORS` is the table). A function here takes the
current state and a request, checks id and epoch, and gives the state to write; None means that the request is a
repetition and nothing is to be written. It never waits and never writes. Which errors mean what to a producer:

- INVALID_PRODUCER_ID_MAPPING: the coordinator does not know this transactional id with this producer id.
- PRODUCER_FENCED: another producer has the transactional id by now. That is final.
- CONCURRENT_TRANSACTIONS: the last transaction is not complete yet. The producer tries again.
- INVALID_TXN_STATE: the request does not fit the state. That is a bug of the producer, and final.

The last rule, `end_of_unknown`, is for transactions that hang: they are open in a partition, and their coordinator's
log knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.transaction_metadata import (
    AT_REST,
    LAST_EPOCH_FOR_CLIENTS,
    NO_EPOCH,
    NO_PARTITIONS,
    PREPARED,
    TV_0,
    TV_2,
    TransactionMetadata,
    TransactionState,
)
from protocol.errors import ConcurrentTransactions, InvalidPidMapping, InvalidTxnState, ProducerFenced
from protocol.records.batch import NO_PRODUCER_ID
from protocol.topic_partition import PartitionKey

NewProducerId = Callable[[], int]

# -- InitProducerId


def init_producer_id(
    current: TransactionMetadata | None,
    timeout_ms: int,
    expected: ProducerEpoch | None,
    new_producer_id: NewProducerId,
    server_version: int,
    now_ms: int,
) -> TransactionMetadata:
    """Empty, with the producer to answer; or PrepareAbort, if an open transaction must be aborted first.

    `expected` is the producer that the client has (KIP-360). Raises ProducerFenced and ConcurrentTransactions, and
    what `new_producer_id` does.
    """
    if current is None:
        current = _created(new_producer_id(), timeout_ms, now_ms)
    if current.state in PREPARED:
        raise ConcurrentTransactions
    if expected is not None and not _may_be(current, expected):
        raise ProducerFenced
    if current.state is TransactionState.ONGOING:
        return fence(current, server_version, now_ms)
    if current.epochs_exhausted:
        return _with_new_id(current, timeout_ms, expected, new_producer_id, now_ms)
    epoch, last_epoch = _next_epoch(current, expected)
    return current.with_producer(current.producer_id, epoch, last_epoch, timeout_ms, now_ms)


def _created(producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    return TransactionMetadata(producer_id, NO_EPOCH, timeout_ms, TransactionState.EMPTY, NO_PARTITIONS, now_ms)


def _may_be(current: TransactionMetadata, expected: ProducerEpoch) -> bool:
    """Whether the id is new, or has the client's producer id or the one that follows it, its epochs being used up."""
    return (
        current.producer_epoch == NO_EPOCH
        or expected.producer_id == current.producer_id
        or (expected.producer_id == current.previous_producer_id and expected.producer_epoch >= LAST_EPOCH_FOR_CLIENTS)
    )


def _with_new_id(
    current: TransactionMetadata,
    timeout_ms: int,
    expected: ProducerEpoch | None,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> TransactionMetadata:
    """The id with a new producer id, as no epoch is left; refused if another producer has fenced the client."""
    last_epoch = NO_EPOCH
    if expected is not None:
        if expected.producer_epoch not in (current.producer_epoch, current.last_producer_epoch):
            raise ProducerFenced
        last_epoch = current.producer_epoch
    return current.with_producer(new_producer_id(), 0, last_epoch, timeout_ms, now_ms)


def _next_epoch(current: TransactionMetadata, expected: ProducerEpoch | None) -> tuple[int, int]:
    """The epoch to answer, and the one before it, with which its owner may ask again."""
    epoch = current.producer_epoch
    if expected is None:
        return epoch + 1, NO_EPOCH
    if epoch in (NO_EPOCH, expected.producer_epoch):
        return epoch + 1, epoch
    if expected.producer_epoch == current.last_producer_epoch:
        return epoch, current.last_producer_epoch
    raise ProducerFenced


def fence(current: TransactionMetadata, server_version: int, now_ms: int) -> TransactionMetadata:
    """Abort the transaction of a producer that is gone or took too long, using an epoch that it does not have."""
    client_version = TV_2 if server_version >= TV_2 else TV_0  # as in Kafka, which writes no version 1
    return current.fenced(client_version).prepared(False, client_version, now_ms)


# -- partitions


def _check_producer(current: TransactionMetadata | None, producer: ProducerEpoch) -> TransactionMetadata:
    if current is None or current.producer_id != producer.producer_id:
        raise InvalidPidMapping
    if current.producer_epoch != producer.producer_epoch or current.producer_epoch > LAST_EPOCH_FOR_CLIENTS:
        raise ProducerFenced
    return current


def add_partitions(
    current: TransactionMetadata | None,
    producer: ProducerEpoch,
    partitions: Collection[PartitionKey],
    client_version: int,
    now_ms: int,
) -> TransactionMetadata | None:
    """Ongoing, with the partitions; None if they are already in the transaction.

    Raises ConcurrentTransactions (first: the client may be early), InvalidPidMapping, ProducerFenced.
    """
    if current is not None and current.state in PREPARED:
        raise ConcurrentTransactions
    current = _check_producer(current, producer)
    if current.state is TransactionState.ONGOING and current.partitions.issuperset(partitions):
        return None
    return current.with_partitions(partitions, client_version, now_ms)


def verified(
    current: TransactionMetadata | None, producer: ProducerEpoch, partitions: Collection[PartitionKey]
) -> frozenset[PartitionKey]:
    """The ones of the partitions that are in the producer's open transaction. Raises as `add_partitions` does."""
    current = _check_producer(current, producer)
    if current.state in PREPARED:
        raise ConcurrentTransactions
    return current.partitions.intersection(partitions)


# -- EndTxn


def end_transaction(
    current: TransactionMetadata | None,
    producer: ProducerEpoch,
    commit: bool,
    client_version: int,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> TransactionMetadata | None:
    """PrepareCommit or PrepareAbort; None if the same request has been carried out already.

    Raises InvalidPidMapping, ProducerFenced, ConcurrentTransactions, InvalidTxnState, and what `new_producer_id`
    does.
    """
    if current is None:
        raise InvalidPidMapping
    if client_version < TV_2:
        return _end_v1(current, producer, commit, now_ms)
    return _end_v2(current, producer, commit, new_producer_id, now_ms)


def _end_v1(
    current: TransactionMetadata, producer: ProducerEpoch, commit: bool, now_ms: int
) -> TransactionMetadata | None:
    if current.producer_id != producer.producer_id:
        raise InvalidPidMapping
    if current.producer_epoch != producer.producer_epoch:
        raise ProducerFenced
    if current.state in PREPARED:
        raise ConcurrentTransactions
    if current.state is TransactionState.ONGOING:
        return current.prepared(commit, TV_0, now_ms)
    _check_repeated(current, commit)
    return None


def _end_v2(
    current: TransactionMetadata, producer: ProducerEpoch, commit: bool, new_producer_id: NewProducerId, now_ms: int
) -> TransactionMetadata | None:
    """Every end bumps the epoch, so a request one epoch behind is a repeat, and one with the current epoch is new."""
    if current.state in PREPARED:
        raise ConcurrentTransactions
    used_up = (
        current.previous_producer_id == producer.producer_id
        and producer.producer_epoch == LAST_EPOCH_FOR_CLIENTS
        and current.producer_epoch == 0
    )
    if current.producer_id != producer.producer_id and not used_up:
        raise InvalidPidMapping
    one_behind = current.producer_epoch == producer.producer_epoch + 1
    present = current.producer_epoch == producer.producer_epoch <= LAST_EPOCH_FOR_CLIENTS
    if not _epoch_is_valid(current.state, present, one_behind, used_up):
        raise ProducerFenced
    if one_behind or used_up:
        _check_repeated(current, commit)
        return None
    if commit and current.state is not TransactionState.ONGOING:
        raise InvalidTxnState
    next_producer_id = new_producer_id() if current.epochs_exhausted else NO_PRODUCER_ID
    return current.prepared(commit, TV_2, now_ms, next_producer_id)


def _epoch_is_valid(state: TransactionState, present: bool, one_behind: bool, used_up: bool) -> bool:
    if state in (TransactionState.ONGOING, TransactionState.EMPTY):
        return present
    return one_behind or used_up or present


def _check_repeated(current: TransactionMetadata, commit: bool) -> None:
    """Raises unless the last transaction ended the way requested."""
    if current.state is TransactionState.EMPTY or current.committed is not commit:
        raise InvalidTxnState


# -- transactions that hang


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

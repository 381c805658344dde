"""Whether a transactional append belongs to an open transaction (KIP-890; Kafka's AddPartitionsToTxnManager).

Nothing transactional may reach a log unless the coordinator has the partition in the producer's open transaction for
good: otherwise a write that was delayed would hang for ever, or join a later transaction. Clients of transactions V2
(Produce 12 on) have the partition added by their first append; older ones must have added it before.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.metadata import V2, TopicPartition
from protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    OutOfOrderSequence,
    ProducerFenced,
    TransactionAbortable,
)

if TYPE_CHECKING:
    from broker.node import Node
    from broker.partition import Partition

FIRST_VERSION_WITH_TRANSACTION_ABORTABLE = 11
FIRST_VERSION_OF_TRANSACTIONS_V2 = 12

NOT_READY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)

Refusals = Mapping[TopicPartition, KafkaError]
NO_REFUSALS: Refusals = {}


@dataclass(frozen=True, slots=True)
class Append:
    """A transactional batch for a partition that is here."""

    partition: Partition
    producer: ProducerEpoch
    base_sequence: int

    @property
    def is_in_open_transaction(self) -> bool:
        """The log has earlier records of the same transaction: its marker cannot have come yet."""
        entry = self.partition.log.producers.producers.get(self.producer.producer_id)
        return (
            entry is not None and entry.txn_first_offset >= 0 and entry.producer_epoch == self.producer.producer_epoch
        )

    @property
    def is_beyond_an_unknown_start(self) -> bool:
        """With V2 each transaction starts at sequence 0: the log has missed what came before."""
        known = self.partition.log.producers.producers
        return self.base_sequence != 0 and self.producer.producer_id not in known


@dataclass(frozen=True, slots=True)
class Clients:
    """What the version of a client's request says: whether it is of transactions V2, and which errors it knows."""

    adds_partitions: bool
    knows_abortable: bool

    def told(self, error: KafkaError) -> KafkaError:
        """The coordinator's error as the client is to see it; the text goes along only where Kafka sends one."""
        if isinstance(error, ProducerFenced):
            return InvalidProducerEpoch()
        if isinstance(error, TransactionAbortable) and not self.knows_abortable:
            error = InvalidTxnState()
        if isinstance(error, InvalidTxnState):
            return InvalidTxnState("Partition was not added to the transaction")
        if isinstance(error, NOT_READY) or (isinstance(error, ConcurrentTransactions) and not self.adds_partitions):
            return NotEnoughReplicas(
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {error.code.name.upper()}"
            )
        return error


def produce_clients(version: int) -> Clients:
    return Clients(version >= FIRST_VERSION_OF_TRANSACTIONS_V2, version >= FIRST_VERSION_WITH_TRANSACTION_ABORTABLE)


def admit(
    node: Node, transactional_id: str, appends: Iterable[Append], clients: Clients
) -> Refusals | Awaitable[Refusals]:
    """Which of the appends may not be made; an awaitable of that, where the coordinator has to be waited for.

    Raises InvalidPidMapping when they are of more than one producer.
    """
    unknown = [append for append in appends if not append.is_in_open_transaction]
    if not unknown:
        return NO_REFUSALS
    if any(append.producer != unknown[0].producer for append in unknown):
        raise InvalidPidMapping("Transactional records contained more than one producer ID")
    if not clients.adds_partitions and not node.config.boolean("transaction.partition.verification.enable"):
        return NO_REFUSALS
    wanted = [append.partition.key for append in unknown]
    out_of_order: Refusals = {
        append.partition.key: OutOfOrderSequence()
        for append in unknown
        if clients.adds_partitions and append.is_beyond_an_unknown_start
    }
    answer = _ask(node, transactional_id, unknown[0].producer, wanted, clients)
    if answer.done() and not isinstance(answer.exception(), ConcurrentTransactions):
        return {**out_of_order, **_refusals(answer, wanted, clients)}
    return _when_told(node, transactional_id, unknown[0].producer, wanted, clients, answer, out_of_order)


def _ask(
    node: Node, transactional_id: str, producer: ProducerEpoch, wanted: Sequence[TopicPartition], clients: Clients
) -> Future[Any]:
    coordinator = node.transaction_coordinator
    if clients.adds_partitions:
        return coordinator.write(
            transactional_id, lambda state: state.add_partitions(transactional_id, producer, wanted, V2)
        )
    return coordinator.read(transactional_id, lambda state: state.verify_partitions(transactional_id, producer, wanted))


def _refusals(answer: Future[Any], wanted: Sequence[TopicPartition], clients: Clients) -> Refusals:
    error = answer.exception()
    if isinstance(error, KafkaError):
        return dict.fromkeys(wanted, clients.told(error))
    if error is not None:
        raise error
    if clients.adds_partitions:
        return NO_REFUSALS
    verified = answer.result()
    abortable = clients.told(TransactionAbortable())
    return {partition: abortable for partition in wanted if partition not in verified}


async def _when_told(
    node: Node,
    transactional_id: str,
    producer: ProducerEpoch,
    wanted: Sequence[TopicPartition],
    clients: Clients,
    answer: Future[Any],
    out_of_order: Refusals,
) -> Refusals:
    """Asks again for a while where the earlier transaction is being ended (`add.partitions.to.txn.retry.backoff.ms`).

    Time has passed when the answer is there: the append may be made only if the transaction is still open.
    """
    config, clock = node.config, node.clock
    deadline_ms = clock.monotonic_ms() + config.integer("add.partitions.to.txn.retry.backoff.max.ms")
    while True:
        try:
            await answer
        except ConcurrentTransactions:
            if clock.monotonic_ms() < deadline_ms:
                await clock.sleep(config.integer("add.partitions.to.txn.retry.backoff.ms"))
                answer = _ask(node, transactional_id, producer, wanted, clients)
                continue
        except KafkaError:
            pass  # told below
        break
    refusals = {**out_of_order, **_refusals(answer, wanted, clients)}
    coordinator = node.transaction_coordinator
    for partition in wanted:
        if partition not in refusals and not coordinator.holds(transactional_id, producer, (partition,)):
            refusals[partition] = clients.told(TransactionAbortable())
    return refusals

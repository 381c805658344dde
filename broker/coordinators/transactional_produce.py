"""Whether a transactional append belongs to an open transaction (KIP-890; Kafka's AddPartitionsToTxnManager).

Nothing transactional may reach a log unless the coordinator has durably added the partition to the producer's open
transaction: otherwise a delayed write would hang for ever, or join a later transaction. For clients of transactions V2
(Produce 12 on) the first append adds the partition; older ones must have added it before.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

from broker.config.broker_config import BrokerConfig
from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.replication.partition import Partition, Role
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.transaction.marker_sender import Question
from protocol.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTxnState,
    KafkaError,
    KafkaStorage,
    Network,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    ProducerFenced,
    TransactionAbortable,
)
from protocol.topic_partition import PartitionKey
from timing.clock import Clock

FIRST_VERSION_WITH_TRANSACTION_ABORTABLE = 11
FIRST_VERSION_OF_TRANSACTIONS_V2 = 12

NOT_READY = (CoordinatorLoadInProgress, CoordinatorNotAvailable, Network, NotCoordinator)

Refusals = dict[PartitionKey, KafkaError]
NO_REFUSALS: Refusals = {}


class NodeFacts(Protocol):
    """The facts about the node that are used; its configuration may be replaced by another."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def clock(self) -> Clock: ...


class Append(NamedTuple):
    """A transactional batch for a partition that this node hosts."""

    partition: Partition
    producer: ProducerEpoch
    base_sequence: int

    @property
    def is_in_open_transaction(self) -> bool:
        """Whether the log has earlier records of the same transaction: its marker cannot have been written yet."""
        producer_id, epoch = self.producer
        entry = self.partition.log.producers.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.producer_epoch == epoch

    @property
    def refusal(self) -> KafkaError | None:
        """Why the coordinator need not be asked: another node leads the partition, its log is offline or later."""
        log = self.partition.log
        if self.partition.role is not Role.LEADER:
            return KafkaStorage() if log.is_offline else NotLeaderOrFollower()
        producer_id, epoch = self.producer
        entry = log.producers.producers.get(producer_id)
        return InvalidProducerEpoch() if entry is not None and epoch < entry.producer_epoch else None


# Without a Python-level call: one per transactional batch.
new_append: Callable[[tuple[Partition, ProducerEpoch, int]], Append] = partial(tuple.__new__, Append)


class ClientAbilities(NamedTuple):
    """The abilities of a client, by the version of its request (Kafka's TransactionSupportedOperation).

    It may let produce requests add partitions to the transaction (transactions V2), and understand
    TRANSACTION_ABORTABLE and CONCURRENT_TRANSACTIONS as answers to this request.
    """

    adds_partitions: bool
    knows_abortable: bool
    knows_concurrent: bool

    def translate(self, error: KafkaError) -> KafkaError:
        """The client's error for the coordinator's, with a message only where Kafka sends one."""
        if isinstance(error, ProducerFenced):
            return InvalidProducerEpoch()
        if isinstance(error, TransactionAbortable) and not self.knows_abortable:
            error = InvalidTxnState()
        if isinstance(error, InvalidTxnState):
            return InvalidTxnState("Partition was not added to the transaction")
        if isinstance(error, NOT_READY) or (isinstance(error, ConcurrentTransactions) and not self.knows_concurrent):
            return NotEnoughReplicas(
                "Unable to verify the partition has been added to the transaction. "
                f"Underlying error: {error.code.name.upper()}"
            )
        return error


@cache
def abilities_of_produce(version: int) -> ClientAbilities:
    is_v2 = version >= FIRST_VERSION_OF_TRANSACTIONS_V2
    return ClientAbilities(is_v2, version >= FIRST_VERSION_WITH_TRANSACTION_ABORTABLE, knows_concurrent=is_v2)


def admit(
    local: NodeFacts,
    coordinator: TransactionCoordinator,
    transactional_id: str,
    appends: Sequence[Append],
    abilities: ClientAbilities,
) -> Refusals | Awaitable[Refusals]:
    """The appends that may not be made, or an awaitable of that if the coordinator does not answer at once.

    Raises InvalidPidMapping if they are from more than one producer.
    """
    if len(appends) > 1 and any(append.producer != appends[0].producer for append in appends):
        raise InvalidPidMapping("Transactional records contained more than one producer ID")
    unknown = [append for append in appends if not append.is_in_open_transaction]
    if not unknown:
        return NO_REFUSALS
    if not abilities.adds_partitions and not local.config.boolean("transaction.partition.verification.enable"):
        return NO_REFUSALS
    refused: Refusals = {append.partition.key: error for append in unknown if (error := append.refusal) is not None}
    if refused:
        unknown = [append for append in unknown if append.partition.key not in refused]
        if not unknown:
            return refused
    guards = _begin_verifications(unknown, abilities)
    wanted = [append.partition.key for append in unknown]
    if coordinator.holds_for_good(transactional_id, unknown[0].producer, wanted):
        return refused  # the coordinator has nothing to write or to wait for
    admission = _Admission(local, coordinator, transactional_id, unknown, guards, abilities, refused)
    answer = admission.ask()
    if answer.done() and not isinstance(answer.exception(), ConcurrentTransactions):
        return admission.refusals(answer)
    return admission.after_answer(answer, [append for append in appends if append.is_in_open_transaction])


def _begin_verifications(appends: Sequence[Append], abilities: ClientAbilities) -> list[int]:
    """Let each log hold back what must not overtake these appends while the coordinator is asked; return the guards."""
    return [
        partition.log.producers.verifications.begin(producer_id, epoch, sequence, abilities.adds_partitions)
        for partition, (producer_id, epoch), sequence in appends
    ]


class _Admission:
    """The coordinator's answer about one producer's appends."""

    def __init__(
        self,
        local: NodeFacts,
        coordinator: TransactionCoordinator,
        transactional_id: str,
        appends: Sequence[Append],
        guards: Sequence[int],
        abilities: ClientAbilities,
        refused: Refusals,
    ) -> None:
        self._local = local
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._abilities = abilities
        self._refused = refused
        self._appends = appends
        self._guards = guards
        self._producer = appends[0].producer
        self._wanted = tuple(append.partition.key for append in appends)

    def ask(self) -> Future[Any]:
        transactional_id, producer, wanted = self._transactional_id, self._producer, self._wanted
        if not transactional_id:
            refused: Future[Any] = get_running_loop().create_future()
            refused.set_exception(InvalidRequest())
            return refused
        return self._coordinator.ask(Question(transactional_id, producer, wanted, self._abilities.adds_partitions))

    def refusals(self, answer: Future[Any]) -> Refusals:
        error = answer.exception()
        if isinstance(error, KafkaError):
            return {**self._refused, **dict.fromkeys(self._wanted, self._abilities.translate(error))}
        if error is not None:
            raise error
        refusals = dict(self._refused)
        if not self._abilities.adds_partitions:
            missing = [partition for partition in self._wanted if partition not in answer.result()]
            if missing:
                refusals |= dict.fromkeys(missing, self._abilities.translate(TransactionAbortable()))
        return refusals

    async def after_answer(self, answer: Future[Any], unasked: Sequence[Append]) -> Refusals:
        """Wait for the answer, and retry for a while if the previous transaction is still being ended.

        Meanwhile time has passed: an append may be made only if the transaction is still open, and this node still
        leads. This also holds for `unasked`, the appends whose transaction was open in their own log when the others
        were asked about.
        """
        config, clock = self._local.config, self._local.clock.machine
        deadline_ms = clock.monotonic_ms() + config.integer("add.partitions.to.txn.retry.backoff.max.ms")
        while True:
            try:
                await answer
            except ConcurrentTransactions:
                if clock.monotonic_ms() < deadline_ms:
                    await clock.sleep(config.integer("add.partitions.to.txn.retry.backoff.ms"))
                    answer = self.ask()
                    continue
            except KafkaError:
                pass  # `refusals` below reports it
            break
        refusals = self.refusals(answer)
        for append, guard in zip(self._appends, self._guards, strict=True):
            key = append.partition.key
            if key not in refusals and (refusal := append.refusal or self._ended_meanwhile(append, guard)) is not None:
                refusals[key] = refusal
        for append in unasked:
            if not append.is_in_open_transaction:
                refusals[append.partition.key] = append.refusal or InvalidTxnState()
        return refusals

    def _ended_meanwhile(self, append: Append, guard: int) -> KafkaError | None:
        """The error if what the coordinator said holds no longer.

        A coordinator that is loaded here knows. If there is none, or it still loads after it has moved here, the
        transaction goes on as long as no marker came.
        """
        held = self._coordinator.holds(self._transactional_id, self._producer, (append.partition.key,))
        if held is None:
            verifications = append.partition.log.producers.verifications
            held = append.is_in_open_transaction or verifications.is_guarded(append.producer.producer_id, guard)
        return None if held else self._abilities.translate(TransactionAbortable())

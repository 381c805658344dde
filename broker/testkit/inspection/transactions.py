"""Transactional ids, as this node coordinates them, or as their coordinator on another broker describes them.

That broker may be Apache Kafka's.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1 import ListTransactionsRequest

from broker.node import Node
from broker.peers.leaders import ask, check
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from coordinator.transaction.transaction_metadata import PREPARED, TransactionState
from protocol.errors import NotCoordinator
from protocol.topic_partition import PartitionKey

if TYPE_CHECKING:
    from broker.coordinators.transaction_coordinator import TransactionCoordinator


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A transactional id; Dead if it does not exist. `start_ms` is the wall time at which its transaction began.

    `partitions` are those of the open transaction; `without_marker`, once it is decided, those whose marker is not
    written yet. `coordinator` is the broker that described it, None if it is this node.
    """

    transactional_id: str
    state: str = TransactionState.DEAD.wire_name
    producer_id: int = -1
    producer_epoch: int = -1
    timeout_ms: int = 0
    start_ms: int = -1
    partitions: Sequence[PartitionKey] = ()
    without_marker: Sequence[PartitionKey] = ()
    coordinator: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != TransactionState.DEAD.wire_name

    @property
    def is_ongoing(self) -> bool:
        return self.state == TransactionState.ONGOING.wire_name

    @property
    def is_prepared(self) -> bool:
        return self.state in {state.wire_name for state in PREPARED}

    @property
    def is_open(self) -> bool:
        """Whether readers of committed records may have to wait for it."""
        return self.is_ongoing or self.is_prepared

    def age_ms(self, now_ms: int) -> int:
        """How long ago its transaction began; 0 if it began in what is the future since the clock was set back."""
        return max(now_ms - self.start_ms, 0)


async def read_transaction(coordinator: TransactionCoordinator, transactional_id: str) -> TransactionView:
    """The transactional id, as far as it is committed. Raises CoordinatorLoadInProgress."""
    try:
        reading: Future[TransactionView] = coordinator.read(
            transactional_id, partial(_view, transactional_id=transactional_id)
        )
        return await reading
    except NotCoordinator:
        if coordinator.topic_exists:
            raise
        return TransactionView(transactional_id)


async def list_transactions(coordinator: TransactionCoordinator) -> list[TransactionView]:
    """All transactional ids, in order. Raises CoordinatorLoadInProgress."""
    found: list[TransactionView] = []
    for context in coordinator.runtime.contexts():
        found += await context.read(lambda state: [_view(state, one) for one, _ in state.items()])
    return sorted(found, key=lambda one: one.transactional_id)


def _view(state: TransactionCoordinatorShard, transactional_id: str) -> TransactionView:
    found = state.get(transactional_id)
    if found is None:
        return TransactionView(transactional_id)
    left = state.partitions_left(transactional_id, found) if found.state in PREPARED else ()
    return TransactionView(
        transactional_id,
        found.state.wire_name,
        found.producer_id,
        found.producer_epoch,
        found.timeout_ms,
        found.start_ms,
        sorted(found.partitions),
        sorted(left),
    )


MILLISECOND = timedelta(milliseconds=1)
DESCRIBED_AT_ONCE = 500
"""Transactional ids in a request: see `remote_groups`."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def list_transactions_at(node: Node, broker_id: int) -> list[TransactionView]:
    """The transactional ids that a broker coordinates. Raises KafkaError."""
    answer = await ask(node.cluster.peers.reach, broker_id, ListTransactionsRequest(), lowest=0)
    check(broker_id, answer.error_code)
    return await describe_transactions_at(node, broker_id, [one.transactional_id for one in answer.transaction_states])


async def describe_transactions_at(node: Node, broker_id: int, ids: Sequence[str]) -> list[TransactionView]:
    """These transactional ids of a coordinator, in order; some hundreds at a time. Raises KafkaError."""
    by_id: dict[str, Any] = {}
    for begin in range(0, len(ids), DESCRIBED_AT_ONCE):
        request = DescribeTransactionsRequest(transactional_ids=tuple(ids[begin : begin + DESCRIBED_AT_ONCE]))
        answer = await ask(node.cluster.peers.reach, broker_id, request, lowest=0)
        by_id |= {one.transactional_id: one for one in answer.transaction_states}
    return [_view_of_remote_transactions(broker_id, name, by_id[name]) for name in ids]


def _view_of_remote_transactions(broker_id: int, name: str, one: Any) -> TransactionView:
    """What its coordinator tells. Once a transaction is decided, its partitions are those whose marker is missing."""
    if one.error_code is ErrorCode.transactional_id_not_found:
        return TransactionView(name, coordinator=broker_id)
    check(broker_id, one.error_code)
    start_ms = -1 if one.transaction_start_time is None else (one.transaction_start_time - EPOCH) // MILLISECOND
    found = TransactionView(
        name,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout // MILLISECOND,
        start_ms,
        sorted(_partitions(one.topics)),
        coordinator=broker_id,
    )
    return replace(found, without_marker=found.partitions) if found.is_prepared else found


def _partitions(topics: Iterable[Any]) -> Iterable[PartitionKey]:
    return ((topic.topic, index) for topic in topics for index in topic.partitions)

"""A transactional id as the test kit shows it."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

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

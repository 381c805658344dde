"""Values that are made of the state of a node's parts, and of what other brokers tell, when somebody asks."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kio.schema.describe_transactions.v0 import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v1 import ListTransactionsRequest

from broker.coordinators.hosted import HostedCoordinator
from broker.node import Node
from broker.peers.leaders import PATIENCE_MS, ask, check
from broker.testkit.inspection import groups
from broker.testkit.inspection.groups import GroupSummary, GroupView
from broker.testkit.inspection.remote_groups import describe_groups_at, list_groups_at
from coordinator.transaction.transaction_coordinator_shard import TransactionCoordinatorShard
from coordinator.transaction.transaction_metadata import PREPARED, TransactionState
from protocol.errors import KafkaError, NotCoordinator
from protocol.metadata.topics import NO_LEADER
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


async def own_transaction(coordinator: TransactionCoordinator, transactional_id: str) -> TransactionView:
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


async def own_transactions(coordinator: TransactionCoordinator) -> list[TransactionView]:
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
    return [_told(broker_id, name, by_id[name]) for name in ids]


def _told(broker_id: int, name: str, one: Any) -> TransactionView:
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


T = TypeVar("T")

AGAIN_MS = 250.0
"""After which a coordinator that did not tell is asked again: it lists and describes all that it has."""


class Listed(NamedTuple, Generic[T]):
    """What all coordinators know, in order; `unknown` has a sentence for each that did not tell what it knows."""

    found: list[T]
    unknown: list[str]


async def read_group(node: Node, group_id: str) -> GroupView:
    """The group, as far as it is committed. Raises CoordinatorLoadInProgress, and other KafkaErrors."""
    elsewhere = _elsewhere(node, node.coordinators.groups, group_id)
    if elsewhere is None:
        return await groups.read_group(node.coordinators.groups, group_id)
    return (await describe_groups_at(node, elsewhere, [group_id]))[0]


async def read_groups(node: Node, group_ids: Sequence[str]) -> list[GroupView]:
    """These groups, in order; those of one coordinator are asked for together. Raises KafkaError."""
    coordinator = node.coordinators.groups
    by_broker: dict[int | None, list[str]] = {}
    for group_id in group_ids:
        by_broker.setdefault(_elsewhere(node, coordinator, group_id), []).append(group_id)
    here = [await groups.read_group(coordinator, group_id) for group_id in by_broker.pop(None, ())]
    asked = (describe_groups_at(node, broker, ids) for broker, ids in by_broker.items() if broker is not None)
    found = {group.group_id: group for several in (here, *await asyncio.gather(*asked)) for group in several}
    return [found[group_id] for group_id in group_ids]


async def list_groups(node: Node) -> Listed[GroupView]:
    """All groups, by id."""

    async def at(broker_id: int) -> list[GroupView]:
        summaries = await list_groups_at(node, broker_id)
        return await describe_groups_at(node, broker_id, [one.group_id for one in summaries])

    coordinator = node.coordinators.groups
    return await _of_all(node, coordinator, lambda: groups.list_groups(coordinator), at, "group_id")


async def list_summaries(node: Node) -> Listed[GroupSummary]:
    """All groups, by id, in a fraction of the time of `list_groups`."""
    coordinator = node.coordinators.groups
    at = _at(node, list_groups_at)
    return await _of_all(node, coordinator, lambda: groups.list_summaries(coordinator), at, "group_id")


async def read_transaction(node: Node, transactional_id: str) -> TransactionView:
    """The transactional id, as far as it is committed. Raises CoordinatorLoadInProgress, and other KafkaErrors."""
    coordinator = node.coordinators.transactions
    elsewhere = _elsewhere(node, coordinator, transactional_id)
    if elsewhere is None:
        return await own_transaction(coordinator, transactional_id)
    return (await describe_transactions_at(node, elsewhere, [transactional_id]))[0]


async def list_transactions(node: Node) -> Listed[TransactionView]:
    """All transactional ids, in order."""
    coordinator = node.coordinators.transactions
    at = _at(node, list_transactions_at)
    return await _of_all(node, coordinator, lambda: own_transactions(coordinator), at, "transactional_id")


def _at(node: Node, ask: Callable[[Node, int], Awaitable[T]]) -> Callable[[int], Awaitable[T]]:
    return lambda broker_id: ask(node, broker_id)


def _elsewhere(node: Node, coordinator: HostedCoordinator[Any], key: str) -> int | None:
    """The broker that has to be asked; None if that is this node, or if nobody coordinates."""
    leader = coordinator.leader_for(node.cluster.cache.image, key)
    return None if leader in (node.node_id, NO_LEADER) else leader


async def _of_all(
    node: Node,
    coordinator: HostedCoordinator[Any],
    own: Callable[[], Awaitable[list[T]]],
    at: Callable[[int], Awaitable[list[T]]],
    name: str,
) -> Listed[T]:
    """What this node and all other coordinators know, sorted by `name`; who does not answer is asked for a while.

    An answer is kept while the others are asked again, unless a partition has moved to another coordinator.
    """
    clock = node.clock.machine
    deadline_ms = clock.monotonic_ms() + PATIENCE_MS
    leaders: dict[int, int] = {}
    answers: dict[int, list[T] | KafkaError] = {}
    while True:
        before, leaders = leaders, coordinator.leaders(node.cluster.cache.image)
        if leaders != before:
            answers.clear()
        everybody = sorted({node.node_id, *leaders.values()} - {NO_LEADER})
        missing = [broker_id for broker_id in everybody if not isinstance(answers.get(broker_id), list)]
        asked = (_answer(own() if broker_id == node.node_id else at(broker_id)) for broker_id in missing)
        answers |= zip(missing, await asyncio.gather(*asked), strict=True)
        unknown = [
            f"broker {broker_id} did not tell what it coordinates: {answer}"
            for broker_id, answer in sorted(answers.items())
            if isinstance(answer, KafkaError)
        ]
        if not unknown or clock.monotonic_ms() >= deadline_ms:
            if NO_LEADER in leaders.values():
                unknown.append("nobody knows what is in the coordinators' partitions that have no leader")
            found = [one for answer in answers.values() if not isinstance(answer, KafkaError) for one in answer]
            return Listed(sorted(found, key=attrgetter(name)), unknown)
        await clock.sleep(AGAIN_MS)


async def _answer(asked: Awaitable[list[T]]) -> list[T] | KafkaError:
    try:
        return await asked
    except KafkaError as error:
        return error

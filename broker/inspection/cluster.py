"""Groups and transactional ids of the whole cluster: each is asked of its coordinator, this node or another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from broker.coordinators.hosted import HostedCoordinator
from broker.inspection import groups, transactions
from broker.inspection.groups import GroupSummary, GroupView
from broker.inspection.remote_groups import describe_groups_at, list_groups_at
from broker.inspection.remote_transactions import describe_transactions_at, list_transactions_at
from broker.inspection.transactions import TransactionView
from broker.node import Node
from broker.peers.leaders import PATIENCE_MS
from protocol.errors import KafkaError
from protocol.metadata.topics import NO_LEADER

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
        return await transactions.read_transaction(coordinator, transactional_id)
    return (await describe_transactions_at(node, elsewhere, [transactional_id]))[0]


async def list_transactions(node: Node) -> Listed[TransactionView]:
    """All transactional ids, in order."""
    coordinator = node.coordinators.transactions
    at = _at(node, list_transactions_at)
    return await _of_all(node, coordinator, lambda: transactions.list_transactions(coordinator), at, "transactional_id")


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

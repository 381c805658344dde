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
from broker.peers.asking import PATIENCE_MS, RETRY_MS
from protocol.errors import KafkaError
from protocol.metadata.topics import NO_LEADER

T = TypeVar("T")


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
    """What this node and all other coordinators know, sorted by `name`; who does not answer is asked for a while."""
    clock = node.clock.machine
    deadline_ms = clock.monotonic_ms() + PATIENCE_MS
    while True:
        leaders = coordinator.leaders(node.cluster.cache.image)
        others = sorted(leaders - {node.node_id, NO_LEADER})
        answers = await asyncio.gather(own(), *map(at, others), return_exceptions=True)
        found: list[T] = []
        unknown: list[str] = []
        for broker_id, answer in zip((node.node_id, *others), answers, strict=True):
            if isinstance(answer, KafkaError):
                unknown.append(f"broker {broker_id} did not tell what it coordinates: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found += answer
        if not unknown or clock.monotonic_ms() >= deadline_ms:
            if NO_LEADER in leaders:
                unknown.append("nobody knows what is in the coordinators' partitions that have no leader")
            return Listed(sorted(found, key=attrgetter(name)), unknown)
        await clock.sleep(RETRY_MS)

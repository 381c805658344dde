"""Back to what was there before a test: what it made is deleted, faults and histories end, and the clock is reset.

A mark names what was there. It is all in the client's hands, so any number of clients may have marks of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.history_recorder import histories_of
from broker.control.transactions import forget
from broker.inspection.groups import list_groups
from broker.inspection.transactions import list_transactions
from broker.node import Node
from controller import delete_topics
from controller.decision import NoQuota
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.on_demand import remove_group
from coordinator.runtime.outcome import Outcome
from metadata.topic_names import is_internal
from timing.adjustable_clock import AdjustableClock

TIMEOUT = timedelta(seconds=30)
KINDS = ("topics", "groups", "transactional_ids")


async def _mark(node: Node, _values: Values) -> dict[str, Any]:
    topics = [str(topic.id) for topic in node.cluster.cache.image.topics if not is_internal(topic.name)]
    return {"mark": {"topics": topics, "groups": await _groups(node), "transactional_ids": await _ids(node)}}


async def _groups(node: Node) -> list[str]:
    await node.coordinators.groups.runtime.loaded()
    return [group.group_id for group in await list_groups(node.coordinators.groups)]


async def _ids(node: Node) -> list[str]:
    await node.coordinators.transactions.runtime.loaded()
    return [transaction.transactional_id for transaction in await list_transactions(node.coordinators.transactions)]


async def _reset(node: Node, values: Values) -> dict[str, Any]:
    """Transactions first, as their end is written to the topics, and commits offsets of groups."""
    kept = _kept(values.get("mark", {}))
    if node.faults is not None:
        node.faults.clear()
    histories_of(node).end_all()
    if isinstance(node.clock, AdjustableClock):
        await node.clock.reset()
    await node.cluster.auto_topics.stop()
    ids = [
        transactional_id for transactional_id in await _ids(node) if transactional_id not in kept["transactional_ids"]
    ]
    await asyncio.gather(*(forget(node, transactional_id) for transactional_id in ids))
    groups = [group for group in await _groups(node) if group not in kept["groups"]]
    await asyncio.gather(*(_remove_group(node, group) for group in groups))
    return {"topics": await _delete_topics(node, kept["topics"]), "groups": groups, "transactional_ids": ids}


def _kept(mark: dict[str, Any]) -> dict[str, frozenset[str]]:
    """What a mark names, by kind. Raises ControlError."""
    for name, value in mark.items():
        if name not in KINDS:
            raise ControlError(f"mark: {name} is not known: expected {', '.join(KINDS)}", parameter="mark")
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ControlError(f"mark: {name} = {value!r}: expected a list of texts", parameter="mark")
    return {kind: frozenset(mark.get(kind, ())) for kind in KINDS}


async def _remove_group(node: Node, group_id: str) -> None:
    await node.coordinators.groups.write(group_id, _removing(group_id))
    node.local.share.unload(group_id)  # its consumers may still have share sessions


def _removing(group_id: str) -> Callable[[GroupCoordinatorShard], Outcome[bool]]:
    return lambda state: remove_group(state, group_id)


async def _delete_topics(node: Node, kept: frozenset[str]) -> list[str]:
    """Delete all topics but those with these ids, and the internal ones; return their names."""
    topics = node.cluster.cache.image.topics
    made = {topic.id: topic.name for topic in topics if str(topic.id) not in kept and not is_internal(topic.name)}
    if not made:
        return []
    states = tuple(DeleteTopicState(name=None, topic_id=topic_id) for topic_id in made)
    request = DeleteTopicsRequest(topics=states, timeout=TIMEOUT)
    response = await node.controller.submit(
        lambda image: delete_topics.decide(image, request, NoQuota()), request=request
    )
    deleted: list[UUID | None] = [answer.topic_id for answer in response.responses if answer.error_code.name == "none"]
    return sorted(name for topic_id, name in made.items() if topic_id in deleted)


ENDPOINTS = (
    Endpoint("GET", "/mark", "A mark: the topics, groups and transactional ids that there are now.", _mark),
    Endpoint(
        "POST",
        "/reset",
        "Delete what is not in the mark, whoever still uses it; remove faults, end histories, and reset the clock.",
        _reset,
        (
            Parameter(
                "mark",
                Kind.OBJECT,
                "What stays, as GET /control/mark has it: topics (their ids), groups, transactional_ids. If it is "
                "missing, nothing stays.",
            ),
        ),
    ),
)

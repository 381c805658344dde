"""Transactional ids, one of them, and the partitions that open transactions hold."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.authorization.console_table import EVERYTHING
from broker.console import formats
from broker.console.ask import Ask, Page, allowed, paged
from broker.control.endpoint import ControlError
from broker.explain.explain import explain_transaction
from broker.inspection.cluster import list_transactions, read_transaction
from broker.inspection.transactions import TransactionView
from broker.replication.partition import Role
from metadata.acls import ResourceType
from protocol.topic_partition import PartitionKey

ON_A_PAGE = 50
PARTITIONS_ON_A_PAGE = 200
PARTITIONS_A_TURN = 500
MOST_HELD = 200


async def transactions(ask: Ask) -> Page:
    part, only_open = ask.text("q"), ask.text("open") == "yes"
    found, unknown = await list_transactions(ask.node)
    names = await allowed(
        ask.rights, "list_transactions", ResourceType.TRANSACTIONAL_ID, [one.transactional_id for one in found]
    )
    visible = set(names)
    by_producer = {one.producer_id: one for one in found}
    matching = [
        one
        for one in found
        if one.transactional_id in visible
        and part.lower() in one.transactional_id.lower()
        and (one.is_open or not only_open)
    ]
    matching.sort(key=lambda one: (not one.is_open, one.start_ms if one.is_open else 0, one.transactional_id))
    shown = paged(ask, matching, ON_A_PAGE)
    return Page(
        "transactions.html",
        "Transactions",
        {
            "paging": shown,
            "rows": [{"transaction": one, "partitions": len(_partitions(ask, one))} for one in shown.rows],
            "unknown": unknown,
            "q": part,
            "only_open": only_open,
            "held": await _held(ask, by_producer, visible),
        },
    )


async def _held(ask: Ask, by_producer: dict[int, TransactionView], visible: set[str]) -> list[dict[str, Any]]:
    """The partitions that this node leads with an open transaction; the loop gets a turn in between."""
    held: list[dict[str, Any]] = []
    for number, partition in enumerate(list(ask.node.replicas)):
        if number % PARTITIONS_A_TURN == PARTITIONS_A_TURN - 1:
            await asyncio.sleep(0)
        producers = partition.log.producers
        if partition.role is not Role.LEADER:
            continue  # what a follower has is old
        if not producers.open_transactions or len(held) >= MOST_HELD:
            continue
        if not ask.rights.allow("describe_producers", ResourceType.TOPIC, partition.topic):
            continue
        first_offset, producer_id = next(iter(producers.open_transactions.items()))
        holder = by_producer.get(producer_id)
        held.append(
            {
                "topic": partition.topic,
                "partition": partition.index,
                "first_offset": first_offset,
                "behind": partition.high_watermark - partition.last_stable_offset,
                "producer_id": producer_id,
                "holder": holder if holder is not None and holder.transactional_id in visible else None,
                "last_ms": producers.producers[producer_id].last_timestamp,
            }
        )
    return held


def _partitions(ask: Ask, one: TransactionView) -> list[PartitionKey]:
    """Those of topics that the user may be told of."""
    topics = {topic for topic, _ in one.partitions}
    told = {topic for topic in topics if ask.rights.allow("describe_transactions", ResourceType.TOPIC, topic)}
    return [key for key in one.partitions if key[0] in told]


async def transaction(ask: Ask) -> Page:
    name = ask.name("id")
    found = await read_transaction(ask.node, name)
    is_told = ask.rights.allow(EVERYTHING, ResourceType.CLUSTER)
    findings = await explain_transaction(ask.node, name) if is_told else None
    if not found.exists:
        text = " ".join(f"{one.text}. {one.advice}" for one in findings or ())
        raise ControlError(text or f"there is no transactional id {name}", status=404)
    return Page(
        "transaction.html",
        f"Transactional id {formats.shown(name)}",
        {
            "transaction": found,
            "paging": paged(ask, _partitions(ask, found), PARTITIONS_ON_A_PAGE),
            "findings": findings,
        },
    )

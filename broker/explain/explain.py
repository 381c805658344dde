"""Looks at the node, and asks every rule."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from broker.explain import (
    group_rules,
    kit_rules,
    reading_rules,
    share_rules,
    streams_rules,
    topic_rules,
    transaction_rules,
)
from broker.explain.finding import Finding, in_order
from broker.explain.situations import GroupSituation, Holder, Holders, TopicSituation, TransactionSituation
from broker.inspection.fetches import read_fetches
from broker.inspection.groups import list_groups, read_group
from broker.inspection.kit import Concerned, KitView, read_kit
from broker.inspection.lag import partition_lags
from broker.inspection.partitions import PartitionView, read_partition, read_topic
from broker.inspection.producers import requests_of
from broker.inspection.share_groups import read_share_group
from broker.inspection.streams_groups import read_streams_group
from broker.inspection.transactions import list_transactions, read_transaction
from broker.node import Node
from coordinator.group.group_port import GroupType
from protocol.topic_partition import PartitionKey


async def explain_group(node: Node, group_id: str) -> list[Finding]:
    """What keeps a group from reading, the worst first. Raises CoordinatorLoadInProgress, as do the others."""
    it = await group_situation(node, group_id)
    reading = share_rules.RULES if it.shares is not None else (*streams_rules.RULES, *reading_rules.RULES)
    return _found(chain.from_iterable(rule(it) for rule in (*group_rules.RULES, *reading)), it.kit)


async def explain_topic(node: Node, topic: str) -> list[Finding]:
    it = await topic_situation(node, topic)
    return _found(chain.from_iterable(rule(it) for rule in topic_rules.RULES), it.kit)


async def explain_transaction(node: Node, transactional_id: str) -> list[Finding]:
    it = await transaction_situation(node, transactional_id)
    return _found(chain.from_iterable(rule(it) for rule in transaction_rules.RULES), it.kit)


def _found(findings: Iterable[Finding], kit: KitView) -> list[Finding]:
    return in_order((*findings, *chain.from_iterable(rule(kit) for rule in kit_rules.RULES)))


async def group_situation(node: Node, group_id: str) -> GroupSituation:
    coordinator, image = node.coordinators.groups, node.cluster.cache.image
    group = await read_group(coordinator, group_id)
    keys = {*group.offsets, *group.owners()}
    keys |= {(partition.topic, partition.partition) for topic in group.topics for partition in read_topic(node, topic)}
    partitions = {key: read_partition(node, *key) for key in sorted(keys)}
    existing: dict[PartitionKey, PartitionView] = {
        key: partition for key, partition in partitions.items() if partition is not None
    }
    return GroupSituation(
        node.local.clock.wall_ms(),
        group,
        partition_lags(group, image.topics, node.replicas),
        existing,
        read_fetches(node),
        await _holders(node, existing.values()),
        _names(node),
        [found.group_id for found in await list_groups(coordinator)],
        read_kit(node, Concerned(groups={group_id}, topics={topic for topic, _ in existing})),
        await read_share_group(node, group) if group.protocol == GroupType.SHARE.value else None,
        await read_streams_group(coordinator, group_id) if group.protocol == GroupType.STREAMS.value else None,
    )


async def topic_situation(node: Node, topic: str) -> TopicSituation:
    partitions = read_topic(node, topic)
    logs = [node.replicas.get(topic, partition.partition) for partition in partitions]
    retention_ms = next((log.log.config.retention_ms for log in logs if log is not None), -1)
    readers = [
        group.group_id
        for group in await list_groups(node.coordinators.groups)
        if topic in group.topics or any(name == topic for name, _ in group.offsets)
    ]
    return TopicSituation(
        node.local.clock.wall_ms(),
        topic,
        partitions,
        retention_ms,
        readers,
        _names(node),
        await _holders(node, partitions),
        read_kit(node, Concerned(topics={topic})),
    )


async def transaction_situation(node: Node, transactional_id: str) -> TransactionSituation:
    coordinator = node.coordinators.transactions
    transaction = await read_transaction(coordinator, transactional_id)
    partitions = [read_partition(node, *key) for key in transaction.partitions]
    return TransactionSituation(
        node.local.clock.wall_ms(),
        transaction,
        requests_of(node, transactional_id),
        [partition for partition in partitions if partition is not None],
        [found.transactional_id for found in await list_transactions(coordinator)],
        node.local.config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        read_kit(node, Concerned(transactional_ids={transactional_id})),
    )


async def _holders(node: Node, partitions: Iterable[PartitionView]) -> Holders:
    """The open transactions that hold readers back, by producer id."""
    holding = {
        producer_id
        for partition in partitions
        if partition.is_held
        for producer_id in partition.open_producers.values()
    }
    if not holding:
        return {}
    found = {}
    for one in await list_transactions(node.coordinators.transactions):
        if one.producer_id in holding and one.is_open:
            requests = requests_of(node, one.transactional_id)
            found[one.producer_id] = Holder(one, requests[0] if requests else None)
    return found


def _names(node: Node) -> frozenset[str]:
    return frozenset(topic.name for topic in node.cluster.cache.image.topics)

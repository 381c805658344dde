"""Looks at the node, and asks every rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from broker.config.resource_configs import log_config
from broker.node import Node
from broker.testkit.explain import group_rules, reading_rules, share_rules, topic_rules
from broker.testkit.explain.situations import (
    Concerned,
    Finding,
    Findings,
    GroupSituation,
    Holder,
    Holders,
    KitView,
    TopicSituation,
    TransactionSituation,
    ask,
    read_kit,
    warning,
)
from broker.testkit.inspection import list_groups, list_summaries, list_transactions, read_group, read_transaction
from broker.testkit.inspection.partitions import PartitionView, concerned, partition_lags, read_partitions, read_topics
from broker.testkit.inspection.share_and_streams import read_share_group, read_share_offsets, read_streams_group
from broker.testkit.journal_views import read_fetches, requests_of
from protocol.metadata.topics import NO_LEADER


def a_fault_is_set(kit: KitView) -> Findings:
    for fault in kit.faults:
        yield warning(
            f"a fault of the test is set: {fault}",
            "Remove it: broker.clear_faults().",
        )


def clock_is_frozen(kit: KitView) -> Findings:
    if kit.clock_is_frozen:
        yield warning(
            "the broker's clock is frozen: no session, rebalance, transaction or long poll times out",
            "Let it go on: broker.clock.resume().",
        )


KIT_RULES = (a_fault_is_set, clock_is_frozen)


async def explain_group(node: Node, group_id: str) -> list[Finding]:
    """What keeps a group from reading, the worst first. Raises CoordinatorLoadInProgress, as do the others."""
    it = await group_situation(node, group_id)
    return _in_order(ask((*group_rules.RULES, *_rules_of_its_kind(it)), it), it.kit)


def _rules_of_its_kind(it: GroupSituation) -> Sequence[Callable[[GroupSituation], Findings]]:
    """A share group commits nothing; what it and a streams group have besides, their coordinator alone knows."""
    if it.group.is_share:
        return () if it.shares is None else share_rules.RULES
    return (*(() if it.streams is None else group_rules.STREAMS_RULES), *reading_rules.RULES)


async def explain_topic(node: Node, topic: str) -> list[Finding]:
    it = await topic_situation(node, topic)
    return _in_order(ask(topic_rules.TOPIC_RULES, it), it.kit)


async def explain_transaction(node: Node, transactional_id: str) -> list[Finding]:
    it = await transaction_situation(node, transactional_id)
    return _in_order(ask(topic_rules.TRANSACTION_RULES, it), it.kit)


def _in_order(findings: Findings, kit: KitView) -> list[Finding]:
    """The findings and those about the kit, the worst first."""
    return sorted((*findings, *ask(KIT_RULES, kit)), key=lambda finding: finding.severity)


async def group_situation(node: Node, group_id: str) -> GroupSituation:
    coordinator = node.coordinators.groups
    group = await read_group(node, group_id)
    keys = concerned(group, node.cluster.cache.image.topics)
    partitions = await read_partitions(node, keys)
    is_here = group.coordinator is None
    return GroupSituation(
        node.local.clock.wall_ms(),
        group,
        partition_lags(group, keys, partitions, await read_share_offsets(node, group)),
        partitions,
        read_fetches(node),
        await _holders(node, partitions.values()),
        _names(node),
        [] if group.exists else [one.group_id for one in (await list_summaries(node)).found],
        read_kit(node, Concerned(groups={group_id}, topics={topic for topic, _ in partitions})),
        await read_share_group(node, group) if is_here and group.is_share else None,
        await read_streams_group(coordinator, group_id) if is_here and group.is_streams else None,
    )


async def topic_situation(node: Node, topic: str) -> TopicSituation:
    partitions = [*(await read_topics(node, [topic])).values()]
    config = log_config(node.local.config, node.cluster.cache.topic_configs(topic))
    groups = await list_groups(node)
    readers = [
        group.group_id
        for group in groups.found
        if topic in group.topics or any(name == topic for name, _ in group.offsets)
    ]
    return TopicSituation(
        node.local.clock.wall_ms(),
        topic,
        partitions,
        _in_sync(node, topic),
        config.min_insync_replicas,
        config.retention_ms,
        readers,
        groups.unknown,
        _names(node),
        await _holders(node, partitions),
        read_kit(node, Concerned(topics={topic})),
    )


async def transaction_situation(node: Node, transactional_id: str) -> TransactionSituation:
    transaction = await read_transaction(node, transactional_id)
    partitions = await read_partitions(node, transaction.partitions)
    return TransactionSituation(
        node.local.clock.wall_ms(),
        transaction,
        requests_of(node, transactional_id),
        [*partitions.values()],
        [] if transaction.exists else [one.transactional_id for one in (await list_transactions(node)).found],
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
    for one in (await list_transactions(node)).found:
        if one.producer_id in holding and one.is_open:
            requests = requests_of(node, one.transactional_id)
            found[one.producer_id] = Holder(one, requests[0] if requests else None)
    return found


def _in_sync(node: Node, topic: str) -> dict[str, int]:
    found = node.cluster.cache.topic(topic)
    registered = {} if found is None else found.partitions
    return {f"{topic}-{index}": len(one.isr) for index, one in registered.items() if one.leader != NO_LEADER}


def _names(node: Node) -> frozenset[str]:
    return frozenset(topic.name for topic in node.cluster.cache.image.topics)

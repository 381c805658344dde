"""Why a consumer gets nothing, and what to do: rules over a view of the node.

A rule is a small pure function: it gets a situation, and yields what it finds there (`situations`). Rules do not know
of each other: those of `rules` are about groups, topics and transactional ids, those of `reading_rules` about what a
group reads. What a client of any Kafka can find out too is in `odradek.explain_rules`. Here the node is looked at, and
every rule is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from broker.config.resource_configs import log_config
from broker.nearest import near
from broker.node import Node
from broker.testkit.explain import reading_rules, rules
from broker.testkit.explain.situations import (
    Concerned,
    GroupSituation,
    Holder,
    Holders,
    KitView,
    TopicSituation,
    TransactionSituation,
    read_kit,
    seconds,
    who,
)
from broker.testkit.inspection import list_groups, list_summaries, list_transactions, read_group, read_transaction
from broker.testkit.inspection.partitions import PartitionView, concerned, partition_lags, read_partitions, read_topics
from broker.testkit.inspection.share_and_streams import read_share_group, read_share_offsets, read_streams_group
from broker.testkit.journal_views import read_fetches, requests_of
from metadata.topics import PartitionRegistration
from odradek import explain_rules
from odradek.explain_rules import Findings, SeenGroup, SeenPartition, SeenTopic, SeenTransaction, ask, in_order, warning
from odradek.report import Finding


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
    """Find what keeps a group from reading, the worst first. Raises CoordinatorLoadInProgress, as do the others."""
    seen = await group_situation(node, group_id)
    return in_order(
        (*ask(_common_rules(seen), _group(seen)), *ask(_rules_of_its_kind(seen), seen), *ask(KIT_RULES, seen.kit))
    )


def _common_rules(seen: GroupSituation) -> Sequence[Callable[[SeenGroup], Findings]]:
    """Those that a client asks too. Of a group that waits, and of what is fetched, this node knows more."""
    common = (explain_rules.group_does_not_exist, explain_rules.group_is_empty, explain_rules.partition_is_offline)
    commits = (
        each for each in explain_rules.COMMIT_RULES if seen.fetches is None or each is not explain_rules.is_behind
    )
    return (*common, *commits)


def _rules_of_its_kind(seen: GroupSituation) -> Sequence[Callable[[GroupSituation], Findings]]:
    """A share group commits nothing; what it and a streams group have besides, their coordinator alone knows."""
    if seen.group.is_share:
        return (*rules.GROUP_RULES, *(() if seen.shares is None else reading_rules.SHARE_RULES))
    streams = () if seen.streams is None else rules.STREAMS_RULES
    return (*rules.GROUP_RULES, *streams, *reading_rules.READING_RULES)


def _group(seen: GroupSituation) -> SeenGroup:
    """The group as the common rules look at it."""
    group = seen.group
    return SeenGroup(
        group.group_id,
        group.protocol,
        group.state if group.exists else "",
        {
            who(member): [(topic, index) for topic, of in member.assignment.items() for index in of]
            for member in group.members
        },
        {key: offset.value.offset for key, offset in group.offsets.items()},
        {key: _partition(one, seen) for key, one in seen.partitions.items()},
        seen.groups,
        seen.partitions,
        len(group.pending),
        in_test=seen.kit.is_open,
    )


def _partition(
    one: PartitionView, seen: GroupSituation | TopicSituation, registered: PartitionRegistration | None = None
) -> SeenPartition:
    start, stable, end = (one.start, one.stable, one.end) if one.is_known else (None, None, None)
    return SeenPartition(
        one.topic,
        one.partition,
        one.leader if one.has_leader else None,
        () if registered is None else registered.replicas,
        () if registered is None else registered.isr,
        start,
        stable,
        end,
        rules.holder_of(seen.holders, one, seen.now_ms) if one.is_held else "",
        rules.id_of_holder(seen.holders, one),
    )


async def explain_topic(node: Node, topic: str) -> list[Finding]:
    seen = await topic_situation(node, topic)
    common = SeenTopic(
        topic,
        [_partition(one, seen, seen.registered.get(one.partition)) for one in seen.partitions],
        seen.least_in_sync,
        [] if seen.partitions else near(topic, seen.existing),
        f" (retention.ms: {'for ever' if seen.retention_ms < 0 else seconds(seen.retention_ms)})",
        in_test=seen.kit.is_open,
    )
    found = [*ask(explain_rules.TOPIC_RULES, common), *ask(rules.TOPIC_RULES, seen), *ask(KIT_RULES, seen.kit)]
    if node.tier is not None:
        from broker.tiering.inspection import of_topic

        found += of_topic(node.tier, topic)
    return in_order(found)


async def explain_transaction(node: Node, transactional_id: str) -> list[Finding]:
    seen = await transaction_situation(node, transactional_id)
    common = SeenTransaction(
        transactional_id, seen.transaction.state if seen.transaction.exists else "", existing=seen.existing
    )
    in_common = ask((explain_rules.does_not_exist,), common)
    return in_order((*in_common, *ask(rules.TRANSACTION_RULES, seen), *ask(KIT_RULES, seen.kit)))


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
        [] if group.exists else near(group_id, [one.group_id for one in (await list_summaries(node)).found]),
        read_kit(node, Concerned(groups={group_id}, topics={topic for topic, _ in partitions})),
        await read_share_group(node, group) if is_here and group.is_share else None,
        await read_streams_group(coordinator, group_id) if is_here and group.is_streams else None,
    )


async def topic_situation(node: Node, topic: str) -> TopicSituation:
    partitions = [*(await read_topics(node, [topic])).values()]
    config = log_config(node.local.config, topic, node.cluster.cache.topic_configs(topic))
    groups = await list_groups(node)
    image = node.cluster.cache.topic(topic)
    readers = [
        group.group_id
        for group in groups.found
        if topic in group.topics or any(name == topic for name, _ in group.offsets)
    ]
    return TopicSituation(
        node.local.clock.wall_ms(),
        topic,
        partitions,
        {} if image is None else image.partitions,
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
        []
        if transaction.exists
        else near(transactional_id, [one.transactional_id for one in (await list_transactions(node)).found]),
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


def _names(node: Node) -> frozenset[str]:
    return frozenset(topic.name for topic in node.cluster.cache.image.topics)

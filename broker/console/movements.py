"""Replicas that move to other brokers, and how far they are; new moves, their end, and elections of leaders.

KIP-455, KIP-460: AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders; sizes are from DescribeLogDirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any

from kio.schema.alter_partition_reassignments.v1.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from broker.authorization.console_table import SIZES
from broker.console.ask import Ask, Done, Values
from broker.console.change_topics import assignment_of
from broker.console.own_client import ask_broker, refusal, require
from broker.console.sizes import Sizes, sizes_at
from broker.console.tables import arranged, numbers, texts, times, with_forms
from broker.console.topics import seen_topic
from broker.testkit.control.endpoint import ControlError
from metadata.acls import ResourceType
from metadata.topics import PartitionRegistration
from protocol.topic_partition import PartitionKey

TIMEOUT = timedelta(seconds=30)
ON_A_PAGE = 50
MOST_FAILURES = 5
ELECTIONS = {"preferred": 0, "unclean": 1}
NOT_NEEDED = "No election was needed: the leaders are those already."

COLUMNS = (
    texts("partition", "Partition", of=itemgetter(0)),
    texts("from", "From", lambda row: row["replicas"]),
    texts("to", "To", lambda row: row["target"]),
    texts("comes", "Comes", lambda row: row["adding"]),
    texts("goes", "Goes", lambda row: row["removing"]),
    texts("sync", "In sync", lambda row: row["in_sync"]),
    numbers("size", "Size", lambda row: row["bytes"]),
    times("progress", "Progress", lambda row: row["done"]),
)


async def movements(ask: Ask) -> Values:
    answer = await ask_broker(ask, ListPartitionReassignmentsRequest(timeout=TIMEOUT, topics=None))
    require(answer)
    found = sorted(((topic.name, one.partition_index), one) for topic in answer.topics for one in topic.partitions)

    async def rows_of(part: list[tuple[PartitionKey, Any]]) -> list[dict[str, Any]]:
        wanted = ((broker, key) for key, one in part for broker in one.replicas)
        sizes = await sizes_at(ask, wanted) if ask.rights.allow(SIZES, ResourceType.CLUSTER) else {}
        return [_row(ask, key, one, sizes) for key, one in part]

    order, shown, rows = await arranged(ask, with_forms(ask, COLUMNS), found, ON_A_PAGE, rows_of)
    return {
        "order": order,
        "paging": shown,
        "rows": rows,
        "brokers": sorted(ask.node.cluster.cache.image.cluster.alive(), key=lambda one: one.id),
        "elections": tuple(ELECTIONS),
        "topic": ask.given.get("topic", ""),
    }


def _row(ask: Ask, key: PartitionKey, one: Any, sizes: Sizes) -> dict[str, Any]:
    """A partition that moves; `done` is how much of it the replicas have that come, 0 to 1; None if nobody tells."""
    topic = ask.node.cluster.cache.topic(key[0])
    registered = None if topic is None else topic.partitions.get(key[1])
    whole = None if registered is None else sizes.get((registered.leader, key))
    there = [sizes.get((broker, key)) for broker in one.adding_replicas]
    parts = [
        1.0 if registered is not None and broker in registered.isr else min((size or 0) / whole, 0.99) if whole else 0.0
        for broker, size in zip(one.adding_replicas, there, strict=True)
    ]
    return {
        "topic": key[0],
        "partition": key[1],
        "replicas": [each for each in one.replicas if each not in one.adding_replicas],
        "target": [each for each in one.replicas if each not in one.removing_replicas],
        "adding": list(one.adding_replicas),
        "removing": list(one.removing_replicas),
        "in_sync": [] if registered is None else list(registered.isr),
        "bytes": whole,
        "done": sum(parts) / len(parts) if parts and whole is not None else None,
    }


async def move(ask: Ask) -> Done:
    """Have replicas of one partition be at these brokers, or spread all partitions of the topic over them."""
    name = ask.needed("topic")
    topic = seen_topic(ask, "topic")
    given = assignment_of(ask.needed("brokers"))
    if len(given) != 1:
        raise ControlError("brokers: expected the ids of brokers in one line, as 1, 2, 3", parameter="brokers")
    brokers = given[0]
    if ask.text("partition"):
        wanted = {ask.integer("partition", most=topic.partition_count - 1): brokers}
    else:
        wanted = {index: _spread(index, brokers, one) for index, one in topic.in_order()}
    await _reassign(ask, name, wanted)
    return Done({"topic": name})


def _spread(index: int, brokers: Sequence[int], one: PartitionRegistration) -> tuple[int, ...]:
    """As many replicas as the partition shall have without this, the first at another broker each time."""
    count = len(set(one.replicas) - set(one.adding_replicas)) or 1
    if count > len(brokers):
        raise ControlError(
            f"brokers: each partition has {count} replicas: name {count} brokers at least", parameter="brokers"
        )
    return tuple(brokers[(index + place) % len(brokers)] for place in range(count))


async def cancel(ask: Ask) -> Done:
    name = ask.needed("topic")
    ask.needed("partition")
    await _reassign(ask, name, {ask.integer("partition", most=(1 << 31) - 1): None})
    return Done()


async def _reassign(ask: Ask, name: str, wanted: Mapping[int, Sequence[int] | None]) -> None:
    partitions: tuple[Any, ...] = tuple(
        ReassignablePartition(partition_index=index, replicas=None if replicas is None else tuple(replicas))
        for index, replicas in wanted.items()
    )
    request = AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT,
        allow_replication_factor_change=True,
        topics=(ReassignableTopic(name=name, partitions=partitions),),
    )
    answer = await ask_broker(ask, request)
    require(answer)
    _require_none([(name, one.partition_index, one) for each in answer.responses for one in each.partitions], "brokers")


def _require_none(answered: Sequence[tuple[str, int, Any]], parameter: str) -> None:
    """Raises ControlError with the first of the partitions that were refused."""
    failed = [(name, index, one) for name, index, one in answered if one.error_code is not ErrorCode.none]
    if not failed:
        return
    texts = [
        f"{name}-{index}: {refusal(one.error_code, one.error_message)}" for name, index, one in failed[:MOST_FAILURES]
    ]
    more = f"; and {len(failed) - MOST_FAILURES} more" if len(failed) > MOST_FAILURES else ""
    status = refusal(failed[0][2].error_code, None).status
    raise ControlError("; ".join(texts) + more, parameter=parameter, status=status)


async def elect(ask: Ask) -> Done:
    """Elect the leaders of a partition, of all of a topic or, for the preferred ones, of all topics."""
    kind = ELECTIONS[ask.choice("election", tuple(ELECTIONS))]
    name = ask.given.get("topic", "")
    partitions: tuple[Any, ...] | None = None
    if name:
        count = seen_topic(ask, "topic").partition_count
        indexes = [ask.integer("partition", most=count - 1)] if ask.text("partition") else range(count)
        partitions = (TopicPartitions(topic=name, partitions=tuple(indexes)),)
    elif kind or ask.text("partition"):
        raise ControlError("name the topic", parameter="topic")
    request = ElectLeadersRequest(election_type=kind, topic_partitions=partitions, timeout=TIMEOUT)
    answer = await ask_broker(ask, request)
    require(answer)
    results = [
        (each.topic, one.partition_id, one) for each in answer.replica_election_results for one in each.partition_result
    ]
    needed = [each for each in results if each[2].error_code is not ErrorCode.election_not_needed]
    _require_none(needed, "topic")
    return Done({"topic": name} if name else {}, "" if needed else NOT_NEEDED)

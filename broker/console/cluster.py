"""The first page: is the node well, and how much goes through it? And the cluster: its brokers, and the partitions that
an operator should look at, which are found by pure functions of the image, in any thread.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from broker.authorization.console_table import SIZES
from broker.console import formats
from broker.console.ask import Ask, Values, allowed, paged
from broker.console.charts import Chart, Frame, chart, frame_of
from broker.console.history import COARSE_MS, SAMPLE_MS
from broker.console.tables import numbers, order_of, texts
from broker.node import Node
from broker.process import own_version
from broker.replication.partition import Role
from broker.testkit.inspection import list_summaries
from metadata.acls import ResourceType
from metadata.brokers import BrokerRegistration
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration
from protocol.api.names import API_NAMES


class PartitionStates(NamedTuple):
    total: int
    leaderless: int
    under_replicated: int
    moving: int


class Troubled(NamedTuple):
    """A partition, and what is the matter with it."""

    topic: str
    number: int
    partition: PartitionRegistration
    what: str


def count_partitions(image: MetadataImage) -> PartitionStates:
    total = leaderless = under_replicated = moving = 0
    for topic in image.topics:
        for partition in topic.partitions.values():
            total += 1
            leaderless += not partition.has_leader
            under_replicated += _is_under_replicated(partition)
            moving += _is_moving(partition)
    return PartitionStates(total, leaderless, under_replicated, moving)


def troubled(image: MetadataImage) -> Iterator[Troubled]:
    """The partitions without a leader, those that lack in-sync replicas, and those that move, by name."""
    for topic in image.topics.sorted():
        for index, partition in topic.in_order():
            what = _what(partition)
            if what:
                yield Troubled(topic.name, index, partition, what)


def _what(partition: PartitionRegistration) -> str:
    if not partition.has_leader:
        return "no leader"
    if _is_moving(partition):
        return "moves"
    return "under-replicated" if _is_under_replicated(partition) else ""


def _is_moving(partition: PartitionRegistration) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)


def _is_under_replicated(partition: PartitionRegistration) -> bool:
    return len(partition.isr) < len(set(partition.replicas) - set(partition.adding_replicas))


def led_by(image: MetadataImage) -> dict[int, tuple[int, int]]:
    """By broker: how many partitions it leads, and of how many it has a replica."""
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in image.topics:
        for partition in topic.partitions.values():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
    return {broker: (leaders[broker], replicas[broker]) for broker in replicas}


APIS = [
    texts("api", "API"),
    numbers("requests", "Requests", lambda row: row["total"]),
    numbers("time", "Mean time", lambda row: row["mean_ms"]),
    numbers("errors", "Errors"),
]


async def overview(ask: Ask) -> Values:
    node = ask.node
    if not ask.rights.allow(SIZES, ResourceType.CLUSTER):
        return {"is_told": False, "not_ready": node.state.not_ready}
    image = node.cluster.cache.image
    # The image never changes, so a thread can look through all of it.
    states = await asyncio.to_thread(count_partitions, image)
    groups, unknown = await list_summaries(node)
    order, frame = order_of(ask, APIS), frame_of(ask)
    return {
        "order": order,
        "is_told": True,
        "version": own_version(),
        "cluster_id": node.cluster.id,
        "listeners": [f"{name} {one.host}:{one.port}" for name, one in node.bound.advertised.items()],
        "folders": list(node.local.config.log_dirs),
        "not_ready": node.state.not_ready,
        "problems": node.state.problems(),
        "frame": frame,
        "charts": _charts(ask, frame),
        "topics": len(image.topics),
        "states": states,
        "offline": sum(one.role is Role.OFFLINE for one in node.replicas),
        "groups": len(groups),
        "unknown_groups": unknown,
        "unsettled": sum(one.state not in ("Stable", "Empty") for one in groups),
        "connections": len(node.server.connections),
        "brokers": len(image.cluster.alive()),
        "apis": order.sort(_apis(node)),
    }


def _charts(ask: Ask, frame: Frame) -> list[Chart]:
    rates = ask.history.rates(coarse=frame.is_long)
    times = [one.at_ms for one in rates]
    each: tuple[tuple[str, list[float], Callable[[float], str]], ...] = (
        ("Messages in, per second", [one.messages_in for one in rates], formats.count),
        ("Bytes in, per second", [one.bytes_in for one in rates], formats.size),
        ("Bytes out, per second", [one.bytes_out for one in rates], formats.size),
        ("Requests, per second", [one.requests for one in rates], formats.count),
        ("Produce, 99 of 100 within", [one.produce_ms for one in rates], formats.duration),
        ("Event loop late, 99 of 100 within", [one.loop_ms for one in rates], formats.duration),
    )
    step_ms = COARSE_MS if frame.is_long else SAMPLE_MS
    return [chart(title, zip(times, values, strict=True), shown, frame, step_ms) for title, values, shown in each]


def _apis(node: Node) -> list[dict[str, Any]]:
    """What was asked since the start, the most frequent first."""
    found = []
    for name, counters in node.local.metrics.requests.items():
        total = sum(counters.by_version.values())
        if total:
            errors = sum(number for code, number in counters.errors.items() if code.value)
            mean_ms = counters.total_time_ms.sum / total
            found.append({"api": API_NAMES[name], "total": total, "mean_ms": mean_ms, "errors": errors})
    return sorted(found, key=lambda one: -one["total"])


TROUBLED_ON_A_PAGE = 100
MOST_TROUBLED = 10_000


BROKERS = [
    numbers("broker", "Broker", lambda row: row["id"]),
    texts("state", "State"),
    texts("rack", "Rack"),
    texts("addresses", "Addresses", lambda row: row["endpoints"]),
    numbers("leads", "Leads", lambda row: row["leaders"]),
    numbers("replicas", "Replicas"),
    numbers("folders", "Log folders", lambda row: row["directories"]),
]
TROUBLED = [
    texts("partition", "Partition", lambda one: (one.topic, one.number)),
    texts("what", "What", lambda one: one.what),
    numbers("leader", "Leader", lambda one: one.partition.leader),
    texts("replicas", "Replicas", lambda one: one.partition.replicas),
    texts("isr", "In sync", lambda one: one.partition.isr),
    texts("comes", "Comes", lambda one: one.partition.adding_replicas or None),
    texts("goes", "Goes", lambda one: one.partition.removing_replicas or None),
]


async def cluster(ask: Ask) -> Values:
    node, image = ask.node, ask.node.cluster.cache.image
    # The image never changes, so a thread can look through all of it.
    states = await asyncio.to_thread(count_partitions, image)
    leads = await asyncio.to_thread(led_by, image)
    found = await asyncio.to_thread(lambda: list(islice(troubled(image), MOST_TROUBLED)))
    names = list(dict.fromkeys(one.topic for one in found))
    visible = set(await allowed(ask.rights, "metadata", ResourceType.TOPIC, names))
    order, by_broker = order_of(ask, TROUBLED), order_of(ask, BROKERS, "brokers")
    named = [one for one in found if one.topic in visible]
    shown = paged(ask, await asyncio.to_thread(order.sort, named), TROUBLED_ON_A_PAGE)
    brokers = [image.cluster.brokers[broker_id] for broker_id in sorted(image.cluster.brokers)]
    return {
        "cluster_id": node.cluster.id,
        "offset": image.offset,
        "epoch": image.epoch,
        "controllers": _controllers(ask),
        "brokers": by_broker.sort([_broker(one, leads.get(one.id, (0, 0))) for one in brokers]),
        "by_broker": by_broker,
        "order": order,
        "states": states,
        "features": list(node.cluster.cache.finalized_features(image).items()),
        "paging": shown,
        "rows": shown.rows,
    }


def _controllers(ask: Ask) -> str:
    config = ask.node.local.config
    if config.is_in_cluster:
        quorum = config.string("controller.quorum.voters") or config.string("controller.quorum.bootstrap.servers")
        return str(quorum)
    return "this node" if ask.node.cluster.controller_service is None else "this node, for others too"


def _broker(broker: BrokerRegistration, led: tuple[int, int]) -> dict[str, Any]:
    state = "fenced" if broker.fenced else "shutting down" if broker.in_controlled_shutdown else "alive"
    leaders, replicas = led
    return {
        "id": broker.id,
        "state": state,
        "rack": broker.rack,
        "endpoints": [f"{name} {one.host}:{one.port}" for name, one in sorted(broker.listeners.items())],
        "leaders": leaders,
        "replicas": replicas,
        "directories": len(broker.directories),
    }

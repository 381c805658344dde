"""The first page: is the node well, and how much goes through it?"""

from __future__ import annotations

import asyncio
from typing import Any

from broker.authorization.console_table import SIZES
from broker.console import formats
from broker.console.ask import Ask, Page
from broker.console.charts import chart
from broker.console.partition_states import count_partitions
from broker.node import Node
from broker.process import own_version
from broker.replication.partition import Role
from broker.testkit.inspection.cluster import list_summaries
from metadata.acls import ResourceType
from protocol.api.names import API_NAMES

LEAST_SHOWN = 60
"""Samples that a chart has room for at least: five minutes."""


async def overview(ask: Ask) -> Page:
    node = ask.node
    if not ask.rights.allow(SIZES, ResourceType.CLUSTER):
        return Page("overview.html", "Overview", {"is_told": False, "not_ready": node.state.not_ready})
    image = node.cluster.cache.image
    # The image never changes, so a thread can look through all of it.
    states = await asyncio.to_thread(count_partitions, image)
    groups, unknown = await list_summaries(node)
    return Page(
        "overview.html",
        "Overview",
        {
            "is_told": True,
            "version": own_version(),
            "cluster_id": node.cluster.id,
            "listeners": [f"{name} {one.host}:{one.port}" for name, one in node.bound.advertised.items()],
            "folders": list(node.local.config.log_dirs),
            "not_ready": node.state.not_ready,
            "problems": node.state.problems(),
            "charts": _charts(ask),
            "topics": len(image.topics),
            "states": states,
            "offline": sum(one.role is Role.OFFLINE for one in node.replicas),
            "groups": len(groups),
            "unknown_groups": unknown,
            "unsettled": sum(one.state not in ("Stable", "Empty") for one in groups),
            "connections": len(node.server.connections),
            "brokers": len(image.cluster.alive()),
            "apis": _apis(node),
        },
    )


def _charts(ask: Ask) -> list[Any]:
    rates = ask.history.rates()
    each = (
        ("Messages in, per second", [one.messages_in for one in rates], formats.count),
        ("Bytes in, per second", [one.bytes_in for one in rates], formats.size),
        ("Bytes out, per second", [one.bytes_out for one in rates], formats.size),
        ("Requests, per second", [one.requests for one in rates], formats.count),
        ("Produce, 99 of 100 within", [one.produce_ms for one in rates], formats.duration),
        ("Event loop late, 99 of 100 within", [one.loop_ms for one in rates], formats.duration),
    )
    return [chart(title, values, shown, slots=LEAST_SHOWN) for title, values, shown in each]


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

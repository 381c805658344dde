"""The brokers of the cluster, and the partitions that need somebody's eyes."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from broker.console.ask import Ask, Page, allowed, paged
from broker.console.partition_states import count_partitions, led_by, troubled
from metadata.acls import ResourceType
from metadata.brokers import BrokerRegistration

ON_A_PAGE = 100
MOST_TROUBLED = 10_000


async def cluster(ask: Ask) -> Page:
    node, image = ask.node, ask.node.cluster.cache.image
    # The image never changes, so a thread can look through all of it.
    states = await asyncio.to_thread(count_partitions, image)
    leads = await asyncio.to_thread(led_by, image)
    found = await asyncio.to_thread(lambda: list(islice(troubled(image), MOST_TROUBLED)))
    names = list(dict.fromkeys(one.topic for one in found))
    visible = set(await allowed(ask.rights, "metadata", ResourceType.TOPIC, names))
    shown = paged(ask, [one for one in found if one.topic in visible], ON_A_PAGE)
    brokers = [image.cluster.brokers[broker_id] for broker_id in sorted(image.cluster.brokers)]
    return Page(
        "cluster.html",
        "Cluster",
        {
            "cluster_id": node.cluster.id,
            "offset": image.offset,
            "epoch": image.epoch,
            "controllers": _controllers(ask),
            "brokers": [_broker(one, leads.get(one.id, (0, 0))) for one in brokers],
            "states": states,
            "features": list(node.cluster.cache.finalized_features(image).items()),
            "paging": shown,
            "rows": shown.rows,
        },
    )


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

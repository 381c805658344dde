"""The settings by which the brokers of a `Cluster` find each other, and those that make their failures quick to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CONTROLLER = 0
"""The broker that is the controller too."""

_LISTENER = "CONTROLLER"
_REPLICAS = 3
"""A partition has so many replicas, where there are as many brokers."""

_QUICK_FAILOVER = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "2000",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
}
"""A broker that died is replaced after two seconds, where Kafka takes nine; leaders stay where a test has put them."""

OWN = (
    "broker.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "inter.broker.listener.name",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "odradek.cluster.id",
    "process.roles",
)
"""What a cluster sets itself."""


def require_free(settings: Mapping[str, object]) -> None:
    """Raises ValueError for a setting that the cluster makes itself."""
    for name in settings:
        if name in OWN:
            raise ValueError(f"settings: {name} is set by the cluster itself, for each of its brokers")


def settings_of(
    index: int, count: int, cluster_id: str, controller_port: int, profile: str, rack: str | None
) -> dict[str, Any]:
    """What broker `index` of `count` has besides its profile."""
    settings: dict[str, Any] = {
        **(_QUICK_FAILOVER if profile == "test" else {}),
        **_replication(count),
        "node.id": index,
        "odradek.cluster.id": cluster_id,
        "controller.listener.names": _LISTENER,
    }
    if rack is not None:
        settings["broker.rack"] = rack
    if index == CONTROLLER:
        settings["process.roles"] = "broker,controller"
        settings["listeners"] = f"PLAINTEXT://127.0.0.1:0,{_LISTENER}://127.0.0.1:{controller_port}"
    else:
        settings["process.roles"] = "broker"
        settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller_port}"
    return settings


def _replication(count: int) -> dict[str, Any]:
    replicas = min(_REPLICAS, count)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(replicas - 1, 1),
    }

"""The settings by which the brokers of a `Cluster` find each other, and those that make their failures quick to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from odradek.security import acl_settings

CONTROLLER = 3000
"""The node id of the controller, above that of any broker."""

_LISTENER = "CONTROLLER"
_BETWEEN_BROKERS = "INTERNAL"
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
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "odradek.cluster.id",
    "process.roles",
)
"""What a cluster sets itself."""


_ACLS_AT_START = "odradek.create.acls"
_SUPER_USERS = "super.users"


def with_acls(acls: Iterable[str], settings: Mapping[str, object]) -> dict[str, object]:
    """The settings of a cluster on which these ACLs count; brokers, which log in nowhere, may do everything."""
    others = str(settings.get(_SUPER_USERS, ""))
    every = ";".join(filter(None, ["User:ANONYMOUS", others]))
    return {**acl_settings(acls), **settings, _SUPER_USERS: every}


def of_brokers(settings: Mapping[str, object]) -> dict[str, object]:
    """What brokers get of the settings for all: the first ACLs are the controller's."""
    return {name: value for name, value in settings.items() if name != _ACLS_AT_START}


def require_free(settings: Mapping[str, object]) -> None:
    """Raises ValueError for a setting that the cluster makes itself."""
    for name in settings:
        if name in OWN:
            raise ValueError(f"settings: {name} is set by the cluster itself, for each of its brokers")


def shared_settings(count: int, cluster_id: str, profile: str) -> dict[str, Any]:
    """What the controller and all of `count` brokers have besides their profile."""
    return {
        **(_QUICK_FAILOVER if profile == "test" else {}),
        **_replication(count),
        "odradek.cluster.id": cluster_id,
        "controller.listener.names": _LISTENER,
    }


def broker_settings(index: int, controller_port: int, rack: str | None, protocol: str) -> dict[str, Any]:
    """What broker `index` has besides those; clients speak `protocol` with it."""
    return {
        **({} if protocol == "PLAINTEXT" else _listeners(protocol)),
        "node.id": index,
        "process.roles": "broker",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        **({} if rack is None else {"broker.rack": rack}),
    }


def _listeners(protocol: str) -> dict[str, str]:
    """One listener for clients, and one for other brokers, which speak PLAINTEXT among themselves."""
    return {
        "listeners": f"{protocol}://127.0.0.1:0,{_BETWEEN_BROKERS}://127.0.0.1:0",
        "listener.security.protocol.map": (f"{protocol}:{protocol},{_BETWEEN_BROKERS}:PLAINTEXT,{_LISTENER}:PLAINTEXT"),
        "inter.broker.listener.name": _BETWEEN_BROKERS,
    }


def controller_settings(port: int) -> dict[str, Any]:
    """What the controller has besides those."""
    return {
        "node.id": CONTROLLER,
        "process.roles": "controller",
        "listeners": f"{_LISTENER}://127.0.0.1:{port}",
    }


def _replication(count: int) -> dict[str, Any]:
    replicas = min(_REPLICAS, count)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": max(replicas - 1, 1),
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": max(replicas - 1, 1),
    }

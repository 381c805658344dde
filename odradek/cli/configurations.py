"""What `configs` and `client-metrics` ask: the configurations of a resource, and changes of some of them.

kafka-python has the messages, but its methods neither know the cluster-wide default of brokers nor tell of an error in
an answer; its connection manager sends them. A broker's own are asked of that broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.admin import ConfigResourceType
from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from odradek.cli.connection import TargetCluster
from odradek.cli.kafka_python import require_no_error

SET, DELETE = 0, 1
"""The operations of IncrementalAlterConfigs."""
OWN_BROKERS = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster-wide",
    4: "server.properties",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
"""Where a value comes from, by Kafka's numbers."""
DEFAULT = 5


@dataclass(frozen=True)
class Resource:
    """Something that has configurations; the name of the cluster-wide default of brokers is empty."""

    kind: ConfigResourceType
    name: str

    @property
    def node(self) -> dict[str, int]:
        """Whom to ask: the broker itself, or any."""
        return {"node_id": int(self.name)} if self.kind in OWN_BROKERS and self.name else {}


def describe(cluster: TargetCluster, resource: Resource) -> list[Any]:
    """The configurations of a resource, by name. Raises KafkaException, KafkaError."""
    request = DescribeConfigsRequest(
        resources=[(resource.kind, resource.name, None)], include_synonyms=False, include_documentation=False
    )
    with cluster.python_admin() as admin:
        (result,) = admin._manager.run(_send, admin, request, resource.node).results
    require_no_error(result)
    return sorted(result.configs, key=lambda config: config.name)


def alter(cluster: TargetCluster, resource: Resource, values: Mapping[str, str | None], dry_run: bool = False) -> None:
    """Set each configuration, or with None go back to what it is without. Raises KafkaException, KafkaError."""
    changes = [(name, DELETE if value is None else SET, value) for name, value in values.items()]
    request = IncrementalAlterConfigsRequest(resources=[(resource.kind, resource.name, changes)], validate_only=dry_run)
    with cluster.python_admin() as admin:
        (result,) = admin._manager.run(_send, admin, request, resource.node).responses
    require_no_error(result)


async def _send(admin: Any, request: Any, node: Mapping[str, int]) -> Any:
    return await admin._manager.send(request, **node)

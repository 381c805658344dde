"""One topic: its partitions, its configuration, and what keeps its readers from reading."""

from __future__ import annotations

from typing import Any

from broker.config.describe import ConfigSource, describe_topic
from broker.console.ask import Ask, Page, paged
from broker.control.endpoint import ControlError
from broker.control.topics import topic_of
from broker.explain.explain import explain_topic
from broker.inspection.partitions import PartitionView, read_partitions
from broker.node import Node
from metadata.acls import AclOperation, ResourceType
from metadata.topics import PartitionRegistration, TopicImage

ON_A_PAGE = 100


def seen_topic(ask: Ask, parameter: str, operation: AclOperation = AclOperation.DESCRIBE) -> TopicImage:
    """The topic that is asked for. Raises ControlError if the user may not do this to it, or it does not exist."""
    name = ask.name(parameter)
    ask.rights.check(operation, ResourceType.TOPIC, name)
    if ask.sees_all_names:
        return topic_of(ask.node, name)
    found = ask.node.cluster.cache.topic(name)
    if found is None:
        raise ControlError(f"there is no topic {name!r}", parameter=parameter, status=404)
    return found


async def topic(ask: Ask) -> Page:
    found = seen_topic(ask, "name")
    shown = paged(ask, list(range(found.partition_count)), ON_A_PAGE)
    partitions = await read_partitions(ask.node, [(found.name, index) for index in shown.rows])
    configs = describe_topic(ask.node.local.config, dict(ask.node.cluster.cache.topic_configs(found.name)))
    return Page(
        "topic.html",
        found.name,
        {
            "topic": found.name,
            "id": str(found.id),
            "internal": found.is_internal,
            "partition_count": found.partition_count,
            "paging": shown,
            "rows": [_row(ask.node, one, found.partitions[one.partition]) for one in partitions.values()],
            "configs": sorted(configs, key=lambda one: (one.source is not ConfigSource.TOPIC, one.name)),
            "findings": await explain_topic(ask.node, found.name) if ask.sees_all_names else None,
        },
    )


def _row(node: Node, one: PartitionView, registered: PartitionRegistration) -> dict[str, Any]:
    """What files its log has is known of those that this node leads."""
    led = node.replicas.get(one.topic, one.partition) if one.leader == node.node_id else None
    return {
        "index": one.partition,
        "leader": registered.leader,
        "epoch": registered.leader_epoch,
        "replicas": list(registered.replicas),
        "isr": list(registered.isr),
        "start": one.start if one.is_known else None,
        "stable": one.stable if one.is_known else None,
        "end": one.end if one.is_known else None,
        "bytes": None if led is None else led.log.size,
        "segments": None if led is None else len(led.log.segments),
        "open": len(one.open_producers) if one.is_known else None,
    }

"""The readings of the group coordinator: Kafka's own under its JMX exporter's names, and lag under kafka_exporter's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from coordinator.group.states import GroupState

if TYPE_CHECKING:
    from broker.group_coordinator import GroupCoordinator, GroupsAndOffsets
    from broker.node import Node

MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATOR = "kafka_server_group_coordinator_metrics_"
EXPORTER = "kafka_consumergroup_"
PARTITION = ("consumergroup", "topic", "partition")
TOPIC = ("consumergroup", "topic")


class Committed(NamedTuple):
    """A group's committed offset in a partition; ``lag`` is how many records follow it, None where there is no log."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None


def register_group_metrics(node: Node, coordinator: GroupCoordinator) -> None:
    """Registers what is read when ``/metrics`` is asked."""
    gauge = node.metrics.gauge
    groups = coordinator.metrics
    gauge(f"{MANAGER}numgroups", "Groups.", (), lambda: sum(groups.groups.values()))
    for state in GroupState:
        name = f"{MANAGER}numgroups{state.value.lower()}"
        gauge(name, f"Groups in state {state.value}.", (), partial(groups.groups.__getitem__, state))
    gauge(f"{MANAGER}numoffsets", "Committed offsets.", (), lambda: sum(len(s.offsets.store) for s in _shards(node)))
    _counts(node, coordinator)
    _consumer_groups(node)


def _counts(node: Node, coordinator: GroupCoordinator) -> None:
    """Kafka's names of these counts end in ``_count``, which is no name for a Prometheus counter: hence gauges."""
    gauge = node.metrics.gauge
    groups, offsets = coordinator.metrics, coordinator.offset_metrics
    gauge(
        f"{COORDINATOR}group_completed_rebalance_count",
        "Rebalances that ended with assignments, since the start.",
        (),
        lambda: groups.completed_rebalances,
    )
    gauge(
        f"{COORDINATOR}offset_commit_count",
        "Offsets committed, since the start.",
        (),
        lambda: offsets.offset_commits,
    )
    gauge(
        f"{COORDINATOR}offset_expiration_count",
        "Offsets that expired, since the start.",
        (),
        lambda: offsets.offset_expirations,
    )
    gauge(
        f"{COORDINATOR}offset_deletion_count",
        "Offsets deleted by administrators, since the start.",
        (),
        lambda: offsets.offset_deletions,
    )
    node.metrics.counter(
        "odradek_group_expired_members_total",
        "Members removed because nothing was heard of them in time.",
        (),
        lambda: groups.expired_members,
    )


def _consumer_groups(node: Node) -> None:
    gauge = node.metrics.gauge
    gauge(
        f"{EXPORTER}members",
        "Members of the group.",
        ("consumergroup",),
        lambda: [((group.group_id,), len(group.members)) for shard in _shards(node) for group in shard.groups.all()],
    )
    gauge(
        f"{EXPORTER}current_offset",
        "The group's committed offset in the partition.",
        PARTITION,
        lambda: [((c.group, c.topic, str(c.partition)), c.offset) for c in _committed(node)],
    )
    gauge(
        f"{EXPORTER}lag",
        "Records of the partition from the group's committed offset on.",
        PARTITION,
        lambda: [((c.group, c.topic, str(c.partition)), c.lag) for c in _committed(node) if c.lag is not None],
    )
    gauge(
        f"{EXPORTER}current_offset_sum",
        "The group's committed offsets in all partitions of the topic.",
        TOPIC,
        lambda: _by_topic((c.group, c.topic, c.offset) for c in _committed(node)),
    )
    gauge(
        f"{EXPORTER}lag_sum",
        "The group's lag in all partitions of the topic.",
        TOPIC,
        lambda: _by_topic((c.group, c.topic, c.lag) for c in _committed(node) if c.lag is not None),
    )


def _shards(node: Node) -> Iterator[GroupsAndOffsets]:
    """The shards that are loaded."""
    for shard in node.group_coordinator.runtime.shards():
        if shard.state is not None:
            yield shard.state


def _committed(node: Node) -> Iterator[Committed]:
    for shard in _shards(node):
        for group, offsets in shard.offsets.store.groups().items():
            for (topic, index), committed in offsets.items():
                partition = node.partitions.get(topic, index)
                offset = committed.value.offset
                lag = None if partition is None else max(partition.high_watermark - offset, 0)
                yield Committed(group, topic, index, offset, lag)


def _by_topic(values: Iterator[tuple[str, str, int]]) -> list[tuple[tuple[str, str], int]]:
    sums: Counter[tuple[str, str]] = Counter()
    for group, topic, value in values:
        sums[group, topic] += value
    return list(sums.items())

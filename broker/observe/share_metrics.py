"""How far share groups are behind: what their share coordinator has, on the broker that coordinates each partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from broker.coordinators.share_coordinator import ShareCoordinator
from broker.membership.metadata_cache import MetadataCache
from broker.observe.group_metrics import EndsElsewhere, GroupLags, GroupOffset
from broker.observe.metrics import Metrics
from broker.replication.replica_manager import ReplicaManager
from coordinator.runtime.runtime import CoordinatorRuntime
from coordinator.share.share_coordinator_shard import ShareCoordinatorShard
from protocol.coordinator_records.share_records import NO_START_OFFSET, UNKNOWN_COUNT

SHARE_GROUP = "odradek_share_group_"
PARTITION = ("group", "topic", "partition")


def register_share_metrics(
    metrics: Metrics,
    coordinator: ShareCoordinator,
    partitions: ReplicaManager,
    ends: EndsElsewhere | None,
    cache: MetadataCache,
) -> None:
    """Register the metrics for `/metrics`; `ends` if there are other brokers."""
    lags = GroupLags(metrics, partitions, ends, lambda: _offsets(cache, coordinator.runtime))
    metrics.gauge(
        f"{SHARE_GROUP}start_offset",
        "The share group's start offset in the partition: all records before it are done.",
        PARTITION,
        lambda: lags.of_partitions(lambda row: row.offset),
    )
    metrics.gauge(
        f"{SHARE_GROUP}lag",
        "Records of the partition from the share group's start offset on that are not done.",
        PARTITION,
        lambda: lags.of_partitions(lambda row: row.lag),
    )


def _offsets(
    cache: MetadataCache, runtime: CoordinatorRuntime[ShareCoordinatorShard]
) -> Iterator[tuple[str, list[GroupOffset]]]:
    """The start offsets of each share group that are known; a group may come once for each shard."""
    for context in list(runtime.contexts()):
        known = {} if context.state is None else context.state.known()
        for group, items in groupby(sorted(known.items()), key=lambda item: item[0].group_id):
            yield (
                group,
                [
                    GroupOffset(topic.name, key.partition, value.start_offset, value.complete_count)
                    for key, value in items
                    if (topic := cache.topic_by_id(key.topic_id)) is not None
                    and value.start_offset != NO_START_OFFSET
                    and value.complete_count != UNKNOWN_COUNT
                ],
            )

"""What was copied to remote storage, read from it and removed, and what waits (Kafka's `RemoteStorageMetrics`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.observe.metrics import Metrics, Values, bounded
from storage.tier.counts import Count

if TYPE_CHECKING:
    from broker.tiering.tier_manager import TierManager
    from broker.tiering.tiered_partition import TieredPartition

PREFIX = "kafka_server_brokertopicmetrics_"
TOPIC = ("topic",)


def register_tier_metrics(metrics: Metrics, tier: TierManager) -> None:
    """Register the metrics for `/metrics`."""
    for one in Count:
        name, documentation = one.value
        documentation += " Without a topic: over all topics, also deleted ones."
        metrics.counter(f"{PREFIX}{name}_total", documentation, TOPIC, _counted(metrics, tier, one))
    gauges: dict[str, tuple[str, Callable[[TieredPartition], int]]] = {
        "remotecopylagbytes": (
            "Bytes of closed segments that are not in remote storage yet.",
            lambda one: sum(segment.size for segment, _ in one.pending()),
        ),
        "remotecopylagsegments": (
            "Closed segments that are not in remote storage yet.",
            lambda one: len(one.pending()),
        ),
        "remotedeletelagbytes": (
            "Bytes of segments in remote storage that are to be removed.",
            lambda one: sum(segment.size for segment in one.unwanted),
        ),
        "remotedeletelagsegments": (
            "Segments in remote storage that are to be removed.",
            lambda one: len(one.unwanted),
        ),
        "remotelogmetadatacount": ("Segments that are known in remote storage.", lambda one: len(one.tier.segments)),
        "remotelogsizebytes": ("Bytes of the topic in remote storage.", lambda one: one.tier.segments.size),
    }
    for name, (documentation, of) in gauges.items():
        metrics.gauge(f"{PREFIX}{name}", documentation, TOPIC, _of_topics(metrics, tier, of))
    metrics.gauge(
        "odradek_remote_reads_waiting",
        "Reads from remote storage that wait for their turn.",
        (),
        lambda: tier.reader.waiting,
    )
    metrics.gauge(
        "odradek_remote_cache_bytes",
        "Bytes of chunks and indexes of remote segments that are kept in memory.",
        (),
        lambda: tier.reader.cached_bytes,
    )


def _counted(metrics: Metrics, tier: TierManager, what: Count) -> Callable[[], Values]:
    def values() -> Values:
        counts = tier.reader.counts
        total, rows = counts.total(what), list(counts.by_topic(what))
        return lambda: [((), total), *bounded(rows, metrics.most.topics)]

    return values


def _of_topics(metrics: Metrics, tier: TierManager, of: Callable[[TieredPartition], int]) -> Callable[[], Values]:
    def values() -> Values:
        sums: dict[str, int] = {}
        for (topic, _), one in tier.partitions.items():
            if one.leads and not one.log.is_offline:
                sums[topic] = sums.get(topic, 0) + of(one)
        rows = [((topic,), value) for topic, value in sums.items()]
        return lambda: bounded(rows, metrics.most.topics)

    return values

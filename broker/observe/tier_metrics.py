"""What was copied to remote storage, read from it and removed, and what waits (Kafka's `RemoteStorageMetrics`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.observe.metrics import Metrics, Values, bounded

if TYPE_CHECKING:
    from broker.tiering.tier_manager import TierManager
    from broker.tiering.tiered_partition import TieredPartition

PREFIX = "kafka_server_brokertopicmetrics_remote"
TOPIC = ("topic",)


def register_tier_metrics(metrics: Metrics, tier: TierManager) -> None:
    """Register the metrics for `/metrics`."""
    copies, reads = tier.counts, tier.reader.counts
    counters: dict[str, tuple[str, Callable[[], int]]] = {
        "copybytes": ("Bytes of segments that were copied to remote storage.", lambda: copies.copied_bytes),
        "copyrequests": ("Segments that were copied to remote storage.", lambda: copies.copies),
        "copyerrors": ("Copies of segments that failed.", lambda: copies.copy_errors),
        "fetchbytes": ("Bytes of records that were read from remote storage.", lambda: reads.bytes),
        "fetchrequests": ("Reads from remote storage.", lambda: reads.requests),
        "fetcherrors": ("Reads from remote storage that failed.", lambda: reads.errors),
        "deleterequests": ("Segments that were removed from remote storage.", lambda: copies.deletes),
        "deleteerrors": ("Removals from remote storage that failed.", lambda: copies.delete_errors),
    }
    for name, (documentation, read) in counters.items():
        metrics.counter(f"{PREFIX}{name}_total", documentation, (), read)
    gauges: dict[str, tuple[str, Callable[[TieredPartition], int]]] = {
        "copylagbytes": (
            "Bytes of closed segments that are not in remote storage yet.",
            lambda one: sum(segment.size for segment, _ in one.pending()),
        ),
        "copylagsegments": ("Closed segments that are not in remote storage yet.", lambda one: len(one.pending())),
        "logmetadatacount": ("Segments that are known in remote storage.", lambda one: len(one.tier.segments)),
        "logsizebytes": ("Bytes of the topic in remote storage.", lambda one: one.tier.segments.size),
    }
    for name, (documentation, of) in gauges.items():
        metrics.gauge(f"{PREFIX}{name}", documentation, TOPIC, _of_topics(metrics, tier, of))
    metrics.gauge(
        "odradek_remote_reads_waiting",
        "Reads from remote storage that wait for their turn.",
        (),
        lambda: reads.waiting,
    )
    metrics.gauge(
        "odradek_remote_cache_bytes",
        "Bytes of chunks and indexes of remote segments that are kept in memory.",
        (),
        lambda: tier.reader.cached_bytes,
    )


def _of_topics(metrics: Metrics, tier: TierManager, of: Callable[[TieredPartition], int]) -> Callable[[], Values]:
    def values() -> Values:
        sums: dict[str, int] = {}
        for (topic, _), one in tier.partitions.items():
            if one.leads and not one.log.is_offline:
                sums[topic] = sums.get(topic, 0) + of(one)
        rows = [((topic,), value) for topic, value in sums.items()]
        return lambda: bounded(rows, metrics.most.topics)

    return values

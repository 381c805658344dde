"""The metrics of transactions: ids by state, how many ended in which way, partitions that wait for an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.observe.metrics import Metrics, Values
from broker.replication.partition import Partition, Role
from broker.replication.replica_manager import ReplicaManager
from coordinator.transaction.transaction_metadata import AT_REST, TransactionMetadata, TransactionState
from storage.producers.producer_entry import ProducerStateEntry
from timing.clock import Clock

LATE_AFTER_THE_LONGEST_TIMEOUT_MS = 5 * 60 * 1000
"""The time that Kafka allows for markers (KIP-664)."""

COUNTERS = {
    "committed": "Transactions committed, every marker written.",
    "aborted": "Transactions aborted, every marker written.",
    "timed_out": "Transactions aborted since they took longer than their timeout.",
    "fenced": "Open transactions aborted since a new producer took over their transactional id.",
    "expired_ids": "Transactional ids forgotten after `transactional.id.expiration.ms`.",
    "marker_retries": "Transaction markers that could not be written and are tried again.",
}

Known = Callable[[], Iterable[tuple[str, TransactionMetadata]]]
"""The transactional ids of the loaded shards."""


def register_transaction_metrics(
    metrics: Metrics,
    transactions: TransactionCoordinator,
    partitions: ReplicaManager,
    clock: Clock,
) -> None:
    """Register the metrics for `/metrics`."""
    known = transactions.metadata
    late_after_ms = transactions.config.max_timeout_ms + LATE_AFTER_THE_LONGEST_TIMEOUT_MS
    metrics.gauge("odradek_transactional_ids", "Transactional ids by state.", ("state",), lambda: _by_state(known))
    metrics.gauge(
        "odradek_oldest_open_transaction_seconds",
        "Age of a partition's oldest open transaction; if its coordinator is not this node, since its last record.",
        ("topic", "partition"),
        lambda: _ages(known, partitions, clock.wall_ms()),
    )
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction open for longer than any timeout and five minutes: it hangs.",
        (),
        lambda: _late(partitions, clock.wall_ms() - late_after_ms),
    )
    metrics.gauge(
        "odradek_transaction_markers_waiting",
        "Markers that wait to be sent to other brokers.",
        (),
        lambda: transactions.markers_waiting,
    )
    metrics.gauge(
        "odradek_transaction_verifications_waiting",
        "Questions about transactions that wait to be sent to other brokers' coordinators.",
        (),
        lambda: transactions.questions_waiting,
    )
    for name, documentation in COUNTERS.items():
        metrics.counter(
            f"odradek_transactions_{name}_total", documentation, (), partial(getattr, transactions.counts, name)
        )


def _by_state(known: Known) -> Values:
    found = Counter(metadata.state for _, metadata in known())
    return [((state.wire_name,), found[state]) for state in TransactionState]


def _ages(known: Known, partitions: ReplicaManager, now_ms: int) -> Values:
    begun = {metadata.producer_id: metadata.start_ms for _, metadata in known() if metadata.state not in AT_REST}
    ages = []
    for partition, oldest in _oldest_open(partitions):
        begun_ms = begun.get(oldest.producer_id, oldest.last_timestamp)
        ages.append(((partition.topic, str(partition.index)), max(now_ms - begun_ms, 0) / 1000))
    return ages


def _late(partitions: ReplicaManager, before_ms: int) -> int:
    """The number of partitions with a late open transaction, counted as in Kafka from its producer's last record."""
    return sum(oldest.last_timestamp < before_ms for _, oldest in _oldest_open(partitions))


def _oldest_open(partitions: ReplicaManager) -> Iterator[tuple[Partition, ProducerStateEntry]]:
    """Partitions that this node leads with open transactions, each with the producer of the oldest."""
    for partition in partitions:
        if partition.role is not Role.LEADER:
            continue  # its leader reports it
        producers = partition.log.producers
        oldest = next(iter(producers.open_transactions.values()), None)
        if oldest is not None:
            yield partition, producers.producers[oldest]

"""The metrics of transactions: ids by state, how many ended in which way, partitions that wait for an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from broker.monitoring.metrics import Values
from coordinator.transaction.states import AT_REST, TransactionState
from storage.producers.producer_entry import ProducerStateEntry

if TYPE_CHECKING:
    from broker.node import Node
    from broker.partitions.partition import Partition

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


def register_transaction_metrics(node: Node) -> None:
    """Register the metrics for `/metrics`."""
    metrics, counts = node.metrics, node.transaction_coordinator.metrics
    metrics.gauge("odradek_transactional_ids", "Transactional ids by state.", ("state",), lambda: _by_state(node))
    metrics.gauge(
        "odradek_oldest_open_transaction_seconds",
        "Age of a partition's oldest open transaction; of one that no coordinator knows, since its last record.",
        ("topic", "partition"),
        lambda: _ages(node),
    )
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction open for longer than any timeout and five minutes: it hangs.",
        (),
        lambda: _late(node),
    )
    for name, documentation in COUNTERS.items():
        metrics.counter(f"odradek_transactions_{name}_total", documentation, (), partial(getattr, counts, name))


def _by_state(node: Node) -> Values:
    found = Counter(metadata.state for _, metadata in node.transaction_coordinator.metadata())
    return [((state.wire_name,), found[state]) for state in TransactionState]


def _ages(node: Node) -> Values:
    begun = {
        metadata.producer_id: metadata.start_ms
        for _, metadata in node.transaction_coordinator.metadata()
        if metadata.state not in AT_REST
    }
    now_ms = node.clock.wall_ms()
    ages = []
    for partition, oldest in _oldest_open(node):
        begun_ms = begun.get(oldest.producer_id, oldest.last_timestamp)
        ages.append(((partition.topic, str(partition.index)), (now_ms - begun_ms) / 1000))
    return ages


def _late(node: Node) -> int:
    """The number of partitions with a late open transaction, counted as in Kafka from its producer's last record."""
    longest_ms = node.config.integer("transaction.max.timeout.ms") + LATE_AFTER_THE_LONGEST_TIMEOUT_MS
    now_ms = node.clock.wall_ms()
    return sum(now_ms - oldest.last_timestamp > longest_ms for _, oldest in _oldest_open(node))


def _oldest_open(node: Node) -> Iterator[tuple[Partition, ProducerStateEntry]]:
    """Partitions with open transactions, each with the producer of the oldest."""
    for partition in node.partitions:
        producers = partition.log.producers
        oldest = next(iter(producers.open_transactions.values()), None)
        if oldest is not None:
            yield partition, producers.producers[oldest]

"""What is seen of transactions from outside: ids by state, what ended how, partitions that wait for an end."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from broker.metrics import Values
from coordinator.transaction.states import TransactionState
from storage.producer_entry import NO_OFFSET

if TYPE_CHECKING:
    from broker.node import Node
    from broker.partition import Partition

LATE_AFTER_THE_LONGEST_TIMEOUT_MS = 5 * 60 * 1000
"""Kafka's grace for markers (KIP-664)."""

COUNTERS = {
    "committed": "Transactions committed, every marker written.",
    "aborted": "Transactions aborted, every marker written.",
    "timed_out": "Transactions aborted since they took longer than their timeout.",
    "fenced": "Open transactions aborted since a new producer took over their transactional id.",
    "expired_ids": "Transactional ids forgotten after `transactional.id.expiration.ms`.",
    "marker_retries": "Transaction markers that could not be written and are tried again.",
}


def register_transaction_metrics(node: Node) -> None:
    """Registers what is read when ``/metrics`` is asked."""
    metrics, counts = node.metrics, node.transaction_coordinator.metrics
    metrics.gauge("odradek_transactional_ids", "Transactional ids by state.", ("state",), lambda: _by_state(node))
    metrics.gauge(
        "odradek_oldest_open_transaction_seconds",
        "How long ago the producer of a partition's oldest open transaction last wrote there.",
        ("topic", "partition"),
        lambda: [((one.topic, str(one.index)), age / 1000) for one, age in _ages_ms(node)],
    )
    metrics.gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction open for longer than any timeout and five minutes: it hangs.",
        (),
        lambda: sum(age > _late_after_ms(node) for _, age in _ages_ms(node)),
    )
    for name, documentation in COUNTERS.items():
        metrics.counter(f"odradek_transactions_{name}_total", documentation, (), partial(getattr, counts, name))


def _by_state(node: Node) -> Values:
    found = Counter(metadata.state for _, metadata in node.transaction_coordinator.metadata())
    return [((state.wire_name,), found[state]) for state in TransactionState]


def _late_after_ms(node: Node) -> int:
    return node.config.integer("transaction.max.timeout.ms") + LATE_AFTER_THE_LONGEST_TIMEOUT_MS


def _ages_ms(node: Node) -> list[tuple[Partition, int]]:
    now_ms = node.clock.wall_ms()
    return [
        (partition, now_ms - last_ms)
        for partition in node.partitions
        if (last_ms := _last_written_ms(partition)) is not None
    ]


def _last_written_ms(partition: Partition) -> int | None:
    """By the producer of the oldest open transaction; None if there is none."""
    producers = partition.log.producers
    if producers.first_unstable_offset is None:
        return None
    opened = (one for one in producers.producers.values() if one.txn_first_offset != NO_OFFSET)
    oldest = min(opened, key=lambda one: one.txn_first_offset, default=None)
    return None if oldest is None else oldest.last_timestamp

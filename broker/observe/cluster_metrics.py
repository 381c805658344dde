"""The metrics of a broker whose controllers are other nodes, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from broker.membership.broker_lifecycle import LifecycleState
from broker.membership.followed_metadata import FollowedMetadata
from broker.observe.metrics import Metrics, RecentRates
from timing.clock import Clock

_BROKER_STATES = {
    LifecycleState.NEW: 1,
    LifecycleState.FENCED: 2,
    LifecycleState.UNFENCING: 2,
    LifecycleState.RUNNING: 3,
    LifecycleState.LEAVING: 6,
    LifecycleState.GONE: 7,
}
"""Kafka's `BrokerState`: starting, recovery, running, pending controlled shutdown, shutting down."""


def register_cluster_metrics(metrics: Metrics, metadata: FollowedMetadata, clock: Clock, rates: RecentRates) -> None:
    """Register the metrics for `/metrics`."""
    quorum, observer, lifecycle = metadata.quorum, metadata.observer, metadata.lifecycle
    gauges = {
        "kafka_server_kafkaserver_brokerstate": (
            "1 starting, 2 fenced, 3 running, 6 in a controlled shutdown, 7 shutting down.",
            lambda: _BROKER_STATES[lifecycle.state],
        ),
        "kafka_server_raft_metrics_current_leader": (
            "The id of the active controller, -1 while it is not known.",
            lambda: -1 if quorum.active is None else quorum.active.node_id,
        ),
        "kafka_server_raft_metrics_current_epoch": (
            "The newest epoch of the quorum of controllers that is known here.",
            lambda: quorum.epoch,
        ),
        "kafka_server_raft_metrics_high_watermark": (
            "The offset up to which the metadata log is known to be committed.",
            lambda: observer.high_watermark,
        ),
        "kafka_server_raft_metrics_current_vote": ("-1: this node does not vote.", lambda: -1),
        "kafka_server_raft_metrics_log_end_offset": (
            "The offset after the last record of the metadata log that is here.",
            lambda: observer.end_offset,
        ),
        "kafka_server_broker_metadata_metrics_last_applied_record_offset": (
            "The offset of the last metadata record that was applied.",
            lambda: observer.image.offset,
        ),
        "kafka_server_broker_metadata_metrics_last_applied_record_timestamp": (
            "When the last metadata record that was applied was written, in ms.",
            lambda: observer.image.timestamp_ms,
        ),
        "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms": (
            "How long ago that was, in ms.",
            lambda: max(0, clock.wall_ms() - observer.image.timestamp_ms),
        ),
        "odradek_controller_silence_ms": (
            "Time since the active controller answered the last heartbeat, in ms.",
            lambda: int(lifecycle.silence_ms),
        ),
    }
    for name, (documentation, read) in gauges.items():
        metrics.gauge(name, documentation, (), read)
    metrics.gauge(
        "kafka_server_raft_metrics_fetch_records_rate",
        "Records of the metadata log that were fetched a second, of late.",
        (),
        rates.of(lambda: {(): observer.end_offset}),
    )
    metrics.gauge(
        "kafka_server_raftmetrics_current_state", "The role.", ("current_state",), lambda: [(("observer",), 1)]
    )

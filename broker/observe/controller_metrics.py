"""The metrics of a node that has the metadata log, its own controller's, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable

from broker.membership.metadata_cache import MetadataCache
from broker.observe.metrics import Labelled, Metrics, RecentRates
from controller.quorum.metadata_log import MetadataLog
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import LEADERLESS, NOT_PREFERRED, PartitionRegistration

CONTROLLER = "kafka_controller_kafkacontroller_"
RAFT = "kafka_server_raft_metrics_"

Gauges = dict[str, tuple[str, Callable[[], float]]]


class UncleanElections:
    """Counts leaders that were not in sync when they were elected."""

    def __init__(self) -> None:
        self.count = 0

    def follow(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if delta.touched("topics"):
            for topic in delta.topics.changed.values():
                before = {} if topic.before is None else topic.before.partitions
                self.count += sum(
                    index in before and _is_unclean(before[index], new) for index, new in topic.changed.items()
                )


def _is_unclean(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    is_elected = after.has_leader and after.leader != before.leader
    return is_elected and after.leader not in (*before.isr, *before.elr)


def register_controller_metrics(
    metrics: Metrics,
    node_id: int,
    cache: MetadataCache,
    log: MetadataLog,
    elections: UncleanElections,
    rates: RecentRates,
) -> None:
    """Register the metrics for `/metrics`."""
    for name, (documentation, read) in {**_of_the_cluster(cache, log), **_of_the_log(node_id, log)}.items():
        metrics.gauge(name, documentation, (), read)
    metrics.gauge(
        f"{RAFT}append_records_rate",
        "Records of the metadata log that became durable a second, of late.",
        (),
        rates.of(lambda: {(): log.durable_end}),
    )
    commits = rates.of(lambda: dict(zip((("batches",), ("ms",)), log.commits, strict=True)))
    metrics.gauge(
        f"{RAFT}commit_latency_avg",
        "Milliseconds until a batch of the metadata log was durable, of late on average; 0 if there was none.",
        (),
        lambda: _average(commits()),
    )
    metrics.gauge("kafka_server_raftmetrics_current_state", "The role.", ("current_state",), lambda: [(("leader",), 1)])
    metrics.counter(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "Leaders elected that were not in sync.",
        (),
        lambda: elections.count,
    )
    for name in ("incoming_byte", "outgoing_byte", "request", "response"):
        metrics.counter(
            f"kafka_server_raftchannelmetrics_{name}_total",
            "Always 0: the controller is one node, without others that vote. Strimzi's dashboards draw it.",
            (),
            lambda: 0,
        )


def _average(rates: Labelled) -> float:
    (_, batches), (_, took_ms) = rates
    return took_ms / batches if batches else 0


def _of_the_cluster(cache: MetadataCache, log: MetadataLog) -> Gauges:
    return {
        f"{CONTROLLER}activecontrollercount": ("1: this node is the active controller.", lambda: 1),
        f"{CONTROLLER}activebrokercount": (
            "Registered brokers that are not fenced.",
            lambda: sum(not broker.fenced for broker in cache.image.cluster.brokers.values()),
        ),
        f"{CONTROLLER}fencedbrokercount": (
            "Registered brokers that are fenced.",
            lambda: sum(broker.fenced for broker in cache.image.cluster.brokers.values()),
        ),
        f"{CONTROLLER}globaltopiccount": ("Topics of the cluster.", lambda: len(cache.image.topics)),
        f"{CONTROLLER}globalpartitioncount": (
            "Partitions of the cluster.",
            lambda: sum(topic.partition_count for topic in cache.image.topics),
        ),
        f"{CONTROLLER}offlinepartitionscount": (
            "Partitions without a leader.",
            lambda: cache.image.topics.count(LEADERLESS),
        ),
        f"{CONTROLLER}preferredreplicaimbalancecount": (
            "Partitions that another replica than the first leads.",
            lambda: cache.image.topics.count(NOT_PREFERRED),
        ),
        f"{CONTROLLER}lastcommittedrecordoffset": (
            "The offset of the last record of the metadata log that is durable.",
            lambda: log.durable_end - 1,
        ),
        f"{CONTROLLER}lastappliedrecordlagms": ("Always 0: the active controller applies what it writes.", lambda: 0),
        f"{CONTROLLER}metadataerrorcount": (
            "Always 0: a node that cannot apply the metadata stops.",
            lambda: 0,
        ),
    }


def _of_the_log(node_id: int, log: MetadataLog) -> Gauges:
    return {
        f"{RAFT}current_leader": ("The id of the active controller, this node.", lambda: node_id),
        f"{RAFT}current_vote": ("The id of the node that this one voted for.", lambda: node_id),
        f"{RAFT}current_epoch": ("The epoch of the metadata log.", lambda: log.epoch),
        f"{RAFT}high_watermark": ("The offset up to which the metadata log is durable.", lambda: log.durable_end),
        f"{RAFT}log_end_offset": ("The offset after the last record of the metadata log.", lambda: log.next_offset),
        f"{RAFT}fetch_records_rate": ("Always 0: this node reads the log from nobody.", lambda: 0),
    }

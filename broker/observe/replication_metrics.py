"""The metrics of leaders and followers, under the names of Kafka's JMX exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.observe.metrics import Metrics, Values, bounded
from broker.replication.partition import Role

if TYPE_CHECKING:
    from broker.replication.leading.leader_state import LeaderState
    from broker.replication.partition import Partition
    from broker.replication.replica_manager import ReplicaManager

MANAGER = "kafka_server_replicamanager"
PARTITION = "kafka_cluster_partition"


def register_replication(metrics: Metrics, replicas: ReplicaManager) -> None:
    """Register the metrics. Those of single partitions are of the partitions that this node leads."""
    _leaders(metrics, replicas)
    _followers(metrics, replicas)


class _Alone:
    """The answers of `LeaderState` for a partition with one replica."""

    followers = ()
    is_under_replicated = False
    is_under_min_isr = False
    is_at_min_isr = True
    in_sync_count = 1


ALONE = _Alone()


def _led(replicas: ReplicaManager) -> Iterator[tuple[Partition, LeaderState | _Alone]]:
    return ((partition, partition.replicas or ALONE) for partition in replicas if partition.role is Role.LEADER)


def _leaders(metrics: Metrics, replicas: ReplicaManager) -> None:
    def count(name: str, documentation: str, is_so: Callable[[LeaderState | _Alone], bool]) -> None:
        metrics.gauge(f"{MANAGER}_{name}", documentation, (), lambda: sum(is_so(state) for _, state in _led(replicas)))

    def each(name: str, documentation: str, read: Callable[[LeaderState | _Alone], int]) -> None:
        def values() -> Values:
            rows = [((partition.topic, str(partition.index)), read(state)) for partition, state in _led(replicas)]
            return lambda: bounded(rows, metrics.most.topics)

        metrics.gauge(f"{PARTITION}_{name}", documentation, ("topic", "partition"), values)

    count(
        "underreplicatedpartitions",
        "Partitions led by this node that lack in-sync replicas.",
        lambda state: state.is_under_replicated,
    )
    count(
        "underminisrpartitioncount",
        "Partitions led by this node with fewer in-sync replicas than min.insync.replicas.",
        lambda state: state.is_under_min_isr,
    )
    count(
        "atminisrpartitioncount",
        "Partitions led by this node with just min.insync.replicas in-sync replicas.",
        lambda state: state.is_at_min_isr,
    )
    each("replicascount", "Replicas of the partition.", lambda state: len(state.followers) + 1)
    each("insyncreplicascount", "In-sync replicas of the partition.", lambda state: state.in_sync_count)
    each("underreplicated", "Whether in-sync replicas are lacking.", lambda state: int(state.is_under_replicated))
    each("underminisr", "Whether they are fewer than required.", lambda state: int(state.is_under_min_isr))
    each("atminisr", "Whether they are just as many as required.", lambda state: int(state.is_at_min_isr))
    shared = replicas.replication
    metrics.counter(f"{MANAGER}_isrshrinks_total", "In-sync replicas that became fewer.", (), lambda: shared.shrinks)
    metrics.counter(f"{MANAGER}_isrexpands_total", "In-sync replicas that became more.", (), lambda: shared.expands)
    metrics.counter(
        f"{MANAGER}_failedisrupdates_total",
        "Changes of in-sync replicas that the controller refused.",
        (),
        lambda: shared.failed_updates,
    )


def _followers(metrics: Metrics, replicas: ReplicaManager) -> None:
    fetchers = replicas.fetchers

    def lags() -> Values:
        return [
            (
                (
                    f"ReplicaFetcherThread-{fetcher.number}-{fetcher.leader}",
                    followed.partition.topic,
                    str(followed.partition.index),
                ),
                lag,
            )
            for fetcher, followed in fetchers.followed
            if (lag := followed.lag) is not None
        ]

    metrics.gauge(
        "kafka_server_fetcherlagmetrics_consumerlag",
        "Records that a partition of this node lacks of its leader's.",
        ("clientId", "topic", "partition"),
        lags,
    )
    metrics.gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "The largest number of records that a partition lacks of its leader's.",
        ("clientId", "clientid"),  # rule files differ in the label's name
        lambda: [(("Replica", "Replica"), max((followed.lag or 0 for _, followed in fetchers.followed), default=0))],
    )
    metrics.gauge(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Partitions that are not fetched for a while after an error.",
        (),
        lambda: sum(followed.is_left_alone for _, followed in fetchers.followed),
    )

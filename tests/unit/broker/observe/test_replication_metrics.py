"""What /metrics says of leaders and followers, under Kafka's names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.observe.metrics import Metrics
from broker.observe.replication_metrics import register_replication
from storage.append_types import LogConfig
from tests.unit.broker.replication.leading.test_leader_state import Led
from tests.unit.broker.scraping import samples


class Replicas(list[Any]):
    """The replicas of a node: partitions, what their leaders share, and fetchers."""

    def __init__(self, *led: Led) -> None:
        super().__init__(one.partition for one in led)
        self.replication = led[0].shared
        follows = [
            (SimpleNamespace(number=0, leader=2), followed("a", 3)),
            (SimpleNamespace(number=1, leader=3), followed("b", 5, alone=True)),
            (SimpleNamespace(number=0, leader=3), followed("c", None)),
        ]
        self.fetchers = SimpleNamespace(followed=follows)


def followed(topic: str, lag: int | None, *, alone: bool = False) -> Any:
    return SimpleNamespace(partition=SimpleNamespace(topic=topic, index=0), lag=lag, is_left_alone=alone)


async def test_the_names_and_values() -> None:
    under, at, whole = Led(isr=(1,), min_insync_replicas=2), Led(isr=(1, 2)), Led()
    at.partition.configure(LogConfig(min_insync_replicas=2))
    under.shared.shrinks, under.shared.expands, under.shared.failed_updates = 4, 3, 2
    metrics = Metrics()
    register_replication(metrics, Replicas(under, at, whole))  # type: ignore[arg-type]
    found = samples(metrics)
    manager, fetchers = "kafka_server_replicamanager", "kafka_server_replicafetchermanager"
    assert found[f"{manager}_underreplicatedpartitions"] == 2
    assert found[f"{manager}_underminisrpartitioncount"] == 1
    assert found[f"{manager}_atminisrpartitioncount"] == 1
    assert found[f"{manager}_isrshrinks_total"] == 4
    assert found[f"{manager}_isrexpands_total"] == 3
    assert found[f"{manager}_failedisrupdates_total"] == 2
    assert found['kafka_cluster_partition_insyncreplicascount{partition="0",topic="t"}'] == 1 + 2 + 3
    lags = {name: value for name, value in found.items() if "consumerlag" in name}
    assert lags == {
        'kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-0-2",partition="0",topic="a"}': 3,
        'kafka_server_fetcherlagmetrics_consumerlag{clientId="ReplicaFetcherThread-1-3",partition="0",topic="b"}': 5,
    }
    assert found[f'{fetchers}_maxlag{{clientId="Replica",clientid="Replica"}}'] == 5
    assert found[f"{fetchers}_failedpartitionscount"] == 1

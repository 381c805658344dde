"""Coordinators over brokers of ours, alone and beside Kafka's: exactly once through kills, with stock clients.

The topics have three replicas, the internal ones too; a broker that is killed comes back before or after its session.
Where brokers of Kafka take part, each kind loads what the other has written, and asks the other's coordinators.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.client import workshop
from tests.client.workshop import Workshop, work_through_harm
from tests.cluster.client import until
from tests.cluster.kafka_controllers import KafkaControllers, tool
from tests.cluster.load import all_batches, complaints
from tests.cluster.mixed_cluster import AnyBroker, bootstrap, mixed

SESSION = ("broker.session.timeout.ms=6000", "broker.heartbeat.interval.ms=1000")
SETTINGS: dict[str, object] = {
    **workshop.SETTINGS,
    "broker.session.timeout.ms": 6000,
    "broker.heartbeat.interval.ms": 1000,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 6,
    "min.insync.replicas": 2,
}
SHORT_FORMS = (("aiokafka", 2),)
SHORT = (1_200, 2, 120.0)
LONG = (40_000, 30, 600.0)
"""Records, kills, and the seconds that anything may take."""


class OneOfThree:
    """Three brokers, of which one at a time is killed, whichever comes."""

    def __init__(self, brokers: dict[int, AnyBroker], seed: int) -> None:
        self.brokers = brokers
        self._chance = random.Random(seed)
        self._killed = 0

    @property
    def bootstrap_servers(self) -> str:
        return bootstrap(self.brokers)

    def kill(self) -> None:
        self._killed = self._chance.choice(list(self.brokers))
        self.brokers[self._killed].kill()

    def restart(self) -> None:
        time.sleep(self._chance.choice([0.0, 7.0]))
        self.brokers[self._killed].start()


@pytest.fixture
def quick_controllers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaControllers]:
    """One controller that soon finds out that a broker is gone."""
    with KafkaControllers(tmp_path_factory.mktemp("quick"), settings=SESSION) as running:
        yield running


@pytest.mark.parametrize(
    ("client", "ours", "theirs"),
    [*((client, 3, 0) for client in workshop.CLIENTS), ("aiokafka", 2, 1), ("confluent-kafka", 1, 2)],
)
@pytest.mark.timeout(1800)
def test_each_record_exactly_once_through_kills_of_brokers(
    client: str,
    ours: int,
    theirs: int,
    quick_controllers: KafkaControllers,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if reason := workshop.missing(client):
        pytest.skip(reason)
    long = request.config.getoption("--torture")
    if not long and (client, ours) not in SHORT_FORMS:
        pytest.skip("played by make torture")
    count, kills, seconds = LONG if long else SHORT
    with mixed(quick_controllers, tmp_path, ours, theirs, SETTINGS) as brokers:
        servers = OneOfThree(brokers, seed=len(client))
        with Workshop(servers, client, f"exactly-{client}", replicas=3) as shop:
            work_through_harm(shop, count, ["broker"] * kills, seed=len(client), seconds=seconds)
        until(lambda: not open_transactions(servers.bootstrap_servers), "no transaction is open", seconds=60)
        for broker in brokers.values():
            broker.end()
        assert [line for broker in brokers.values() for line in complaints(broker.folder)] == []


def open_transactions(bootstrap_servers: str) -> list[str]:
    """The transactional ids that Kafka's tool finds in another state than Empty or a complete one."""
    said = tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap_servers, "list")
    rows = [line.split() for line in said.splitlines()[1:] if line.strip()]
    return [row[0] for row in rows if row[-1] not in ("Empty", "CompleteCommit", "CompleteAbort")]


@pytest.mark.parametrize(("ours", "theirs"), [(3, 0), (2, 1)])
@pytest.mark.timeout(300)
def test_every_broker_names_the_same_coordinators(
    ours: int, theirs: int, quick_controllers: KafkaControllers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not theirs and not request.config.getoption("--torture"):
        pytest.skip("played by make torture; the mixed form is always")
    names = [f"group-{number}" for number in range(12)]
    with mixed(quick_controllers, tmp_path, ours, theirs, SETTINGS) as brokers:
        admins = [AdminClient({"bootstrap.servers": broker.address}) for broker in brokers.values()]
        until(lambda: all(len(coordinators(admin, names)) == len(names) for admin in admins), "all are found")
        found = [coordinators(admin, names) for admin in admins]
    assert found[0] == found[1] == found[2]
    assert set(found[0].values()) == {1, 2, 3}


def coordinators(admin: AdminClient, groups: list[str]) -> dict[str, int]:
    """The coordinator's id of each group that has one now."""
    described = {
        name: one.exception(30) or one.result() for name, one in admin.describe_consumer_groups(groups).items()
    }
    return {name: one.coordinator.id for name, one in described.items() if not isinstance(one, Exception)}


@pytest.mark.timeout(600)
def test_markers_of_transactions_v2_between_brokers_of_both_kinds(
    quick_controllers: KafkaControllers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Kafka's own producer, whose transactions are V2: each marker has a later epoch than the records that it ends."""
    if not request.config.getoption("--torture"):
        pytest.skip("played by make torture")
    alone = {name: 1 for name in SETTINGS if name.endswith((".factor", ".isr", ".replicas"))}
    with mixed(quick_controllers, tmp_path, 1, 1, SETTINGS | alone) as brokers:
        servers = bootstrap(brokers)
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("v2", 6, 1)])["v2"].result(30)
        for number in range(4):
            tool(
                PERFORMANCE, *f"--bootstrap-server {servers} --topic v2 --transactional-id tx-{number}".split(), *LITTLE
            )
        until(lambda: not open_transactions(servers), "no transaction is open", seconds=60)
        for broker in brokers.values():
            broker.end()
        logs = [path for broker in brokers.values() for path in sorted(broker.folder.glob("v2-*/*.log"))]
        assert len(logs) == 6
        assert sum(map(markers_of, logs)) > 6


PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
LITTLE = ["--num-records", "300", "--record-size", "50", "--throughput", "600", "--transaction-duration-ms", "100"]


def markers_of(log: Path) -> int:
    """How many markers end transactions in a partition; each has to have a later epoch than their records."""
    open_epochs: dict[int, int] = {}
    ended = 0
    for header, _ in all_batches(log.read_bytes()):
        if not header.is_control:
            open_epochs[header.producer_id] = header.producer_epoch
        else:
            ended += 1
            assert header.producer_epoch > open_epochs.pop(header.producer_id)
    assert not open_epochs
    return ended

"""Coordinators over brokers of ours: exactly once through kills, with stock clients, and Kafka's view of their logs.

The topics have three replicas, the internal ones too; a broker that is killed comes back before or after its session.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from odradek import Broker
from tests.client import workshop
from tests.client.workshop import Workshop, work_through_harm
from tests.cluster.client import until
from tests.cluster.kafka_controllers import KafkaControllers, tool
from tests.cluster.load import complaints

SESSION = ("broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
SETTINGS: dict[str, object] = {
    **workshop.SETTINGS,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 6,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 6,
    "min.insync.replicas": 2,
}
SHORT = (1_200, 2, 120.0)
LONG = (40_000, 30, 600.0)
"""Records, kills, and the seconds that anything may take."""


class OneOfThree:
    """Three brokers, of which one at a time is killed, whichever comes."""

    def __init__(self, brokers: dict[int, Broker], seed: int) -> None:
        self.brokers = brokers
        self._chance = random.Random(seed)
        self._killed = 0

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def kill(self) -> None:
        self._killed = self._chance.choice(list(self.brokers))
        self.brokers[self._killed].kill()

    def restart(self) -> None:
        time.sleep(self._chance.choice([0.0, 4.0]))
        self.brokers[self._killed].start()


@pytest.fixture(scope="module")
def quick_controllers(kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaControllers]:
    """One controller that soon finds out that a broker is gone."""
    with KafkaControllers(tmp_path_factory.mktemp("quick"), settings=SESSION) as running:
        yield running


@pytest.fixture(scope="module")
def three(quick_controllers: KafkaControllers) -> Iterator[dict[int, Broker]]:
    with ExitStack() as stack:
        found = {
            node_id: stack.enter_context(
                Broker(quick_controllers.broker_settings(node_id) | SETTINGS, profile="kafka", start_timeout=90)
            )
            for node_id in (1, 2, 3)
        }
        yield found
        for broker in found.values():
            log = broker.log()
            assert "Traceback" not in log, log[-6000:]


def test_every_broker_names_the_same_coordinators(three: dict[int, Broker]) -> None:
    for broker in three.values():
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        names = [f"group-{number}" for number in range(12)]
        until(lambda admin=admin, names=names: len(coordinators(admin, names)) == 12, "all are found")  # type: ignore[misc]
    found = [
        coordinators(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), names) for broker in three.values()
    ]
    assert found[0] == found[1] == found[2]
    assert set(found[0].values()) == {1, 2, 3}


@pytest.mark.parametrize("client", workshop.CLIENTS)
@pytest.mark.timeout(1800)
def test_each_record_exactly_once_through_kills_of_brokers(
    client: str, three: dict[int, Broker], request: pytest.FixtureRequest
) -> None:
    if reason := workshop.missing(client):
        pytest.skip(reason)
    long = request.config.getoption("--torture")
    count, kills, seconds = LONG if long else SHORT
    if not long and client not in ("confluent-kafka", "aiokafka"):
        pytest.skip("played by make torture")
    servers = OneOfThree(three, seed=len(client))
    with Workshop(servers, client, f"exactly-{client}", replicas=3) as shop:
        work_through_harm(shop, count, ["broker"] * kills, seed=len(client), seconds=seconds)
    until(lambda: not open_transactions(servers.bootstrap_servers), "no transaction is open", seconds=60)
    folders = [Path(broker.data_dir) for broker in three.values()]
    for broker in three.values():
        broker.stop()
    assert [line for folder in folders for line in complaints(folder)] == []
    start_all(three)


def start_all(brokers: dict[int, Broker]) -> None:
    """Start brokers that wait for each other's leaders."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(Broker.start, brokers.values()))


def open_transactions(bootstrap: str) -> list[str]:
    """The transactional ids that Kafka's tool finds in another state than Empty or a complete one."""
    said = tool("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, "list")
    rows = [line.split() for line in said.splitlines()[1:] if line.strip()]
    return [row[0] for row in rows if row[-1] not in ("Empty", "CompleteCommit", "CompleteAbort")]


def coordinators(admin: AdminClient, groups: list[str]) -> dict[str, int]:
    """The coordinator's id of each group that has one now."""
    described = {
        name: one.exception(30) or one.result() for name, one in admin.describe_consumer_groups(groups).items()
    }
    return {name: one.coordinator.id for name, one in described.items() if not isinstance(one, Exception)}

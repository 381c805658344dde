"""Tiered storage in a cluster: brokers of ours and of Apache Kafka 4.4 over one folder and one metadata topic.

Each reads what the other has copied, and begins as an empty replica behind it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.client import kafka_node
from tests.cluster import tiering
from tests.cluster.client import produce, read_all, until
from tests.cluster.kafka_controllers import KafkaControllers
from tests.cluster.mixed_cluster import AnyBroker, bootstrap, mixed
from tests.command_line import Odradek

TOPIC = "t"
ROUND = 4000
SIZE = 1000
OURS, ALSO_OURS, THEIRS = 1, 2, 3


def values(rounds: int) -> list[str]:
    return [f"{number}-".ljust(SIZE, "x") for number in range(rounds * ROUND)]


def fill(servers: str, number: int) -> None:
    """Produce the records of a round: four segments or so."""
    assert produce(servers, TOPIC, values(number + 1)[number * ROUND :], 1) == ROUND


def until_copied(brokers: dict[int, AnyBroker], *node_ids: int) -> None:
    """Return once these have only their active segment."""
    folders = [brokers[node_id].folder for node_id in node_ids]
    until(lambda: all(len(tiering.local_segments(folder, TOPIC)) == 1 for folder in folders), "all is copied")


@pytest.mark.timeout(600)
def test_kafka_and_odradek_in_one_cluster_read_what_the_other_has_copied(tmp_path: Path) -> None:
    if kafka_node.release_of(kafka_node.jars()) < (4, 4):
        pytest.skip(f"Kafka {kafka_node.release()} is here, which has no TxnIndexEmpty in its records")
    store = tmp_path / "store"
    with (
        KafkaControllers(tmp_path, settings=tiering.CONTROLLERS) as controllers,
        mixed(
            controllers,
            tmp_path,
            2,
            1,
            tiering.settings(store),
            java_settings=tiering.java_settings(tmp_path / "classes"),
        ) as brokers,
    ):
        servers = bootstrap(brokers)
        admin = AdminClient({"bootstrap.servers": servers})
        tiering.create(admin, TOPIC, [THEIRS, OURS])
        fill(servers, 0)
        until_copied(brokers, THEIRS, OURS)
        assert read_all(servers, TOPIC, 1, ROUND) == values(1)

        # An empty replica of ours behind Kafka's tier, which then leads and copies.
        tiering.place(admin, brokers[OURS].address, TOPIC, [ALSO_OURS, THEIRS])
        assert tiering.local_segments(brokers[ALSO_OURS].folder, TOPIC)[0] > 0
        assert read_all(servers, TOPIC, 1, ROUND) == values(1)
        fill(servers, 1)
        until_copied(brokers, ALSO_OURS, THEIRS)
        assert read_all(servers, TOPIC, 1, 2 * ROUND) == values(2)

        # An empty one of ours behind ours; then Kafka's leads, and reads what we have copied.
        tiering.place(admin, brokers[OURS].address, TOPIC, [OURS, THEIRS])
        assert tiering.local_segments(brokers[OURS].folder, TOPIC)[0] > ROUND
        tiering.place(admin, brokers[OURS].address, TOPIC, [THEIRS, OURS])
        assert read_all(servers, TOPIC, 1, 2 * ROUND) == values(2)

        # An empty replica of Kafka's behind our tier.
        tiering.place(admin, brokers[OURS].address, TOPIC, [OURS])
        tiering.place(admin, brokers[OURS].address, TOPIC, [THEIRS, OURS])
        assert tiering.local_segments(brokers[THEIRS].folder, TOPIC)[0] > ROUND
        assert read_all(servers, TOPIC, 1, 2 * ROUND) == values(2)
        fill(servers, 2)
        until_copied(brokers, THEIRS, OURS)
        assert read_all(servers, TOPIC, 1, 3 * ROUND) == values(3)

        status, told, _ = Odradek(brokers[ALSO_OURS].address).run("tier", "status", TOPIC)
        assert status == 0
        assert "broker 1: t-0: followed, here from offset" in told
        assert "broker 3: it tells nothing of its tiered storage, as it is another Kafka" in told

        admin.delete_topics([TOPIC])[TOPIC].result(60)
        until(lambda: tiering.copied_segments(store, TOPIC) == 0, "nothing of the topic is in remote storage")
        for node_id in (OURS, ALSO_OURS):
            brokers[node_id].end()

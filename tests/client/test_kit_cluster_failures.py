"""What a test does to an `odradek.Cluster`: brokers killed, stopped, isolated and started again, under load."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer

from odradek import Cluster, ControlError, WaitTimeoutError
from tests.cluster.load import Load

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cluster")

SECONDS = 90
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that each test leaves whole; none of its brokers may meet a bug."""
    with Cluster(brokers=3) as running:
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log(), broker.log()


@contextlib.contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[Load]:
    """An idempotent producer, all of whose acknowledged records are there in the end, each once."""
    written = cluster.topic(topic, partitions=PARTITIONS)
    with Load(cluster.bootstrap_servers, topic, PARTITIONS, topic) as running:
        written.wait(count=30, timeout=SECONDS)
        yield running
    cluster.wait_in_sync(timeout=SECONDS)
    assert running.failed == []
    found = {(record.partition, record.offset): record.value for record in written.records()}
    assert found == running.acknowledged
    assert len(set(found.values())) == len(found)


def test_a_killed_leader_loses_and_doubles_nothing(cluster: Cluster) -> None:
    with load(cluster, "killed") as running:
        leader = cluster.leader("killed", 0)
        assert leader is not None
        victim = leader if leader != 0 else cluster.brokers[1]
        victim.kill()
        for partition in range(PARTITIONS):
            assert cluster.wait_for_leader("killed", partition, other_than=victim, timeout=SECONDS) != victim
        cluster.topic("killed").wait(count=len(running.acknowledged) + 30, timeout=SECONDS)
        with pytest.raises(WaitTimeoutError, match=r"killed-\d is led by broker \d, has replicas .*, in sync "):
            cluster.wait_in_sync("killed", timeout=0.2)
        victim.start()


def test_an_expired_session_moves_leaders_at_once_and_the_broker_comes_back(cluster: Cluster) -> None:
    with load(cluster, "expired"):
        cluster.move_leader("expired", 0, 2)
        cluster.expire(2)
        assert cluster.leader("expired", 0) in (0, 1)
        cluster.wait_in_sync(timeout=SECONDS)
    with pytest.raises(ValueError, match="broker = 0"):
        cluster.expire(0)


def test_an_isolated_leader_is_replaced_and_what_it_alone_had_was_never_acknowledged(cluster: Cluster) -> None:
    with load(cluster, "isolated") as running:
        cluster.move_leader("isolated", 0, 1)
        cluster.isolate(1)
        assert cluster.isolated == [cluster.brokers[1]]
        assert cluster.wait_for_leader("isolated", 0, other_than=1, timeout=SECONDS) in (0, 2)
        cluster.topic("isolated").wait(count=len(running.acknowledged) + 30, timeout=SECONDS)
        assert cluster.brokers[1] not in cluster.in_sync("isolated", 0)
        host, port = cluster.brokers[1].bootstrap_servers.split(":")
        with socket.create_connection((host, int(port))):
            pass  # clients reach it
        with pytest.raises(RuntimeError, match=r"broker 1 is isolated.*heal"):
            cluster.brokers[1].restart()
        cluster.heal()
        cluster.brokers[1].start()


def test_the_others_serve_on_while_the_controller_is_down(cluster: Cluster) -> None:
    with load(cluster, "headless") as running:
        for partition in range(PARTITIONS):
            cluster.move_leader("headless", partition, 1 + partition % 2)
        cluster.controller.kill()
        with pytest.raises(ControlError, match="the controller, broker 0, is not running"):
            cluster.move_leader("headless", 0, 2)
        acknowledged = len(running.acknowledged)
        cluster.topic("headless").wait(count=1, from_=0, timeout=SECONDS)
        cluster.controller.start()
        cluster.topic("headless").wait(count=acknowledged + 30, timeout=SECONDS)


def test_a_rolling_restart_under_load(cluster: Cluster) -> None:
    with load(cluster, "rolling"):
        for broker in cluster.brokers:
            broker.restart()
            cluster.wait_in_sync(timeout=SECONDS)


async def test_a_producer_of_aiokafka_survives_the_kill_of_its_leader(cluster: Cluster) -> None:
    topic = await asyncio.to_thread(cluster.topic, "aiokafka", partitions=1)
    await asyncio.to_thread(cluster.move_leader, "aiokafka", 0, 2)
    config = cluster.client_config("aiokafka", enable_idempotence=True, request_timeout_ms=5000)
    async with AIOKafkaProducer(**config) as producer:
        first = [await producer.send("aiokafka", f"{number}".encode()) for number in range(50)]
        await asyncio.to_thread(cluster.brokers[2].kill)
        rest = [await producer.send("aiokafka", f"{number}".encode()) for number in range(50, 100)]
        sent = await asyncio.wait_for(asyncio.gather(*first, *rest), SECONDS)
    assert [one.offset for one in sent] == list(range(100))
    await asyncio.to_thread(cluster.brokers[2].start)
    await cluster.wait_in_sync_async(timeout=SECONDS)
    found = await asyncio.to_thread(topic.records)
    assert [record.value for record in found] == [f"{number}".encode() for number in range(100)]


def test_a_stopped_cluster_comes_back_with_everything(cluster: Cluster) -> None:
    topic = cluster.topic("kept", partitions=PARTITIONS)
    written = topic.produce_many([(f"{number}", f"{number}") for number in range(30)])
    bootstrap = cluster.bootstrap_servers
    cluster.stop()
    cluster.stop()
    assert [broker.running for broker in cluster.brokers] == [False] * 3
    with pytest.raises(ControlError, match="no broker of the cluster is running"):
        cluster.leader("kept", 0)
    cluster.start()
    assert cluster.bootstrap_servers == bootstrap
    cluster.kill()
    cluster.start()
    cluster.wait_in_sync(timeout=SECONDS)
    assert sorted(map(repr, topic.records())) == sorted(map(repr, written))


def test_a_data_folder_that_is_given_is_kept(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(brokers=2, data_dir=folder, racks=["a", "b"]) as cluster:
        cluster.topic("kept", partitions=2).produce_many([("a", "1"), ("b", "2")])
    assert sorted(path.name for path in folder.iterdir()) == ["broker-0", "broker-1"]
    with Cluster(brokers=2, data_dir=folder) as cluster:
        assert {record.value for record in cluster.topic("kept").records()} == {b"1", b"2"}


def test_the_fixture_gives_each_test_a_whole_and_clean_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        seen = []

        @pytest.mark.odradek(topics={"orders": 3})
        def test_it_has_the_topics_of_the_marker(odradek_cluster):
            assert odradek_cluster.topic("orders").partitions == 3
            odradek_cluster.topic("orders").produce(b"x")
            seen.append(odradek_cluster)

        def test_it_is_clean_and_the_same(odradek_cluster):
            assert odradek_cluster.topics() == {}
            assert odradek_cluster is seen[0]
            odradek_cluster.isolate(1)

        def test_it_is_another_after_one_was_isolated(odradek_cluster):
            assert odradek_cluster is not seen[0]
            assert odradek_cluster.isolated == []
            seen.append(odradek_cluster)
            odradek_cluster.brokers[2].kill()

        def test_it_is_another_after_one_was_killed(odradek_cluster):
            assert odradek_cluster not in seen
            assert all(broker.running for broker in odradek_cluster.brokers)
        """
    )
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)

"""What a test does to an `odradek.Cluster`: brokers killed, stopped, isolated and started again, under load."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from odradek import Cluster, ControlError, ControlUnavailableError, WaitTimeoutError
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
    with Load(cluster.bootstrap_servers, topic, PARTITIONS, topic, in_flight=1) as running:
        written.wait(count=30, timeout=SECONDS)
        yield running
    cluster.wait_in_sync(timeout=SECONDS)
    assert running.failed == []
    found = {(record.partition, record.offset): record.value for record in written.records()}
    running.check_all(found)
    assert len(set(found.values())) == len(found)


def test_each_broker_in_turn_is_killed_as_a_leader_and_nothing_is_lost_or_doubled(cluster: Cluster) -> None:
    with load(cluster, "killed") as running:
        for victim in cluster.brokers:
            cluster.move_leader("killed", 0, victim)
            victim.kill()
            with pytest.raises(ControlError, match=rf"^broker {victim.index} is not running: it cannot lead killed-0$"):
                cluster.move_leader("killed", 0, victim)
            for partition in range(PARTITIONS):
                assert cluster.wait_for_leader("killed", partition, other_than=victim, timeout=SECONDS) != victim
            cluster.topic("killed").wait(count=len(running.acknowledged) + 30, timeout=SECONDS)
            with pytest.raises(WaitTimeoutError, match=r"killed-\d is led by broker \d, .* is not running$"):
                cluster.wait_in_sync("killed", timeout=0.2)
            victim.start()
            cluster.wait_in_sync(timeout=SECONDS)


def test_each_broker_in_turn_is_stopped_in_good_order_and_its_leaders_have_moved(cluster: Cluster) -> None:
    with load(cluster, "stopped"):
        for broker in cluster.brokers:
            cluster.move_leader("stopped", 0, broker)
            assert broker.stop() == 0
            assert cluster.leader("stopped", 0) not in (broker, None)
            broker.start()
            cluster.wait_in_sync(timeout=SECONDS)


def test_an_expired_session_moves_leaders_at_once_and_the_broker_comes_back(cluster: Cluster) -> None:
    with load(cluster, "expired"):
        for number in (2, 0):
            cluster.move_leader("expired", 0, number)
            cluster.expire(number)
            assert cluster.leader("expired", 0) not in (number, None)
            cluster.wait_in_sync(timeout=SECONDS)


def test_an_isolated_leader_is_replaced_and_what_it_alone_had_was_never_acknowledged(cluster: Cluster) -> None:
    with load(cluster, "isolated") as running:
        cluster.move_leader("isolated", 0, 0)
        cluster.isolate(0)
        assert cluster.isolated == [cluster.brokers[0]]
        with pytest.raises(ControlError, match=r"^broker 0 is isolated: it cannot lead isolated-0$"):
            cluster.move_leader("isolated", 0, 0)
        assert cluster.wait_for_leader("isolated", 0, other_than=0, timeout=SECONDS) in (1, 2)
        cluster.topic("isolated").wait(count=len(running.acknowledged) + 30, timeout=SECONDS)
        assert cluster.brokers[0] not in cluster.in_sync("isolated", 0)
        host, port = cluster.brokers[0].bootstrap_servers.split(":")
        with socket.create_connection((host, int(port))):
            pass  # clients reach it
        with pytest.raises(RuntimeError, match=r"broker 0 is isolated.*heal"):
            cluster.brokers[0].restart()
        cluster.heal()
        cluster.brokers[0].start()


def test_brokers_serve_on_while_the_controller_is_isolated(cluster: Cluster) -> None:
    with load(cluster, "cut") as running:
        cluster.isolate(cluster.controller)
        assert cluster.isolated == [cluster.controller]
        acknowledged = len(running.acknowledged)
        cluster.topic("cut").wait(count=acknowledged + 30, timeout=SECONDS)
        cluster.brokers[0].kill()
        with pytest.raises(RuntimeError, match="the controller is isolated, so broker 0 could not join"):
            cluster.brokers[0].start()
        cluster.heal(cluster.controller)
        cluster.brokers[0].start()


def test_the_others_serve_on_while_the_controller_is_down(cluster: Cluster) -> None:
    with load(cluster, "headless") as running:
        cluster.controller.kill()
        with pytest.raises(ControlError, match="the controller is not running: no leader can be moved"):
            cluster.move_leader("headless", 0, 2)
        with pytest.raises(ControlError, match="the controller is not running: no session can be ended"):
            cluster.expire(1)
        assert not cluster.whole
        assert cluster.controller.last_words().startswith("the controller at ")
        with pytest.raises(ControlUnavailableError):
            cluster.reset(cluster.mark())
        acknowledged = len(running.acknowledged)
        cluster.topic("headless").wait(count=acknowledged + 30, timeout=SECONDS)
        cluster.controller.start()
        cluster.move_leader("headless", 0, 2)


def test_a_rolling_restart_under_load(cluster: Cluster) -> None:
    with load(cluster, "rolling"):
        for broker in cluster.brokers:
            broker.restart()
            cluster.wait_in_sync(timeout=SECONDS)


async def test_a_producer_of_aiokafka_survives_the_kill_of_each_leader(cluster: Cluster) -> None:
    topic = await asyncio.to_thread(cluster.topic, "aiokafka", partitions=1)
    config = cluster.client_config("aiokafka", enable_idempotence=True, request_timeout_ms=5000)
    futures: list[asyncio.Future[Any]] = []
    numbers = itertools.count()
    async with AIOKafkaProducer(**config) as producer:
        for broker in cluster.brokers:
            await asyncio.to_thread(cluster.move_leader, "aiokafka", 0, broker)
            futures += [await producer.send("aiokafka", b"%d" % next(numbers)) for _ in range(20)]
            await asyncio.to_thread(broker.kill)
            futures += [await producer.send("aiokafka", b"%d" % next(numbers)) for _ in range(20)]
            await asyncio.wait_for(asyncio.gather(*futures), SECONDS)
            await asyncio.to_thread(broker.start)
            await cluster.wait_in_sync_async(timeout=SECONDS)
        sent = await asyncio.gather(*futures)
    assert [one.offset for one in sent] == list(range(120))
    found = await asyncio.to_thread(topic.records)
    assert [record.value for record in found] == [b"%d" % number for number in range(120)]


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
    assert sorted(path.name for path in folder.iterdir()) == ["broker-0", "broker-1", "controller"]
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
            seen.append([broker.pid for broker in odradek_cluster.brokers])

        def test_it_is_clean_and_the_same(odradek_cluster):
            assert odradek_cluster.topics() == {}
            assert [broker.pid for broker in odradek_cluster.brokers] == seen[0]
            odradek_cluster.topic("orders")
            odradek_cluster.isolate(1)

        def test_it_is_started_anew_after_one_was_isolated(odradek_cluster):
            assert not {broker.pid for broker in odradek_cluster.brokers} & set(seen[0])
            assert odradek_cluster.isolated == []
            assert odradek_cluster.topics() == {}
            odradek_cluster.brokers[2].kill()
            odradek_cluster.controller.kill()

        def test_it_is_started_anew_after_some_were_killed(odradek_cluster):
            assert odradek_cluster.whole
            assert odradek_cluster.topics() == {}
        """
    )
    result = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)

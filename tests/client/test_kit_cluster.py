"""`odradek.Cluster` in a test's hands: leaders, replicas, records, groups and faults wherever they are."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Producer
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

from broker.peers.call import entity_call
from odradek import BrokerStartError, Cluster, ClusterBroker, ControlError, WaitTimeoutError
from tests.client.raw import RawConnection

pytestmark = pytest.mark.usefixtures("own_cluster")

NODES = [0, 1, 2]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that tests leave whole; none of its brokers may meet a bug."""
    with Cluster(brokers=3) as running:
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log(), broker.log()


# -- leaders and replicas


def test_leaders_replicas_and_brokers_are_known_by_number(cluster: Cluster) -> None:
    cluster.topic("known", partitions=3)
    found = [cluster.leader("known", index) for index in range(3)]
    assert sorted(one.index for one in found if one is not None) == NODES
    for index, leader in enumerate(found):
        assert isinstance(leader, ClusterBroker)
        assert leader is cluster.brokers[leader]
        assert cluster.replicas("known", index)[0] == leader
        assert sorted(cluster.in_sync("known", index)) == NODES
    assert cluster.bootstrap_servers.split(",") == [broker.bootstrap_servers for broker in cluster.brokers]
    assert cluster.controller not in cluster.brokers
    assert [one["id"] for one in cluster.control.describe()["brokers"]] == NODES  # the controller is none of them


def test_a_leader_is_moved_to_any_replica_in_sync(cluster: Cluster) -> None:
    topic = cluster.topic("moved", partitions=1)
    for number in (2, 0, 1, 1):
        cluster.move_leader("moved", 0, number)
        assert cluster.leader("moved", 0) == number
        topic.produce(f"led by {number}")
    assert [record.value for record in topic.records()] == [b"led by 2", b"led by 0", b"led by 1", b"led by 1"]


def test_wrong_arguments_are_named(cluster: Cluster) -> None:
    cluster.topic("named", partitions=2)
    with pytest.raises(ControlError, match="there is no such topic"):
        cluster.leader("nowhere", 0)
    with pytest.raises(ValueError, match="partition = 2: expected 0 to 1"):
        cluster.leader("named", 2)
    with pytest.raises(ValueError, match="broker = 3: expected 0 to 2"):
        cluster.move_leader("named", 0, 3)
    with pytest.raises(ValueError, match="broker = True"):
        cluster.isolate(True)
    with pytest.raises(ValueError, match="broker = -1"):
        cluster.isolate(-1)
    with pytest.raises(ValueError, match="broker = '1'"):
        cluster.heal("1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="other_than"):
        cluster.wait_for_leader("named", 0, other_than=9)
    with pytest.raises(ControlError, match="partition = 9"):
        cluster.topic("named").records(partition=9)
    with pytest.raises(ControlError, match="a cluster has none"):
        cluster.snapshot()
    with pytest.raises(ControlError, match="a cluster has none"):
        cluster.history()
    with pytest.raises(RuntimeError, match="running already"):
        cluster.start()
    cluster.wait_in_sync(timeout=30)


@pytest.mark.parametrize("brokers", [0, -1, 99, "three", True, 2.0])
def test_a_wrong_number_of_brokers_is_refused(brokers: object) -> None:
    with pytest.raises(ValueError, match=r"brokers = .*: expected a number from 1 to 16"):
        Cluster(brokers)  # type: ignore[arg-type]


def test_what_the_cluster_sets_itself_is_refused() -> None:
    for name in ("node.id", "listeners", "log.dirs", "controller.quorum.voters", "odradek.cluster.id"):
        with pytest.raises(ValueError, match=f"settings: {name} is set by the cluster itself"):
            Cluster(settings={name: 1})
    with pytest.raises(ValueError, match=r"racks = .*: expected one for each of 3 brokers"):
        Cluster(racks=["a", "b"])
    with pytest.raises(ValueError, match="profile = 'fast'"):
        Cluster(profile="fast")


def test_a_cluster_that_cannot_start_says_which_broker_and_leaves_nothing() -> None:
    cluster = Cluster(brokers=2, settings={"num.partitions": "many"})
    began = time.monotonic()
    # Every node has the setting, so which of them ends first is luck.
    with pytest.raises(
        BrokerStartError, match=r"(?s)(broker \d|the controller) of the cluster: .*num.partitions = 'many'"
    ):
        cluster.start()
    assert time.monotonic() - began < cluster.brokers[0]._start_timeout
    assert [broker.running for broker in cluster.brokers] == [False, False]
    cluster.close()


def test_any_broker_takes_a_client_s_request_for_a_change(cluster: Cluster) -> None:
    """It is sent on to the controller, with a journal as without one."""
    for broker in cluster.brokers:
        name = f"asked-of-{broker.index}"
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=3, assignments=(), configs=())
        call = entity_call(CreateTopicsRequest(topics=(topic,), timeout=timedelta(seconds=30)))
        with RawConnection(broker.bootstrap_servers) as connection:
            connection.send(bytes(call.frame(call.highest, 1, b"admin")))
            answer = call.read(connection.read_frame(), call.highest)
        assert answer.topics[0].error_code.name == "none"
        assert cluster.topic(name).partitions == 1


# -- the kit


def test_records_of_partitions_with_different_leaders(cluster: Cluster) -> None:
    topic = cluster.topic("records", partitions=3)
    written = topic.produce_many([(f"key-{number}", f"value-{number}") for number in range(30)])
    assert {record.partition for record in written} == {0, 1, 2}
    assert [record.value for record in written] == [f"value-{number}".encode() for number in range(30)]
    assert sorted(topic.records(), key=repr) == sorted(written, key=repr)
    topic.produce(b"to one", partition=2)
    assert topic.expect("to one").partition == 2
    assert topic.expect("value-7", key="key-7", timeout=1) in written
    assert len(topic.wait(count=31)) == 31
    assert len(topic.wait(count=2, where=lambda record: record.value.endswith(b"9"))) >= 2
    assert sum(topic.end_offsets().values()) == 31
    assert len(topic.records(partition=2, from_=1)) == topic.end_offsets()[2] - 1
    with pytest.raises(WaitTimeoutError, match=r"(?s)did not have 1 such records within 0.2 s.*the nearest is"):
        topic.expect("value-7", key="key-8", timeout=0.2)
    topic.truncate()
    assert topic.records() == []
    assert topic.start_offsets() == topic.end_offsets()
    topic.delete()
    assert "records" not in cluster.topics()


async def test_a_group_is_found_at_its_coordinator(cluster: Cluster) -> None:
    topic = cluster.topic("grouped", partitions=2)
    topic.produce_many([{"value": f"{number}", "partition": number % 2} for number in range(20)])
    group = cluster.group("readers")
    assert group.state == "Dead"
    async with AIOKafkaConsumer(
        "grouped", bootstrap_servers=cluster.bootstrap_servers, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        read = 0
        while read < 20:
            read += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        await group.wait_async(state="Stable", members=1, timeout=30)
        await consumer.commit()
    await group.wait_async(members=0, lag=0, timeout=30)
    assert sum(group.committed().values()) == 20
    assert "readers" in cluster.groups()
    with pytest.raises(WaitTimeoutError, match=r"waited 0.7 s for 1 member"):
        group.wait(members=1, timeout=0.7)


def test_a_fault_strikes_at_every_broker(cluster: Cluster) -> None:
    cluster.topic("faulty", partitions=3)
    with cluster.fault(api="Produce", topic="faulty", error="NOT_ENOUGH_REPLICAS", count=1) as fault:
        producer = Producer(cluster.client_config("confluent"))
        for partition in range(3):
            producer.produce("faulty", b"x", partition=partition)
        assert producer.flush(30) == 0
        fault.wait(3, timeout=30)
        assert fault.hits == 3
        assert not fault.active
        assert {request["topics"][0]["partitions"][0]["index"] for request in fault.requests} == {0, 1, 2}
        assert len(cluster.faults) == 3
    assert cluster.faults == []
    assert len(cluster.topic("faulty").records()) == 3


def test_time_is_that_of_all_brokers(cluster: Cluster) -> None:
    before = [broker.clock.now() for broker in cluster.brokers]
    cluster.clock.advance(hours=2)
    after = [broker.clock.now() for broker in cluster.brokers]
    assert all((late - early).total_seconds() >= 7200 for early, late in zip(before, after, strict=True))
    cluster.wait_in_sync(timeout=30)
    cluster.reset(cluster.mark())
    assert (cluster.brokers[2].clock.now() - before[2]).total_seconds() < 3600


def test_what_a_test_made_is_removed_from_all_brokers(cluster: Cluster) -> None:
    mark = cluster.mark()
    cluster.topic("temporary", partitions=3).produce(b"x")
    cluster.fault(api="Fetch", delay=0.01)
    cluster.reset(mark)
    assert "temporary" not in cluster.topics()
    assert cluster.faults == []


def test_the_report_has_every_broker(cluster: Cluster) -> None:
    said = cluster.report()
    assert all(f"{title}: " in said for title in ("broker 0", "broker 1", "broker 2", "the controller"))


def test_the_console_of_each_broker_says_how_many_records_and_bytes_the_leader_has() -> None:
    with Cluster(brokers=2, settings={"odradek.http.port": 0, "default.replication.factor": 1}) as running:
        topic = running.topic("elsewhere", partitions=1)
        topic.produce("one")
        leader = running.leader("elsewhere", 0)
        assert leader is not None
        for broker in running.brokers:
            with urllib.request.urlopen(f"http://127.0.0.1:{broker.http_port}/topics") as page:
                (row,) = (line for line in page.read().decode().splitlines() if "elsewhere" in line)
            cells = re.findall(r'<td class="n">([^<]*)</td>', row)
            assert cells[:4] == ["1", "1", "1", "71 B"]
            assert (cells[4] == "–") == (broker.index != leader.index), "a rate is of the broker that leads"

"""Groups and transactions of stock clients in a test's hands: `broker.group(...)`, `broker.transaction(...)`."""

from __future__ import annotations

import asyncio
import http.client
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, Producer

from odradek import Broker, ControlError, Group, RemoteBroker, WaitTimeoutError
from tests.brokers import sound_broker

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
}
LONG = 30
"""Seconds for what takes a few on an idle machine."""


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with sound_broker(SETTINGS) as broker:
        yield broker


@pytest.fixture
def name() -> str:
    return f"g-{uuid.uuid4().hex[:10]}"


@asynccontextmanager
async def reading(broker: Broker, topic: str, group: str, client: str = "reader") -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        client_id=client,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def write(broker: Broker, topic: str, count: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send_and_wait(topic, str(number).encode(), partition=0)


async def test_a_group_s_life_as_a_test_sees_it(broker: Broker, name: str) -> None:
    group = broker.group(name)
    assert (group.state, group.members, group.lag().total) == ("Dead", [], 0)
    await write(broker, name, 3)
    async with reading(broker, name, name) as consumer:
        await group.wait_async(state="Stable", members=1, timeout=LONG)
        (member,) = group.members
        assert (member.client_id, member.host, member.instance_id) == ("reader", "127.0.0.1", None)
        assert (member.assignment, member.partitions, member.topics) == ({name: [0]}, [(name, 0)], [name])
        assert (group.lag(), group.lag().total, group.committed()) == ({(name, 0): 3}, 3, {})
        for _ in range(3):
            await consumer.getone()
        waiting = asyncio.create_task(group.wait_async(lag=0, timeout=LONG))
        await consumer.commit()
        await waiting
        assert (group.lag(), group.committed()) == ({(name, 0): 0}, {(name, 0): 3})
        assert name in broker.groups()
        with pytest.raises(ControlError, match="stop reader, or expire"):
            group.reset_offsets("earliest")
    group.wait(state="Empty", members=0, lag=0, timeout=LONG)
    assert group.reset_offsets("earliest") == {(name, 0): 0}
    assert group.reset_offsets(datetime.now(UTC) + timedelta(days=1), topic=name) == {(name, 0): 3}
    assert group.reset_offsets(1, topic=name, partitions=[0]) == {(name, 0): 1}
    group.delete()
    assert group.state == "Dead"


async def test_a_consumer_goes_on_after_a_rebalance_and_after_the_end_of_its_session(broker: Broker, name: str) -> None:
    await write(broker, name, 1)
    group = broker.group(name)
    async with reading(broker, name, name) as consumer:
        await consumer.getone()
        await group.wait_async(state="Stable", members=1, timeout=LONG)
        generation = group.generation
        group.rebalance()
        assert group.state == "PreparingRebalance"
        await group.wait_async(state="Stable", members=1, timeout=LONG)
        assert group.generation > generation
        (before,) = group.members
        assert group.expire("reader") == [before.id]
        await group.wait_async(state="Stable", members=1, timeout=LONG)
        (after,) = group.members
        assert after.id != before.id
        await write(broker, name, 1)
        assert (await asyncio.wait_for(consumer.getone(), LONG)).value == b"0"


def test_the_consumer_protocol_too(broker: Broker, name: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, b"a")
    assert producer.flush(LONG) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": name,
            "group.protocol": "consumer",
            "client.id": "new",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    group = broker.group(name)
    try:
        consumer.subscribe([name])
        assert consumer.poll(LONG).value() == b"a"
        group.wait(state="Stable", members=1, timeout=LONG)
        assert group.describe()["protocol"] == "consumer"
        consumer.commit(asynchronous=False)
        group.wait(lag=0, timeout=LONG)
        group.rebalance()
        (member,) = group.members
        assert group.expire(member) == [member.id]
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(group.wait, state="Stable", members=1, timeout=LONG)
            while not waiting.done():
                consumer.poll(0.05)  # what tells the application of the lost session, and joins again
            waiting.result()
        producer.produce(name, b"b")
        assert producer.flush(LONG) == 0
        assert consumer.poll(LONG).value() == b"b"
    finally:
        consumer.close()
    group.wait(state="Empty", timeout=LONG)


def test_a_wait_in_vain_is_a_failed_assertion_that_says_how_things_are(broker: Broker, name: str) -> None:
    with pytest.raises(WaitTimeoutError, match=f"state Stable, 2 members: group {name} does not exist") as caught:
        broker.group(name).wait(state="Stable", members=2, timeout=0.05)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize("kind", ["python", "http"])
def test_wrong_input_names_the_parameter(broker: Broker, name: str, kind: str) -> None:
    group = broker.group(name)
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("wait", {"state": "Stabel"}, "state"),
        ("wait", {"members": -1}, "members"),
        ("wait", {"lag": 0, "timeout": -1}, "timeout"),
        ("reset_offsets", {"to": "tomorrow", "topic": name}, "to"),
        ("reset_offsets", {"to": 0, "topic": name}, "topic"),
    ]
    for action, given, parameter in wrong:
        if kind == "python":
            with pytest.raises(ControlError) as caught:
                getattr(group, action)(**given)
            assert caught.value.parameter == parameter
        else:
            status, answer = over_http(broker, "POST", f"/groups/{name}/{action}", given)
            assert (status // 100, answer["parameter"], parameter in answer["error"]) == (4, parameter, True)
    with pytest.raises(TypeError, match="to = None"):
        group.reset_offsets(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="group = 3"):
        broker.group(3)  # type: ignore[arg-type]


def over_http(broker: Broker, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
    """What any other language does."""
    connection = http.client.HTTPConnection(broker.control.url.removeprefix("http://"))
    connection.request(method, f"/control{path}", None if body is None else json.dumps(body))
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def test_all_of_it_over_http(broker: Broker, name: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, b"a")
    assert producer.flush(LONG) == 0
    path = f"/groups/{name}"
    assert over_http(broker, "GET", path)[1]["state"] == "Dead"
    status, answer = over_http(broker, "POST", f"{path}/wait", {"state": "Stable", "timeout": 0})
    assert (status, "does not exist" in answer["error"]) == (408, True)
    assert over_http(broker, "POST", f"{path}/reset_offsets", {"to": "earliest", "topic": name})[0] == 200
    assert over_http(broker, "GET", f"{path}/lag")[1]["total"] == 1
    assert over_http(broker, "GET", f"{path}/committed")[1]["partitions"][0]["offset"] == 0
    assert over_http(broker, "POST", f"{path}/wait", {"state": "Empty", "members": 0})[0] == 200
    assert over_http(broker, "DELETE", path)[0] == 200
    remote = RemoteBroker(broker.bootstrap_servers, broker.control.url)
    assert remote.group(name).state == "Dead"
    assert isinstance(remote.group(name), Group)


async def test_an_aborted_transaction_lets_readers_go_on_and_fences_its_producer(broker: Broker, name: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(name, b"lost", partition=0)
        transaction = await broker.transaction(name).wait_async(state="Ongoing", timeout=LONG)
        assert transaction.partitions == [(name, 0)]
        assert transaction.producer_id >= 0
        epoch = transaction.epoch
        transaction.abort()
        assert (transaction.state, transaction.epoch > epoch) == ("CompleteAbort", True)
        transaction.wait(state="CompleteAbort")
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()
        assert name in broker.transactions()
    finally:
        await producer.stop()
    with pytest.raises(ControlError, match="no open transaction"):
        transaction.abort()
    with pytest.raises(WaitTimeoutError, match=f"transactional id {name} is CompleteAbort"):
        transaction.wait(state="Ongoing", timeout=0)
    assert broker.transaction(f"{name}-other").state == "Dead"


def test_a_fenced_producer_of_confluent_is_told_so(broker: Broker, name: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(LONG)
    broker.transaction(name).fence()
    producer.begin_transaction()
    producer.produce(name, b"zombie")
    with pytest.raises(Exception, match=r"(?i)fence"):
        producer.commit_transaction(LONG)


async def test_a_wait_goes_on_when_a_snapshot_is_restored_meanwhile(name: str) -> None:
    with sound_broker(SETTINGS) as broker:
        await write(broker, name, 1)
        group = broker.group(name)
        group.reset_offsets("earliest", topic=name)
        snapshot = broker.snapshot()
        group.delete()
        waiting = asyncio.create_task(group.wait_async(state="Empty", timeout=LONG))
        await asyncio.to_thread(broker.restore, snapshot)
        await waiting
        assert group.committed() == {(name, 0): 0}
        assert broker.journal() != []

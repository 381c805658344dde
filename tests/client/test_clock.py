"""The broker's clock in a test's hands, over sockets: jumps of a year, with clients connected all the while."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from odradek import Broker
from odradek.control import ControlError
from tests.brokers import sound_broker

pytestmark = pytest.mark.usefixtures("own_cluster")
FIRST = {"auto_offset_reset": "earliest"}
YEAR = timedelta(days=365)
NEAR = timedelta(seconds=30)


@pytest.fixture(scope="module", params=["test", "kafka"])
def movable(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker whose clock tests move, in the profile for tests, and with Kafka's intervals."""
    settings = {"odradek.profile": request.param, "group.initial.rebalance.delay.ms": 0}
    with sound_broker(settings) as broker:
        yield broker


@pytest.fixture
def broker(movable: Broker) -> Iterator[Broker]:
    mark = movable.mark()
    yield movable
    movable.reset(mark)


def now() -> datetime:
    return datetime.now(UTC)


def client(broker: Broker, **more: Any) -> dict[str, Any]:
    names = {name.replace("_", "."): value for name, value in more.items()}
    return broker.client_config("confluent", **names)


async def test_after_a_year_what_was_due_has_happened_and_the_clients_are_still_connected(broker: Broker) -> None:
    topic = broker.topic("events", partitions=1, configs={"retention.ms": 30 * 86_400_000})
    # Compacted once the year has made it due, though the segment is not full.
    compact = broker.topic("states", configs={"cleanup.policy": "compact", "max.compaction.lag.ms": 86_400_000})
    for number in range(5):
        topic.produce(f"old {number}")
        compact.produce(f"state {number}", key="k")
    config = broker.client_config("aiokafka")
    consumer = AIOKafkaConsumer("events", group_id="readers", auto_offset_reset="earliest", **config)
    producer = AIOKafkaProducer(transactional_id="tx", transaction_timeout_ms=60_000, **config)
    async with consumer, producer:
        for _ in range(5):
            await consumer.getone()
        await consumer.commit()
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"never committed")
        connections = broker.journal(limit=1).mark

        before = broker.clock.now()
        after = await broker.clock.advance_async(YEAR)
        assert YEAR <= after - before < YEAR + NEAR

        assert topic.records(committed=False) == []
        assert topic.start_offsets() == topic.end_offsets() == {0: 7}
        assert broker.transaction("tx").state in ("Dead", "Empty", "CompleteAbort")
        assert broker.group("readers").state in ("Dead", "PreparingRebalance", "CompletingRebalance", "Stable", "Empty")
        closed = [one for one in broker.journal(since=connections) if one.kind == "connection closed"]
        assert closed == [], "no connection was idle for a year"

        topic.produce("new")
        assert (await consumer.getone()).value == b"new", "the consumer joins its group again, and goes on"
        with pytest.raises(KafkaError):
            await producer.commit_transaction()


def test_sessions_and_transactions_end_when_their_time_has_come_and_not_before(broker: Broker) -> None:
    broker.topic("t", partitions=1).produce("v")
    consumer = Consumer(client(broker, group_id="g", auto_offset_reset="earliest", session_timeout_ms=45_000))
    consumer.subscribe(["t"])
    assert consumer.poll(10).value() == b"v"
    producer = Producer(client(broker, transactional_id="tx", transaction_timeout_ms=60_000))
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(10)

    broker.clock.freeze()
    broker.clock.advance(seconds=44)
    assert (broker.group("g").state, broker.transaction("tx").state) == ("Stable", "Ongoing")
    broker.clock.advance(minutes=10)
    assert broker.transaction("tx").state == "CompleteAbort"
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    broker.clock.resume()
    consumer.close()


def test_a_group_is_founded_and_serves_while_time_stands_still(broker: Broker) -> None:
    broker.topic("t", partitions=1).produce("v")
    with broker.clock.freeze() as clock:
        stands = clock.now()
        assert clock.frozen
        for protocol in ("classic", "consumer"):
            consumer = Consumer(client(broker, group_id=protocol, group_protocol=protocol, **FIRST))
            consumer.subscribe(["t"])
            assert consumer.poll(10).value() == b"v"
            assert consumer.poll(0.1) is None
            consumer.close()
        producer = Producer(client(broker, transactional_id="tx"))
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce("t", b"w")
        producer.commit_transaction(10)
        assert clock.now() == stands
    assert not broker.clock.frozen


async def test_records_have_the_brokers_time(broker: Broker) -> None:
    topic = broker.topic("t", partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    broker.clock.set(datetime(2040, 2, 29, 12, tzinfo=UTC))
    assert timedelta() <= broker.clock.now() - datetime(2040, 2, 29, 12, tzinfo=UTC) < NEAR
    async with AIOKafkaProducer(**broker.client_config("aiokafka")) as producer:
        sent = await producer.send_and_wait("t", b"v")
    assert datetime.fromtimestamp(sent.timestamp / 1000, UTC).year == 2040
    broker.clock.set(now().timestamp() - 3600)
    assert abs(now() - timedelta(hours=1) - broker.clock.now()) < NEAR
    broker.clock.reset()
    assert abs(now() - broker.clock.now()) < NEAR
    assert len(topic.records()) == 1


async def test_offsets_of_a_group_without_members_expire(broker: Broker) -> None:
    broker.topic("t", partitions=1).produce("v")
    config = broker.client_config("aiokafka")
    async with AIOKafkaConsumer("t", group_id="g", auto_offset_reset="earliest", **config) as consumer:
        await consumer.getone()
        await consumer.commit()
    broker.clock.advance(days=6)
    async with AIOKafkaConsumer(group_id="g", **config) as consumer:
        assert await consumer.committed(TopicPartition("t", 0)) == 1
    broker.clock.advance(days=7, hours=1)
    async with AIOKafkaConsumer(group_id="g", **config) as consumer:
        assert await consumer.committed(TopicPartition("t", 0)) is None
    assert not AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_consumer_groups().result(10).valid


def ask(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    """As curl does."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.control.url}/control{path}", data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_same_over_http(broker: Broker) -> None:
    status, state = ask(broker, "POST", "/clock/advance", {"hours": 1, "minutes": 30})
    assert (status, state["frozen"]) == (200, False)
    assert abs(state["ahead"] - 5400) < 30
    assert datetime.fromisoformat(state["time"]).timestamp() == pytest.approx(state["now"], abs=0.001)
    assert ask(broker, "POST", "/clock/freeze")[1]["frozen"]
    frozen = ask(broker, "POST", "/clock/set", {"time": "2040-01-01T00:00:00"})[1]
    assert frozen["time"] == "2040-01-01T00:00:00.000+00:00"
    assert ask(broker, "GET", "/clock")[1]["now"] == frozen["now"] == 2208988800
    assert not ask(broker, "POST", "/clock/resume")[1]["frozen"]
    assert ask(broker, "POST", "/clock/set", {"epoch": 2208988800})[1]["now"] == pytest.approx(2208988800, abs=30)
    assert abs(ask(broker, "POST", "/clock/reset")[1]["ahead"]) < 1


@pytest.mark.parametrize(
    ("path", "body", "parameter", "told"),
    [
        ("advance", {}, "seconds", "expected seconds, minutes, hours or days"),
        ("advance", {"minutes": -1}, "minutes", "expected at least 0"),
        ("advance", {"weeks": 1}, "weeks", "weeks is no parameter"),
        ("advance", {"days": "1"}, "days", "expected a number"),
        ("advance", {"days": 4_000_000}, "days", "before the year 10000"),
        ("set", {}, "time", "expected either time or epoch"),
        ("set", {"time": "2040-01-01", "epoch": 1}, "time", "expected either time or epoch"),
        ("set", {"time": "yesterday"}, "time", "expected a time in ISO 8601"),
        ("set", {"epoch": -1}, "epoch", "expected at least 0"),
        ("set", {"epoch": 1e12}, "epoch", "expected a time from 1970 to 9999"),
        ("set", {"time": "1960-01-01"}, "time", "expected a time from 1970 to 9999"),
    ],
)
def test_wrong_times_over_http(broker: Broker, path: str, body: dict[str, Any], parameter: str, told: str) -> None:
    status, answer = ask(broker, "POST", f"/clock/{path}", body)
    assert (status, answer["parameter"]) == (400, parameter)
    assert told in answer["error"]


def test_wrong_times_in_python(broker: Broker) -> None:
    clock = broker.clock
    with pytest.raises(ValueError, match="minutes = -1: expected a number that is not negative"):
        clock.advance(minutes=-1)
    with pytest.raises(TypeError, match="hours = '1': expected a number"):
        clock.advance(hours="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="delta = 15: expected a timedelta"):
        clock.advance(15)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected one that is not negative"):
        clock.advance(timedelta(minutes=-1))
    with pytest.raises(ValueError, match="expected a timedelta, or seconds="):
        clock.advance()
    with pytest.raises(TypeError, match="time = '2040': expected a datetime, or seconds since 1970"):
        clock.set("2040")  # type: ignore[arg-type]
    with pytest.raises(ControlError, match="before the year 10000") as caught:
        clock.advance(days=4_000_000)
    assert caught.value.parameter == "days"

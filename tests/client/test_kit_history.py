"""Histories of stock clients under faults: what a client without the needed handling does is named, over HTTP too."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from odradek import Broker, ControlError, HistoryError
from tests.brokers import sound_broker

QUICK: dict[str, Any] = {
    "linger.ms": 0,
    "retry.backoff.ms": 50,
    "reconnect.backoff.max.ms": 100,
    "socket.timeout.ms": 1_000,
    "log_level": 0,
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with sound_broker() as broker:
        yield broker


def producer(broker: Broker, **config: Any) -> Producer:
    options = {name.replace("_", "."): value for name, value in config.items()}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, **QUICK, **options})


def write(producer: Producer, *values: str, topic: str = "t") -> None:
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0


def read(broker: Broker, count: int, isolation: str = "read_committed") -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.subscribe(["t"])
    found: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


def test_nothing_is_wrong_with_idempotent_producers_transactions_kills_and_lost_replies(broker: Broker) -> None:
    broker.topic("t", partitions=2).produce("before")
    with broker.history() as history:
        idempotent = producer(broker, enable_idempotence=True)
        write(idempotent, *map(str, range(50)))
        with broker.fault(api="Produce", drop="reply", count=1):
            write(idempotent, *map(str, range(50, 100)))
        broker.kill()
        broker.start()
        write(idempotent, *map(str, range(100, 150)))
        transactional = producer(broker, transactional_id="tx")
        transactional.init_transactions()
        for ends in (transactional.commit_transaction, transactional.abort_transaction):
            transactional.begin_transaction()
            write(transactional, "in a transaction")
            ends()
        assert len(read(broker, 152)) == 152
        history.check()
        kinds = {event["type"] for event in history.events()}
        assert kinds == {"began", "sent", "acked", "read", "log"}, kinds
    history.check()
    assert history.problems() == []


def test_a_retry_without_idempotence_after_a_lost_reply_is_doubled(broker: Broker) -> None:
    topic = broker.topic("t")
    with broker.history() as history:
        careless = producer(broker, enable_idempotence=False)
        write(careless, "a")
        with broker.fault(api="Produce", drop="reply", count=1):
            write(careless, "b")
        write(careless, "c", "c")  # meant twice
        with pytest.raises(
            HistoryError, match=r"^doubled: b is in t-0 2 times, and was sent 1 times: at 1, 2$"
        ) as caught:
            history.check()
    assert [record.text for record in topic.records()] == ["a", "b", "b", "c", "c"]
    assert [problem.kind for problem in caught.value.problems] == ["doubled"]


def test_what_a_power_failure_took_after_the_acknowledgement_is_lost(broker: Broker) -> None:
    broker.topic("t", configs={"flush.messages": 1}).produce("synced")
    broker.topic("u").produce("not synced")
    with broker.history() as history:
        one = producer(broker)
        write(one, "safe")
        write(one, "gone", topic="u")
        broker.crash()
        broker.restart()
        with pytest.raises(
            HistoryError, match=r"^lost: gone, acknowledged at offset 1 of u-0, is gone: the log ends at"
        ):
            history.check()


def test_a_restored_snapshot_loses_nothing(broker: Broker) -> None:
    broker.topic("t")
    snapshot = broker.snapshot()
    with broker.history() as history:
        write(producer(broker), "a", "b")
        broker.restore(snapshot)
        history.check()
        write(producer(broker), "c")
        history.check()
        assert [event["type"] for event in history.events()].count("restored") == 1


def test_several_in_flight_without_idempotence_are_reordered(broker: Broker) -> None:
    topic = broker.topic("t")
    with broker.history() as history:
        careless = producer(broker, enable_idempotence=False, batch_num_messages=1, max_in_flight=5)
        write(careless, "first")
        with broker.fault(api="Produce", error="NOT_ENOUGH_REPLICAS", count=1):
            write(careless, "second", "third")
        assert [record.text for record in topic.records()] == ["first", "third", "second"]
        with pytest.raises(HistoryError, match=r"^reordered: third was sent after second, and is before it in t-0"):
            history.check()


def test_the_same_over_http_and_what_is_unknown_is_refused(broker: Broker) -> None:
    broker.topic("t")
    url = f"{broker.control.url}/control/histories"

    def ask(method: str, path: str = "") -> Any:
        with urllib.request.urlopen(urllib.request.Request(f"{url}{path}", method=method)) as response:
            return json.load(response)

    name = ask("POST")["history"]
    careless = producer(broker, enable_idempotence=False)
    with broker.fault(api="Produce", drop="reply", count=1):
        write(careless, "b")
    assert [one["type"] for one in ask("GET", f"/{name}")["events"]] == ["began", "sent", "sent", "acked", "log"]
    (problem,) = ask("GET", f"/{name}/problems")["problems"]
    assert (problem["kind"], problem["topic"], problem["partition"], problem["offset"]) == ("doubled", "t", 0, 1)
    ask("DELETE", f"/{name}")
    assert not (broker.data_dir / ".odradek-histories").exists()
    for method, path in (("get", f"/histories/{name}"), ("delete", f"/histories/{name}")):
        with pytest.raises(ControlError, match="there is no history") as caught:
            getattr(broker.control, method)(path)
        assert (caught.value.parameter, caught.value.status) == ("history", 404)


async def test_aiokafka_with_a_topic_that_is_deleted_and_made_again(broker: Broker) -> None:
    broker.topic("t")
    with broker.history() as history:
        for values in ((b"a", b"b", b"c"), (b"d",)):
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as aio:
                for value in values:
                    await aio.send_and_wait("t", value)
            async with AIOKafkaConsumer(
                "t", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
            ) as consumer:
                assert [(await consumer.getone()).value for _ in values] == list(values)
            history.check()
            if values[-1] == b"c":
                broker.topic("t").delete()
                broker.topic("t")
        assert [one["topic"] for one in history.events() if one["type"] == "deleted"] == ["t"]


def test_an_error_after_the_append_makes_a_producer_without_idempotence_write_twice(broker: Broker) -> None:
    topic = broker.topic("t")
    with broker.history() as history:
        with broker.fault(api="Produce", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", phase="after_append", count=1):
            write(producer(broker, enable_idempotence=False), "twice")
        assert [record.text for record in topic.records()] == ["twice", "twice"]
        with pytest.raises(HistoryError, match=r"^doubled: twice is in t-0 2 times, and was sent 1 times: at 0, 1$"):
            history.check()


def test_it_can_be_checked_after_a_broker_that_was_down_at_the_end_is_up_again(broker: Broker) -> None:
    broker.topic("t")
    with broker.history() as history:
        write(producer(broker), "a")
        broker.kill()
    broker.start()
    history.check()
    history.close()
    assert [event["type"] for event in history.events()] == ["began", "sent", "acked", "log"]


def test_a_reset_ends_histories(broker: Broker) -> None:
    history = broker.history()
    broker.reset()
    with pytest.raises(ControlError, match="there is no history"):
        history.check()
    assert not (broker.data_dir / ".odradek-histories").exists()

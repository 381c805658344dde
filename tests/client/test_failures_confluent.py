"""Failures as users test for them, with confluent-kafka: each with a client that does not cope, and one that does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from odradek import Broker
from odradek.topic import Topic
from tests.client.service_confluent import BOTH, SYNCED, Ours, consuming, next_of, producer_of, values
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def broker(own_cluster: None) -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(autouse=True)
def cleared(broker: Broker) -> Iterator[None]:
    yield
    broker.clear_faults()


@pytest.fixture
def orders(broker: Broker) -> Topic:
    return broker.topic(f"orders-{uuid.uuid4().hex[:8]}", partitions=1)


@pytest.mark.parametrize(("idempotent", "copies"), [(False, 2), (True, 1)], ids=BOTH)
def test_the_reply_to_a_produce_request_is_lost(broker: Broker, orders: Topic, idempotent: bool, copies: int) -> None:
    with broker.fault(api="Produce", topic=str(orders), drop="reply", count=1) as fault:
        producer = producer_of(broker, enable_idempotence=idempotent, socket_timeout_ms=500)
        producer.produce(str(orders), b"order 1")
        assert producer.flush(20) == 0
        assert fault.hits == 1
    assert values(orders) == [b"order 1"] * copies


def send_and_hope(broker: Broker, topic: str, wanted: list[bytes]) -> list[bytes]:
    producer = producer_of(broker)
    for value in wanted:
        producer.produce(topic, value)
    producer.flush(20)
    return wanted


def send_and_look(broker: Broker, topic: str, wanted: list[bytes]) -> list[bytes]:
    stored: list[bytes] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:  # a real service keeps the others for later
            stored.append(message.value() or b"")

    producer = producer_of(broker)
    for value in wanted:
        producer.produce(topic, value, on_delivery=delivered)
        producer.flush(20)
    return stored


@pytest.mark.parametrize(("send", "is_true"), [(send_and_hope, False), (send_and_look, True)], ids=BOTH)
def test_the_broker_refuses_records(broker: Broker, orders: Topic, send: Any, is_true: bool) -> None:
    broker.fault(api="Produce", topic=str(orders), error="POLICY_VIOLATION", count=1)
    assert (send(broker, str(orders), [b"order 1", b"order 2"]) == values(orders)) == is_true


def commit_or_stop(consumer: Consumer, message: Message) -> None:
    consumer.commit(message=message, asynchronous=False)


def commit_or_go_on(consumer: Consumer, message: Message) -> None:
    try:
        consumer.commit(message=message, asynchronous=False)
    except KafkaException:
        return  # the next commit has this one's offset too; if others have the partition, they read it again


@pytest.mark.parametrize(("commit", "copes"), [(commit_or_stop, False), (commit_or_go_on, True)], ids=BOTH)
def test_a_rebalance_begins_in_the_middle_of_a_commit(broker: Broker, orders: Topic, commit: Any, copes: bool) -> None:
    orders.produce_many([{"value": f"order {number}"} for number in range(3)])
    handled: dict[int | None, bytes | None] = {}

    def work(consumer: Consumer) -> None:
        while len(handled) < 3:
            message = next_of(consumer)
            handled[message.offset()] = message.value()
            commit(consumer, message)

    with (
        broker.fault(api="OffsetCommit", group=f"g-{orders}", error="REBALANCE_IN_PROGRESS", skip=1, count=1),
        consuming(broker, orders) as consumer,
    ):
        if copes:
            work(consumer)
        else:
            with pytest.raises(KafkaException, match="REBALANCE_IN_PROGRESS"):
                work(consumer)
    assert len(handled) == (3 if copes else 2)


def test_a_zombie_producer_wakes_up_without_transactions(broker: Broker, orders: Topic) -> None:
    zombie = producer_of(broker, client_id="zombie", enable_idempotence=True)
    zombie.list_topics(str(orders), timeout=20)
    with broker.stall(client_id="zombie"):
        zombie.produce(str(orders), b"by the zombie")
        successor = producer_of(broker, client_id="successor", enable_idempotence=True)
        successor.produce(str(orders), b"by the successor")
        assert successor.flush(20) == 0
    assert zombie.flush(20) == 0
    assert values(orders) == [b"by the successor", b"by the zombie"]


def test_a_zombie_producer_wakes_up_and_is_fenced(broker: Broker, orders: Topic) -> None:
    name = f"tx-{orders}"
    zombie = producer_of(broker, client_id="zombie", transactional_id=name)
    zombie.init_transactions(20)
    zombie.begin_transaction()
    with broker.stall(client_id="zombie"):
        zombie.produce(str(orders), b"by the zombie")
        successor = producer_of(broker, client_id="successor", transactional_id=name)
        successor.init_transactions(20)
        successor.begin_transaction()
        successor.produce(str(orders), b"by the successor")
        successor.commit_transaction(20)
    with pytest.raises(KafkaException, match="FENCED"):
        zombie.commit_transaction(20)
    assert values(orders, committed=True) == [b"by the successor"]


@pytest.mark.parametrize(("configs", "left"), [({}, []), (SYNCED, [b"order 1"])], ids=BOTH)
def test_the_power_fails_before_the_sync(configs: Any, left: list[bytes], own_cluster: None) -> None:
    with Broker() as broker:
        orders = broker.topic("orders", partitions=1, configs=configs)
        crash = broker.crash(at="before_fsync", topic="orders")
        producer = producer_of(broker, enable_idempotence=True)
        producer.produce("orders", b"order 1")
        crash.wait(timeout=20)
        broker.restart()
        assert producer.flush(20) == 0  # either way the client is told that the order is stored
        assert values(orders) == left


def start_or_stop(producer: Producer) -> None:
    producer.init_transactions(0.2)


def start_when_it_can(producer: Producer) -> None:
    while True:
        try:
            return producer.init_transactions(0.2)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.parametrize(("start", "copes"), [(start_or_stop, False), (start_when_it_can, True)], ids=BOTH)
def test_the_coordinator_moves_while_a_service_starts(
    broker: Broker, orders: Topic, start: Callable[[Producer], None], copes: bool
) -> None:
    name = f"tx-{orders}"
    with broker.fault(
        api="FindCoordinator", transactional_id=name, error="COORDINATOR_NOT_AVAILABLE", count=2
    ) as fault:
        producer = producer_of(broker, transactional_id=name)
        if copes:
            start(producer)
            assert fault.hits == 2
        else:
            with pytest.raises(KafkaException, match="TIMED_OUT"):
                start(producer)


def read_or_stop(_broker: Broker, message: Message, _dead: Topic) -> Any:
    return json.loads(message.value() or b"")


def read_or_put_aside(broker: Broker, message: Message, dead: Topic) -> Any:
    try:
        return json.loads(message.value() or b"")
    except ValueError:
        producer = producer_of(broker)
        producer.produce(str(dead), message.value(), headers={"offset": str(message.offset())})
        assert producer.flush(20) == 0
        return None


@pytest.mark.parametrize(("read", "copes"), [(read_or_stop, False), (read_or_put_aside, True)], ids=BOTH)
def test_a_poisoned_record(broker: Broker, orders: Topic, read: Any, copes: bool) -> None:
    orders.produce_many([{"value": {"id": 1}}, {"value": b"\xff"}, {"value": {"id": 3}}])
    dead = broker.topic(f"{orders}-dead", partitions=1)
    handled: list[Any] = []

    def work() -> None:
        with consuming(broker, orders) as consumer:
            while len(handled) < 2:
                message = next_of(consumer)
                found = read(broker, message, dead)
                handled.extend([found] if found is not None else [])
                consumer.commit(message=message, asynchronous=False)

    if copes:
        work()
        assert handled == [{"id": 1}, {"id": 3}]
        assert [record.headers for record in dead.records()] == [{"offset": b"1"}]
        return
    for _ in range(2):  # a restart does not help: it comes to the same record
        with pytest.raises(ValueError, match="utf-8"):
            work()
    assert handled == [{"id": 1}]


def healthy_if_it_has_partitions(consumer: Consumer) -> bool:
    return bool(consumer.assignment())


def healthy_if_the_broker_answers(consumer: Consumer) -> bool:
    try:
        consumer.list_topics(timeout=0.5)
    except KafkaException:
        return False
    return True


@pytest.mark.parametrize(
    ("check", "notices"), [(healthy_if_it_has_partitions, False), (healthy_if_the_broker_answers, True)], ids=BOTH
)
def test_the_network_falls_silent(broker: Broker, orders: Topic, check: Any, notices: bool) -> None:
    orders.produce("order 1")
    with consuming(broker, orders, client_id=f"c-{orders}") as consumer:
        next_of(consumer)
        assert check(consumer)
        with broker.stall(client_id=f"c-{orders}"):
            assert check(consumer) == (not notices)


def send_again_if_the_end_is_unknown(producer: Producer, again: Callable[[], Producer], topic: str) -> None:
    try:
        producer.commit_transaction(0.3)
    except KafkaException:
        another = again()
        another.produce(topic, b"order 1")
        another.commit_transaction(20)


def commit_until_the_end_is_known(producer: Producer, _again: Callable[[], Producer], _topic: str) -> None:
    while True:
        try:
            producer.commit_transaction(0.3)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.parametrize(
    ("commit", "copies"), [(send_again_if_the_end_is_unknown, 2), (commit_until_the_end_is_known, 1)], ids=BOTH
)
def test_the_reply_to_a_commit_of_a_transaction_is_lost(
    broker: Broker, orders: Topic, commit: Any, copies: int
) -> None:
    def begun() -> Producer:
        producer = producer_of(
            broker, transactional_id=f"tx-{orders}", transaction_timeout_ms=5000, socket_timeout_ms=1000
        )
        producer.init_transactions(20)
        producer.begin_transaction()
        return producer

    with broker.fault(api="EndTxn", transactional_id=f"tx-{orders}", drop="reply", count=1) as fault:
        producer = begun()
        producer.produce(str(orders), b"order 1")
        commit(producer, begun, str(orders))
        assert fault.hits == 1
    assert values(orders, committed=True) == [b"order 1"] * copies


@pytest.mark.parametrize("remembers", [False, True], ids=BOTH)
def test_the_power_fails_and_commits_are_lost(remembers: bool, own_cluster: None) -> None:
    charged: list[str] = []
    seen: set[str] = set()

    def work(broker: Broker, orders: Topic, count: int) -> None:
        with consuming(broker, orders) as consumer:
            for _ in range(count):
                message = next_of(consumer)
                order = (message.value() or b"").decode()
                if not (remembers and order in seen):  # a real service has this in its database
                    charged.append(order)
                seen.add(order)
                consumer.commit(message=message, asynchronous=False)
            (place,) = consumer.committed([TopicPartition(str(orders), 0)], timeout=20)
            assert place.offset == count

    with Broker() as broker:
        orders = broker.topic("orders", partitions=1, configs=SYNCED)
        orders.produce_many([{"value": "order 1"}, {"value": "order 2"}])
        work(broker, orders, 2)
        broker.crash()
        broker.restart()
        work(broker, orders, 2)
    assert charged == ["order 1", "order 2"] * (1 if remembers else 2)


@pytest.mark.parametrize(
    ("isolation", "handled"),
    [("read_uncommitted", [b"order 1", b"order 2"]), ("read_committed", [b"order 2"])],
    ids=BOTH,
)
def test_a_service_dies_in_the_middle_of_a_transaction(
    broker: Broker, orders: Topic, isolation: str, handled: list[bytes]
) -> None:
    producer = producer_of(broker, transactional_id=f"tx-{orders}")
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(str(orders), b"order 1")
    assert producer.flush(20) == 0
    broker.transaction(f"tx-{orders}").abort()  # as the broker itself does after the transaction's timeout
    orders.produce("order 2")
    found: list[bytes | None] = []
    with consuming(broker, orders, isolation_level=isolation) as consumer:
        while b"order 2" not in found:
            found.append(next_of(consumer).value())
    assert found == handled


Charge = Callable[[Message], None]


def charge_all(consumer: Consumer, batch: list[Message], charge: Charge, _ours: Ours) -> None:
    for message in batch:
        charge(message)
    with suppress(KafkaException):
        consumer.commit(asynchronous=False)


def charge_what_is_ours(_consumer: Consumer, batch: list[Message], charge: Charge, ours: Ours) -> None:
    ours.lost = False
    for message in batch:
        if ours.lost:
            return  # somebody else may have this partition now
        charge(message)


@pytest.mark.parametrize(("work", "again"), [(charge_all, 3), (charge_what_is_ours, 2)], ids=BOTH)
def test_a_member_is_too_slow_and_expires(broker: Broker, orders: Topic, work: Any, again: int) -> None:
    orders.produce_many([f"order {number}" for number in range(3)])
    charged: list[bytes | None] = []
    ours = Ours()

    with consuming(broker, orders, ours.on_lost, heartbeat_interval_ms=100) as consumer:

        def is_lost() -> bool:
            consumer.poll(0)  # it has all messages already: this has news of the group
            return ours.lost

        def charge(message: Message) -> None:
            charged.append(message.value())
            if work is charge_what_is_ours:
                consumer.commit(message=message, asynchronous=False)
            if len(charged) == 1:
                broker.group(f"g-{orders}").expire()
                wait_until(is_lost, "the consumer does not notice that it has expired")

        for count in (3, again):
            work(consumer, [next_of(consumer) for _ in range(count)], charge, ours)
    assert charged == [b"order 0", b"order 1", b"order 2"] * (2 if again == 3 else 1)


def send_again_if_it_takes_long(producer: Producer, topic: str, value: bytes) -> None:
    for _ in range(2):
        producer.produce(topic, value)
        if producer.flush(0.5) == 0:
            return


def wait_however_long_it_takes(producer: Producer, topic: str, value: bytes) -> None:
    producer.produce(topic, value)
    producer.flush()


@pytest.mark.parametrize(
    ("send", "is_doubled"), [(send_again_if_it_takes_long, True), (wait_however_long_it_takes, False)], ids=BOTH
)
def test_the_network_is_slow(broker: Broker, orders: Topic, send: Any, is_doubled: bool) -> None:
    order = b"x" * 4000
    producer = producer_of(broker, client_id=f"c-{orders}", enable_idempotence=True)
    producer.list_topics(str(orders), timeout=20)
    with broker.throttle(client_id=f"c-{orders}", bytes_per_second=4000, direction="requests"):
        send(producer, str(orders), order)
    assert producer.flush(20) == 0
    assert values(orders) == [order] * (2 if is_doubled else 1)

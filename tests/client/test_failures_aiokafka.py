"""Failures as users test for them, with aiokafka: each with a client that does not cope, and one that does."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import CommitFailedError, KafkaError, OffsetOutOfRangeError, ProducerFenced

from odradek import Broker
from odradek.topic import Topic
from tests.client.service_aiokafka import BOTH, SYNCED, consuming, next_of, producing, values


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
async def test_the_reply_to_a_produce_request_is_lost(
    broker: Broker, orders: Topic, idempotent: bool, copies: int
) -> None:
    with broker.fault(api="Produce", topic=str(orders), disconnect=True, phase="before_reply", count=1) as fault:
        async with producing(broker, enable_idempotence=idempotent) as producer:
            await producer.send_and_wait(str(orders), b"order 1")
        assert fault.hits == 1
    assert values(orders) == [b"order 1"] * copies


async def send_and_hope(producer: AIOKafkaProducer, topic: str, wanted: list[bytes]) -> list[bytes]:
    for value in wanted:
        await producer.send(topic, value)  # the result is in the future that this returns
    await producer.flush()
    return wanted


async def send_and_look(producer: AIOKafkaProducer, topic: str, wanted: list[bytes]) -> list[bytes]:
    stored = []
    for value in wanted:
        try:
            await producer.send_and_wait(topic, value)
        except KafkaError:
            continue  # a real service keeps it for later
        stored.append(value)
    return stored


@pytest.mark.parametrize(("send", "is_true"), [(send_and_hope, False), (send_and_look, True)], ids=BOTH)
async def test_the_broker_refuses_records(broker: Broker, orders: Topic, send: Any, is_true: bool) -> None:
    broker.fault(api="Produce", topic=str(orders), error="POLICY_VIOLATION", count=1)
    async with producing(broker) as producer:
        believed = await send(producer, str(orders), [b"order 1", b"order 2"])
    assert (believed == values(orders)) == is_true


async def stop_at_any_error(consumer: AIOKafkaConsumer, handled: dict[int, bytes], count: int) -> None:
    while len(handled) < count:
        record = await next_of(consumer)
        handled[record.offset] = record.value
        await consumer.commit()


async def go_on_after_a_rebalance(consumer: AIOKafkaConsumer, handled: dict[int, bytes], count: int) -> None:
    while len(handled) < count:
        record = await next_of(consumer)
        handled[record.offset] = record.value
        try:
            await consumer.commit()
        except CommitFailedError:
            continue  # whoever has the partition now reads on from the last commit


@pytest.mark.parametrize(("work", "copes"), [(stop_at_any_error, False), (go_on_after_a_rebalance, True)], ids=BOTH)
async def test_a_rebalance_begins_in_the_middle_of_a_commit(
    broker: Broker, orders: Topic, work: Any, copes: bool
) -> None:
    orders.produce_many([{"value": f"order {number}"} for number in range(3)])
    handled: dict[int, bytes] = {}
    with broker.fault(api="OffsetCommit", group=f"g-{orders}", error="REBALANCE_IN_PROGRESS", skip=1, count=1):
        async with consuming(broker, orders, max_poll_records=1) as consumer:
            if copes:
                await work(consumer, handled, 3)
            else:
                with pytest.raises(CommitFailedError):
                    await work(consumer, handled, 3)
    assert len(handled) == (3 if copes else 2)


async def test_a_zombie_producer_wakes_up_without_transactions(broker: Broker, orders: Topic) -> None:
    async with producing(broker, client_id="zombie", enable_idempotence=True) as zombie:
        await zombie.partitions_for(str(orders))
        with broker.stall(client_id="zombie"):
            late = await zombie.send(str(orders), b"by the zombie")
            async with producing(broker, client_id="successor", enable_idempotence=True) as successor:
                await successor.send_and_wait(str(orders), b"by the successor")
        await late
    assert values(orders) == [b"by the successor", b"by the zombie"]


async def test_a_zombie_producer_wakes_up_and_is_fenced(broker: Broker, orders: Topic) -> None:
    name = f"tx-{orders}"
    async with producing(broker, client_id="zombie", transactional_id=name) as zombie:
        await zombie.partitions_for(str(orders))
        await zombie.begin_transaction()
        with broker.stall(client_id="zombie"):
            late = await zombie.send(str(orders), b"by the zombie")
            settings = {"client_id": "successor", "transactional_id": name}
            async with producing(broker, **settings) as successor, successor.transaction():
                await successor.send_and_wait(str(orders), b"by the successor")
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
        assert isinstance(late.exception(), KafkaError)
    assert values(orders, committed=True) == [b"by the successor"]


@pytest.mark.parametrize(("configs", "left"), [({}, []), (SYNCED, [b"order 1"])], ids=BOTH)
async def test_the_power_fails_before_the_sync(configs: Any, left: list[bytes], own_cluster: None) -> None:
    with Broker() as broker:
        orders = broker.topic("orders", partitions=1, configs=configs)
        async with producing(broker, enable_idempotence=True) as producer:
            crash = broker.crash(at="before_fsync", topic="orders")
            sending = asyncio.ensure_future(producer.send_and_wait("orders", b"order 1"))
            await crash.wait_async(timeout=20)
            await asyncio.to_thread(broker.restart)
            await asyncio.wait_for(sending, 20)  # either way the client is told that the order is stored
        assert values(orders) == left


async def first_after_out_of_range(broker: Broker, orders: Topic, reset: str) -> Any:
    """The first record that a consumer gets from offset 0, if the broker says that there is no such offset."""
    partition = TopicPartition(str(orders), 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset=reset)
    async with consumer:
        with broker.fault(api="Fetch", topic=str(orders), error="OFFSET_OUT_OF_RANGE", count=1) as fault:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            getting = asyncio.ensure_future(next_of(consumer))
            await fault.wait_async(timeout=10)
            await asyncio.wait((getting,), timeout=0.5)
            orders.produce("order 2")
            try:
                return (await getting).value
            except OffsetOutOfRangeError:
                consumer.seek(partition, 0)  # a real service looks at what it has handled, or calls somebody
                return (await next_of(consumer)).value


@pytest.mark.parametrize(("reset", "first"), [("latest", b"order 2"), ("none", b"order 1")], ids=BOTH)
async def test_the_offset_is_said_to_be_out_of_range(broker: Broker, orders: Topic, reset: str, first: bytes) -> None:
    orders.produce("order 1")
    assert await first_after_out_of_range(broker, orders, reset) == first


async def read_or_stop(_broker: Broker, record: ConsumerRecord, _dead: Topic) -> Any:
    return json.loads(record.value)


async def read_or_put_aside(broker: Broker, record: ConsumerRecord, dead: Topic) -> Any:
    try:
        return json.loads(record.value)
    except ValueError:
        async with producing(broker) as producer:
            await producer.send_and_wait(str(dead), record.value, headers=[("offset", str(record.offset).encode())])
        return None


@pytest.mark.parametrize(("read", "copes"), [(read_or_stop, False), (read_or_put_aside, True)], ids=BOTH)
async def test_a_poisoned_record(broker: Broker, orders: Topic, read: Any, copes: bool) -> None:
    orders.produce_many([{"value": {"id": 1}}, {"value": b"\xff"}, {"value": {"id": 3}}])
    dead = broker.topic(f"{orders}-dead", partitions=1)
    handled: list[Any] = []

    async def work() -> None:
        async with consuming(broker, orders, max_poll_records=1) as consumer:
            while len(handled) < 2:
                record = await next_of(consumer)
                found = await read(broker, record, dead)
                handled.extend([found] if found is not None else [])
                await consumer.commit()

    if copes:
        await work()
        assert handled == [{"id": 1}, {"id": 3}]
        assert [record.headers for record in dead.records()] == [{"offset": b"1"}]
        return
    for _ in range(2):  # a restart does not help: it comes to the same record
        with pytest.raises(ValueError, match="utf-8"):
            await work()
    assert handled == [{"id": 1}]


async def healthy_if_it_has_partitions(consumer: AIOKafkaConsumer) -> bool:
    return bool(consumer.assignment())


async def healthy_if_the_broker_answers(consumer: AIOKafkaConsumer) -> bool:
    try:
        await asyncio.wait_for(consumer.end_offsets(consumer.assignment()), 0.5)
    except (TimeoutError, KafkaError):
        return False
    return True


@pytest.mark.parametrize(
    ("check", "notices"), [(healthy_if_it_has_partitions, False), (healthy_if_the_broker_answers, True)], ids=BOTH
)
async def test_the_network_falls_silent(broker: Broker, orders: Topic, check: Any, notices: bool) -> None:
    async with consuming(broker, orders, client_id=f"c-{orders}") as consumer:
        await consumer.position(TopicPartition(str(orders), 0))
        assert await check(consumer)
        with broker.stall(client_id=f"c-{orders}"):
            assert await check(consumer) == (not notices)


async def send_again_if_the_end_is_unknown(broker: Broker, topic: Topic) -> None:
    settings = {"transactional_id": f"tx-{topic}", "request_timeout_ms": 1000}
    async with producing(broker, **settings) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(str(topic), b"order 1")
        committing = asyncio.ensure_future(producer.commit_transaction())
        done, _ = await asyncio.wait((committing,), timeout=0.3)
        if not done:
            async with producing(broker, **settings) as another, another.transaction():
                await another.send_and_wait(str(topic), b"order 1")
        await asyncio.wait((committing,), timeout=20)


async def wait_for_the_end(broker: Broker, topic: Topic) -> None:
    settings = {"transactional_id": f"tx-{topic}", "request_timeout_ms": 1000}
    async with producing(broker, **settings) as producer, producer.transaction():
        await producer.send_and_wait(str(topic), b"order 1")


@pytest.mark.parametrize(("send", "copies"), [(send_again_if_the_end_is_unknown, 2), (wait_for_the_end, 1)], ids=BOTH)
async def test_the_reply_to_a_commit_of_a_transaction_is_lost(
    broker: Broker, orders: Topic, send: Any, copies: int
) -> None:
    with broker.fault(api="EndTxn", transactional_id=f"tx-{orders}", drop="reply", count=1) as fault:
        await asyncio.wait_for(send(broker, orders), 30)
        assert fault.hits == 1
    assert values(orders, committed=True) == [b"order 1"] * copies


@pytest.mark.parametrize("remembers", [False, True], ids=BOTH)
async def test_the_power_fails_and_commits_are_lost(remembers: bool, own_cluster: None) -> None:
    charged: list[str] = []
    seen: set[str] = set()

    async def work(broker: Broker, orders: Topic, count: int) -> None:
        async with consuming(broker, orders) as consumer:
            for _ in range(count):
                record = await next_of(consumer)
                order = record.value.decode()
                if not (remembers and order in seen):  # a real service has this in its database
                    charged.append(order)
                seen.add(order)
                await consumer.commit()

    with Broker() as broker:
        orders = broker.topic("orders", partitions=1, configs=SYNCED)
        orders.produce_many([{"value": "order 1"}, {"value": "order 2"}])
        await work(broker, orders, 2)
        await asyncio.to_thread(broker.crash)
        await asyncio.to_thread(broker.restart)
        await work(broker, orders, 2)
    assert charged == ["order 1", "order 2"] * (1 if remembers else 2)


@pytest.mark.parametrize(
    ("isolation", "handled"),
    [("read_uncommitted", [b"order 1", b"order 2"]), ("read_committed", [b"order 2"])],
    ids=BOTH,
)
async def test_a_service_dies_in_the_middle_of_a_transaction(
    broker: Broker, orders: Topic, isolation: str, handled: list[bytes]
) -> None:
    async with producing(broker, transactional_id=f"tx-{orders}", client_id="dies") as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(str(orders), b"order 1")
        broker.transaction(f"tx-{orders}").abort()  # as the broker itself does after the transaction's timeout
    orders.produce("order 2")
    found: list[bytes] = []
    async with consuming(broker, orders, isolation_level=isolation) as consumer:
        while b"order 2" not in found:
            found.append((await next_of(consumer)).value)
    assert found == handled


class Ownership(ConsumerRebalanceListener):  # type: ignore[misc]
    """Whether the partitions are still those of the last look."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.lost.set()

    def on_partitions_assigned(self, assigned: Any) -> None:
        """They are read from the last commit."""


async def charge_all(consumer: AIOKafkaConsumer, batch: list[ConsumerRecord], charge: Any, _ours: Ownership) -> None:
    for record in batch:
        await charge(record)
    with suppress(CommitFailedError):
        await consumer.commit()


async def charge_what_is_ours(consumer: AIOKafkaConsumer, batch: list[ConsumerRecord], charge: Any, ours: Any) -> None:
    ours.lost.clear()
    for record in batch:
        if ours.lost.is_set():
            return  # somebody else may have this partition now
        await charge(record)


@pytest.mark.parametrize(("work", "again"), [(charge_all, 3), (charge_what_is_ours, 2)], ids=BOTH)
async def test_a_member_is_too_slow_and_expires(broker: Broker, orders: Topic, work: Any, again: int) -> None:
    orders.produce_many([f"order {number}" for number in range(3)])
    charged: list[bytes] = []
    ours = Ownership()

    async with consuming(broker, orders, ours, heartbeat_interval_ms=100) as consumer:

        async def charge(record: ConsumerRecord) -> None:
            charged.append(record.value)
            if work is charge_what_is_ours:
                await consumer.commit({TopicPartition(str(orders), 0): record.offset + 1})
            if len(charged) == 1:
                broker.group(f"g-{orders}").expire()
                await asyncio.wait_for(ours.lost.wait(), 20)

        for count in (3, again):
            await work(consumer, [await next_of(consumer) for _ in range(count)], charge, ours)
    assert charged == [b"order 0", b"order 1", b"order 2"] * (2 if again == 3 else 1)


async def send_again_if_it_takes_long(producer: AIOKafkaProducer, topic: str, value: bytes) -> None:
    for _ in range(2):
        with suppress(TimeoutError):
            await asyncio.wait_for(producer.send_and_wait(topic, value), 0.5)
            return


async def wait_however_long_it_takes(producer: AIOKafkaProducer, topic: str, value: bytes) -> None:
    await producer.send_and_wait(topic, value)


@pytest.mark.parametrize(
    ("send", "is_doubled"), [(send_again_if_it_takes_long, True), (wait_however_long_it_takes, False)], ids=BOTH
)
async def test_the_network_is_slow(broker: Broker, orders: Topic, send: Any, is_doubled: bool) -> None:
    order = b"x" * 4000
    async with producing(broker, client_id=f"c-{orders}", enable_idempotence=True) as producer:
        await producer.partitions_for(str(orders))
        with broker.throttle(client_id=f"c-{orders}", bytes_per_second=4000, direction="requests"):
            await send(producer, str(orders), order)
    assert values(orders) == [order] * (2 if is_doubled else 1)

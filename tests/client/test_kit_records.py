"""Records without a client: written and read by the kit, and seen by stock clients, in Python as over HTTP."""

from __future__ import annotations

import asyncio
import datetime
import json
import threading
import urllib.request
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker, ControlError, Record, WaitTimeoutError


def post(broker: Broker, path: str, **body: Any) -> Any:
    request = urllib.request.Request(f"{broker.control.url}/control{path}", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def get(broker: Broker, path: str) -> Any:
    with urllib.request.urlopen(f"{broker.control.url}/control{path}") as response:
        return json.load(response)


def consumed(broker: Broker, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(broker.topics()[topic].partitions)])
    found: list[Any] = []
    while len(found) < count:
        found += [message for message in consumer.consume(count, 30) if message.error() is None]
    consumer.close()
    return found


def test_a_client_reads_what_the_kit_wrote_and_the_kit_what_a_client_wrote(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic, partitions=3)
    at = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)
    written = [
        orders.produce(b"\xff\x00", key=b"\xfe", headers={"trace": "t", "raw": b"\xfd", "none": None}, timestamp=at),
        orders.produce("text", key="key", partition=2, timestamp=1),
        orders.produce({"id": 7}, headers=[("a", "1"), ("a", "2")]),
        orders.produce(None, key="gone"),
    ]
    read = {(one.partition(), one.offset()): one for one in consumed(shared_broker, topic, len(written))}
    for record in written:
        message = read[record.partition, record.offset]
        assert (message.key(), message.value(), message.timestamp()[1]) == (record.key, record.value, record.timestamp)
        assert (message.headers() or []) == record.headers
    assert (written[0].timestamp, written[2].json(), written[1].text) == (1_795_737_600_000, {"id": 7}, "text")

    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "compression.type": "lz4"})
    producer.produce(topic, json.dumps({"id": 8, "by": "client"}), key="8", headers={"h": b"v"})
    assert producer.flush(30) == 0
    found = orders.expect({"id": 8}, key="8", headers={"h": "v"})
    assert (found.headers["h"], found.headers.get("x"), found.json()["by"]) == (b"v", None, "client")
    assert len(orders.records()) == sum(orders.end_offsets().values()) == len(written) + 1


def test_a_key_goes_to_the_partition_that_java_and_librdkafkas_murmur2_choose(
    shared_broker: Broker, topic: str
) -> None:
    orders = shared_broker.topic(topic, partitions=7)
    keys = [f"key-{number}" for number in range(50)]
    orders.produce_many([(key, key) for key in keys])
    chosen = {record.key: record.partition for record in orders.records()}
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(topic, b"again", key=key)
    assert producer.flush(30) == 0
    again = [record for record in orders.records() if record.value == b"again"]
    assert {record.key: record.partition for record in again} == chosen


def test_records_without_a_key_are_spread_and_many_come_back_in_order(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic, partitions=2)
    many = orders.produce_many([str(number) for number in range(5_000)])
    assert [record.text for record in many] == [str(number) for number in range(5_000)]
    assert orders.end_offsets() == {0: 2_500, 1: 2_500}
    assert [record.offset for record in orders.records(partition=1, from_=2_400)] == list(range(2_400, 2_500))
    assert {record.text for record in orders.records()} == {str(number) for number in range(5_000)}
    copied = shared_broker.topic(f"{topic}-copy").produce_many(many[:3])
    assert [(one.value, one.timestamp) for one in copied] == [(one.value, one.timestamp) for one in many[:3]]


def test_large_batches_are_written_and_read_and_too_large_ones_are_refused(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic, configs={"max.message.bytes": 5_000_000, "compression.type": "zstd"})
    orders.produce_many([b"x" * 3_000_000, b"y", b"z" * 400_000, b"z" * 400_000])
    assert [len(record.value or b"") for record in orders.records()] == [3_000_000, 1, 400_000, 400_000]
    with pytest.raises(ControlError, match=r"MESSAGE_TOO_LARGE.*records\[1\].*1 of 3 records were written") as caught:
        orders.produce_many([b"a", b"x" * 6_000_000, b"b"])
    assert (caught.value.parameter, orders.end_offsets()) == ("records", {0: 5})


def test_committed_reads_see_no_open_and_no_aborted_transaction(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic)
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()

    def write(value: str) -> None:
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0

    write("aborted")
    producer.abort_transaction()
    write("committed")
    producer.commit_transaction()
    write("open")
    orders.produce("behind")
    assert [record.text for record in orders.records()] == ["committed"]
    assert [record.text for record in orders.records(committed=False)] == ["aborted", "committed", "open", "behind"]
    with pytest.raises(WaitTimeoutError):
        orders.expect("open", timeout=0.1)
    assert orders.expect("open", committed=False).offset > orders.end_offsets(committed=True)[0] - 1
    threading.Timer(0.2, producer.commit_transaction).start()
    assert [record.text for record in orders.wait(3)] == ["committed", "open", "behind"]


def test_waits_end_as_soon_as_the_records_are_there(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic, partitions=2)
    threading.Timer(0.2, lambda: orders.produce_many([(b"1", b"a"), (b"2", b"b"), (b"1", b"c")])).start()
    assert {record.value for record in orders.wait(3, timeout=30)} == {b"a", b"b", b"c"}
    assert [record.value for record in orders.wait(2, lambda record: record.key == b"1")] == [b"a", b"c"]
    threading.Timer(0.2, lambda: orders.produce({"id": 9})).start()
    assert orders.wait(where=lambda record: b"9" in (record.value or b""), timeout=30)[0].json() == {"id": 9}
    assert orders.wait(0) != []


async def test_coroutines_wait_without_stopping_the_loop(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic)
    waiting = asyncio.gather(orders.expect_async("now", timeout=30), orders.wait_async(1, timeout=30))
    await asyncio.sleep(0)
    await asyncio.to_thread(orders.produce, "now")
    expected, several = await waiting
    assert several == [expected]


def test_a_wait_in_vain_shows_what_came_nearest(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic)
    orders.produce_many([("7", '{"id": 7, "paid": false}'), ("8", "{}"), ("9", b"\xff")])
    with pytest.raises(WaitTimeoutError) as caught:
        orders.expect({"id": 7, "paid": True}, key="7", timeout=0)
    assert str(caught.value) == (
        f'{topic} did not have a record with key "7" and value {{"id": 7, "paid": true}} within 0 s: 0 of 3 match\n'
        "the nearest is offset 0 of partition 0:\n"
        "  value.paid: expected true, is false"
    )
    assert isinstance(caught.value, AssertionError) and isinstance(caught.value, TimeoutError)
    with pytest.raises(WaitTimeoutError, match=r"did not have 4 records within 0.1 s: 3 of 3 match\nthe last ones:"):
        orders.wait(4, timeout=0.1)
    with pytest.raises(WaitTimeoutError, match=r"`where` is true within 0.1 s: 0 of 3 match; the last ones:\n  Record"):
        orders.wait(where=lambda record: False, timeout=0.1)


def test_topics_are_made_listed_emptied_and_deleted(shared_broker: Broker, topic: str) -> None:
    orders = shared_broker.topic(topic, partitions=2, configs={"retention.ms": 1_000, "preallocate": False})
    assert (str(orders), orders.partitions, shared_broker.topics()[topic].partitions) == (topic, 2, 2)
    assert (
        shared_broker.topic(topic).partitions == shared_broker.topic(topic, configs={"retention.ms": 1_000}).partitions
    )
    orders.produce_many(["a", "b", "c", "d"])
    orders.truncate(partition=0, before=1)
    assert (orders.start_offsets(), len(orders.records())) == ({0: 1, 1: 0}, 3)
    orders.truncate()
    assert (orders.records(), orders.produce("e", partition=1).offset) == ([], 2)
    orders.delete()
    assert topic not in shared_broker.topics()
    with pytest.raises(ControlError, match=f"there is no topic '{topic}'") as caught:
        orders.records()
    assert (caught.value.status, caught.value.parameter) == (404, "topic")


@pytest.mark.parametrize(
    ("wrong", "parameter", "message"),
    [
        (lambda broker, topic: broker.topic(topic.name, partitions=2), "partitions", "exists and has 1"),
        (lambda broker, topic: broker.topic(topic.name, configs={"retention.ms": 5}), "configs", "does not set"),
        (lambda broker, topic: broker.topic("new", configs={"retention": 5}), "configs", "Unknown topic config name"),
        (lambda broker, topic: broker.topic("new", partitions=0), "partitions", "expected at least 1"),
        (lambda broker, topic: broker.topic("a b"), "topic", "illegal|invalid"),
        (lambda broker, topic: topic.produce("x", partition=1), "partition", "expected 0 to 0"),
        (lambda broker, topic: topic.records(partition=1), "partition", "expected 0 to 0"),
        (lambda broker, topic: topic.records(from_=1), "from", "ends at 0"),
        (lambda broker, topic: topic.records(from_={3: 1}), "from", "partition 3 is not read"),
        (lambda broker, topic: topic.wait(timeout=-1), "timeout", "expected at least 0"),
        (lambda broker, topic: topic.truncate(before=9), "before", "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_a_wrong_parameter_is_named(
    shared_broker: Broker, topic: str, wrong: Any, parameter: str, message: str
) -> None:
    made = shared_broker.topic(topic)
    with pytest.raises(ControlError, match=message) as caught:
        wrong(shared_broker, made)
    assert caught.value.parameter == parameter
    assert made.end_offsets() == {0: 0}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda topic: topic.produce(7), "value = 7: expected bytes, str, a dict"),
        (lambda topic: topic.produce({"at": object()}), "cannot be written as JSON"),
        (lambda topic: topic.produce("x", key=7), "key = 7: expected bytes, str or None"),
        (lambda topic: topic.produce("x", headers={"a": 7}), "headers = {'a': 7}: expected a dict, or pairs"),
        (lambda topic: topic.produce("x", headers=7), "headers = 7: expected a dict"),
        (lambda topic: topic.produce("x", partition="0"), "partition = '0': expected an int"),
        (lambda topic: topic.produce("x", timestamp="now"), "timestamp = 'now': expected milliseconds"),
        (lambda topic: topic.produce_many("x"), "expected several values"),
        (lambda topic: topic.produce_many([{"id": 7}]), r"records\[0\] = .*expected a dict with value"),
        (lambda topic: topic.expect(7), "value = 7: expected a dict"),
        (lambda topic: topic.expect(key=None), "key = None"),
        (lambda topic: topic.records(from_="0"), "from_ = '0': expected an offset"),
    ],
)
def test_a_wrong_argument_is_named(shared_broker: Broker, topic: str, wrong: Any, message: str) -> None:
    made = shared_broker.topic(topic)
    with pytest.raises(TypeError, match=message):
        wrong(made)
    assert made.end_offsets() == {0: 0}


def test_the_same_over_http(shared_broker: Broker, topic: str) -> None:
    assert post(shared_broker, "/topics", topic=topic, partitions=2)["created"] is True
    assert post(shared_broker, "/topics", topic=topic)["created"] is False
    records = [
        {"value": "a", "key": "k", "headers": {"h": "v"}},
        {"value_base64": "/w==", "partition": 0, "timestamp": 5},
    ]
    written = post(shared_broker, f"/topics/{topic}/records", records=records)["records"]
    assert (written[1]["value_base64"], written[1]["partition"], written[1]["timestamp"]) == ("/w==", 0, 5)
    read = get(shared_broker, f"/topics/{topic}/records?committed=false")
    assert sorted(read["records"], key=str) == sorted(written, key=str)
    following = ",".join(f"{index}:{offset}" for index, offset in read["next"].items())
    assert get(shared_broker, f"/topics/{topic}/records?from={following}")["records"] == []
    found = post(shared_broker, f"/topics/{topic}/wait", key="k", headers={"h": "v"})["records"]
    assert found == [written[0]]
    offsets = get(shared_broker, f"/topics/{topic}/offsets")["partitions"]
    assert sum(one["end"] for one in offsets.values()) == 2
    listed = {one["topic"]: one for one in get(shared_broker, "/topics")["topics"]}
    assert (listed[topic]["partitions"], listed[topic]["internal"]) == (2, False)


def test_a_record_is_frozen_and_its_headers_are_looked_up_by_name() -> None:
    record = Record.of(
        {
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "timestamp": 2,
            "key": None,
            "value": None,
            "headers": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}],
        }
    )
    assert (record.headers["a"], record.headers[0], record.text) == (b"2", ("a", b"1"), None)
    with pytest.raises(KeyError):
        record.headers["b"]
    with pytest.raises(ValueError, match="tombstone"):
        record.json()
    with pytest.raises(AttributeError):
        record.offset = 2  # type: ignore[misc]
    assert hash(record) == hash(Record.of({**_as_answer(record)}))


def _as_answer(record: Record) -> dict[str, Any]:
    headers = [{"key": name, "value": (content or b"").decode()} for name, content in record.headers]
    return {"topic": "t", "partition": 0, "offset": 1, "timestamp": 2, "key": None, "value": None, "headers": headers}

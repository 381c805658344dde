"""What the kit says of a cluster of three, with one replica and with three, is what it says of one broker.

The same things happen to a topic of six partitions in each of them; each row of docs/testing-with-odradek.md is asked.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek import Broker, Cluster, ControlError, WaitTimeoutError
from odradek.controls import Controls

pytestmark = pytest.mark.usefixtures("own_cluster")

PARTITIONS = range(6)
TIMEOUT = 30
EARLIER_MS = int(time.time() - 3600) * 1000

Told = dict[str, Any]


def clients_of(controls: Controls, **more: Any) -> dict[str, Any]:
    return controls.client_config("confluent", **more)


def records(controls: Controls, name: str) -> Told:
    topic = controls.topics()[name]
    keyless = [topic.produce(f"{n}", timestamp=EARLIER_MS).partition for n in PARTITIONS]
    told: Told = {"partitions of keyless records": sorted(keyless)}
    for index in PARTITIONS:
        topic.produce_many(
            {"value": f"{index}-{n}", "partition": index, "timestamp": EARLIER_MS + n} for n in range(2, 8)
        )
    told["records"] = len(topic.records())
    told["records of a partition"] = [record.text for record in topic.records(partition=4)][1:]
    told["wait"] = len(topic.wait(count=42, timeout=TIMEOUT))
    told["expect"] = topic.expect("3-7", timeout=TIMEOUT).partition
    told["end_offsets"], told["start_offsets"] = topic.end_offsets(), topic.start_offsets()
    return told


def group(controls: Controls, name: str) -> Told:
    told: Told = {}
    group = controls.group(f"of-{name}")
    told["state of no group"], told["lag of no group"] = group.state, group.lag().total
    consumer = Consumer(clients_of(controls, **{"group.id": group, "enable.auto.commit": False}))
    consumer.commit(offsets=[TopicPartition(name, index, 1) for index in PARTITIONS], asynchronous=False)
    told["committed"], told["lag"], told["total"] = group.committed(), group.lag(), group.lag().total
    with pytest.raises(WaitTimeoutError) as caught:
        group.wait(lag=20, timeout=0.2)
    told["wait in vain"] = str(caught.value)
    told["explain the group"] = sorted(controls.explain(group=group).rules)
    told["reset to latest"], told["lag after it"] = group.reset_offsets("latest", topic=name), group.lag().total
    told["explain it at the end"] = sorted(controls.explain(group=group).rules)
    told["reset to earliest"], told["lag after that"] = group.reset_offsets("earliest"), group.lag().total
    told["reset to an offset"] = group.reset_offsets(3, topic=name, partitions=[1, 5])
    told["reset to a time"] = group.reset_offsets(datetime.fromtimestamp((EARLIER_MS + 5) / 1000, UTC))
    told["reset to the future"] = group.reset_offsets(datetime(2100, 1, 1, tzinfo=UTC), topic=name, partitions=[2, 3])
    consumer.subscribe([name])
    left = told["lag after the time"] = group.lag().total
    assert len(consumer.consume(left, TIMEOUT)) == left
    ends = [TopicPartition(name, index, end) for index, end in controls.topics()[name].end_offsets().items()]
    consumer.commit(offsets=ends, asynchronous=False)
    group.wait(state="Stable", members=1, lag=0, timeout=TIMEOUT)
    (member,) = group.members
    told["assignment"], told["topics"] = member.assignment, member.topics
    with pytest.raises(ControlError) as refused:
        group.reset_offsets("earliest")
    told["reset with members"] = refused.value.status
    told["groups"] = group in controls.groups()
    told["expire"] = len(group.expire())
    consumer.close()
    group.wait(state="Empty", members=0, timeout=TIMEOUT)
    controls.topics()[name].produce("one more", partition=5)
    told["lag after a write"] = group.lag()
    group.delete()
    told["state after delete"] = group.state
    return told


def transaction(controls: Controls, name: str) -> Told:
    told: Told = {}
    transaction = controls.transaction(f"of-{uuid.uuid4()}")  # the journal remembers who was fenced before
    told["state of none"] = transaction.state
    producer = Producer(clients_of(controls, **{"transactional.id": transaction}))
    producer.init_transactions(TIMEOUT)
    producer.begin_transaction()
    for index in PARTITIONS:
        producer.produce(name, b"open", partition=index)
    assert producer.flush(TIMEOUT) == 0
    transaction.wait(state="Ongoing", timeout=TIMEOUT)
    told["partitions"], told["transactions"] = sorted(transaction.partitions), transaction in controls.transactions()
    told["explain the topic"] = sorted(controls.explain(topic=name).rules)
    told["explain the transaction"] = sorted(controls.explain(transactional_id=transaction).rules)
    told["readers of committed records"] = len(controls.topics()[name].records())
    told["all records"] = len(controls.topics()[name].records(committed=False))
    said = controls.report()
    (line,) = (line for line in said.splitlines() if line.strip().startswith(f"{name}: "))
    told["report of the topic"] = line
    told["report of the transaction"] = said.count(f"{transaction}: Ongoing")
    transaction.abort(timeout=TIMEOUT)
    with pytest.raises(KafkaException, match="FENCED"):
        producer.commit_transaction(TIMEOUT)
    told["state after abort"] = transaction.state
    epoch = transaction.epoch
    transaction.fence(timeout=TIMEOUT)
    told["epochs of a fence"] = transaction.epoch - epoch
    return told


def topics(controls: Controls, name: str) -> Told:
    told: Told = {}
    topic = controls.topics()[name]
    told["explain"] = sorted(controls.explain(topic=name).rules)
    told["explain a typing error"] = sorted(controls.explain(topic=f"{name}x").rules)
    controls.assert_exactly_once(topic, topic, key="value", timeout=TIMEOUT)
    topic.truncate(before=3)
    told["start_offsets"] = topic.start_offsets()
    told["explain what was deleted"] = sorted(controls.explain(topic=name).rules)
    topic.truncate()
    told["ends"] = topic.start_offsets() == topic.end_offsets()
    mark = controls.mark()
    controls.topic(f"{name}-temporary", partitions=2).produce("x")
    told["reset"] = controls.reset(mark)["topics"] == [f"{name}-temporary"]
    topic.delete()
    told["topics"] = name in controls.topics()
    return told


STEPS: tuple[Callable[[Controls, str], Told], ...] = (records, group, transaction, topics)


def tell(controls: Controls, name: str, replicas: int) -> dict[str, Told]:
    """All that the kit says of such a topic, with nothing left of what was before."""
    controls.reset()
    admin = AdminClient(clients_of(controls))
    admin.create_topics([NewTopic(name, len(PARTITIONS), replicas)])[name].result(TIMEOUT)
    if isinstance(controls, Cluster):
        controls.wait_in_sync(name, timeout=TIMEOUT)
    return {step.__name__: step(controls, name) for step in STEPS}


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, dict[str, Told]]]:
    """By the topic's name."""
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        cluster = stack.enter_context(Cluster(brokers=3))
        yield {
            "one": tell(broker, "topic", 1),
            "a replica in a cluster": tell(cluster, "topic", 1),
            "three replicas in a cluster": tell(cluster, "topic", 3),
        }


@pytest.mark.parametrize("where", ["a replica in a cluster", "three replicas in a cluster"])
@pytest.mark.parametrize("step", [step.__name__ for step in STEPS])
def test_a_cluster_is_told_as_one_broker_is(told: dict[str, dict[str, Told]], where: str, step: str) -> None:
    expected = told["one"][step]
    assert {name: value for name, value in told[where][step].items() if value != expected[name]} == {}

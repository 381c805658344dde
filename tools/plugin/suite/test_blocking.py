"""Blocking clients, and what the kit has without one."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, Producer


@pytest.mark.odradek(topics={"orders": 3})
def test_a_producer_and_a_group(odradek: Any, odradek_topics: Any, odradek_client_config: Any) -> None:
    producer = Producer(odradek_client_config("confluent"))
    producer.produce("orders", b"x")
    producer.flush(30)
    assert odradek_topics["orders"].wait()[0].value == b"x"
    consumer = Consumer(odradek_client_config("confluent", **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    assert message is not None
    assert message.value() == b"x"
    assert odradek.groups().keys() == {"g"}
    consumer.close()
    assert odradek.topics().keys() == {"orders"}


def test_the_next_test_finds_nothing_of_it(odradek: Any) -> None:
    assert odradek.topics() == odradek.groups() == odradek.transactions() == {}


def test_a_broker_to_kill(odradek_fresh_broker: Any) -> None:
    odradek_fresh_broker.kill()
    odradek_fresh_broker.restart()


@pytest.mark.odradek(settings={"num.partitions": 2})
def test_a_history_a_frozen_clock_a_snapshot_a_fault_and_an_explanation(odradek: Any) -> None:
    topic = odradek.topic("t")
    assert topic.partitions == 2
    with odradek.history() as history, odradek.clock.freeze():
        snapshot = odradek.snapshot()
        topic.produce("v")
        odradek.restore(snapshot)
    history.check()
    assert topic.records() == []
    with odradek.fault(api="Metadata", delay=0.01):
        assert "has_no_records" in odradek.explain(topic="t").rules
    assert "topics" in odradek.report()

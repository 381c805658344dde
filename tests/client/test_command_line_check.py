"""`odradek check`: exit statuses and lines as monitors want them (Nagios plugins), against a broker over sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek import Broker
from tests.brokers import sound_broker
from tests.command_line import Odradek

OK, WARNING, CRITICAL, UNKNOWN = range(4)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sound_broker({}) as broker:
        yield broker


@pytest.fixture(scope="module")
def odradek(broker: Broker) -> Odradek:
    """It has the group billing, which has 3 of 5 records to read, and a transaction that is open."""
    odradek = Odradek(broker.bootstrap_servers)
    odradek.told("topics", "create", "orders", "-p", "1")
    odradek.told("produce", "orders", "a", "b", "c", "d", "e")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    consumer.close()
    return odradek


def test_lag_of_a_group_against_its_limits(odradek: Odradek) -> None:
    said = "group billing has 3 records to read | 'billing'=3"
    for limits, status, name in (
        ((), OK, "OK"),
        (("--warning", "4", "--critical", "9"), OK, "OK"),
        (("--warning", "3"), WARNING, "WARNING"),
        (("--warning", "1", "--critical", "3"), CRITICAL, "CRITICAL"),
    ):
        found, out, _ = odradek.run("check", "lag", "billing", *limits)
        assert (found, out.startswith(f"LAG {name} - {said}")) == (status, True), out
    assert json.loads(odradek.run("check", "lag", "--critical", "3", "--json")[1]) == {
        "check": "lag",
        "status": "CRITICAL",
        "figures": [{"name": "billing", "value": 3, "status": "CRITICAL"}],
    }


def test_what_cannot_be_found_out_has_a_status_of_its_own(odradek: Odradek) -> None:
    status, out, error = odradek.run("check", "lag", "billing", "no-group")
    assert (status, out.startswith("LAG UNKNOWN - group billing has 3")) == (UNKNOWN, True)
    assert "no-group: there is no such group" in error
    status, out, _ = odradek.run("check", "isr", "-b", "127.0.0.1:1", "--timeout", "1", at="")
    assert (status, out.startswith("ISR UNKNOWN - no broker answers at 127.0.0.1:1")) == (UNKNOWN, True)
    status, out, _ = odradek.run("check", "isr", "--json", "-b", "127.0.0.1:1", "--timeout", "1", at="")
    about = json.loads(out)
    assert (status, about["status"], about["figures"]) == (UNKNOWN, "UNKNOWN", [])
    assert about["message"].startswith("no broker answers at 127.0.0.1:1")
    for wrong in (("check", "isr", "--limit", "1"), ("check", "lag", "--warning", "many")):
        assert odradek.run(*wrong)[0] == UNKNOWN


def test_replicas_leaders_brokers_and_disk(odradek: Odradek) -> None:
    assert odradek.run("check", "isr")[:2][0] == OK
    status, out, _ = odradek.run("check", "leaders")
    assert (status, "have no leader | 'partitions'=0;;1" in out) == (OK, True)
    assert odradek.run("check", "brokers")[1] == "BROKERS OK - 1 brokers are alive | 'brokers'=1;;1\n"
    status, out, _ = odradek.run("check", "brokers", "--warning", "2")
    assert (status, out.startswith("BROKERS WARNING")) == (WARNING, True)
    status, out, _ = odradek.run("check", "disk", "--warning", "0", "--critical", "101")
    assert (status, "% full | '1:/" in out) == (WARNING, True)


def test_age_of_an_open_transaction(broker: Broker, odradek: Odradek) -> None:
    assert odradek.run("check", "transactions")[1].startswith("TRANSACTIONS OK - no transaction is open")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "shipping"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("orders", b"f")
    producer.flush()
    status, out, _ = odradek.run("check", "transactions", "--critical", "0")
    assert (status, "the transaction of shipping is open for" in out) == (CRITICAL, True)
    producer.abort_transaction()

"""How the payments take what happens to them: a zombie, a rebalance while they commit, a commit whose reply is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaException
from payments import GROUP, PAYMENT, PAYMENTS, RECEIPT, RECEIPTS, TRANSACTIONAL_ID, Payments

import odradek as kit

VALIDATED = {"partitions": 1, "configs": {"confluent.value.schema.validation": "true"}}
"""The broker refuses a record that names no schema of the topic."""

pytestmark = pytest.mark.odradek(topics={PAYMENTS: VALIDATED, RECEIPTS: VALIDATED})
SECONDS = 60

Start = Callable[[str], "Future[None]"]


@pytest.fixture
def start(odradek: kit.Broker, odradek_client_config: Callable[..., dict[str, Any]]) -> Iterator[Start]:
    """`start(name)` runs an instance in a thread. The end of the test stops it; none may have failed but a zombie."""
    stop = threading.Event()
    started: list[Future[None]] = []
    with ThreadPoolExecutor() as threads:

        def run(name: str) -> Future[None]:
            payments = Payments(odradek_client_config("confluent"), odradek.registry.url, name)
            started.append(threads.submit(payments.run, stop))
            return started[-1]

        yield run
        stop.set()
    errors = [error for one in started if (error := one.exception()) and "FENCED" not in str(error)]
    assert errors == []


def pay(odradek: kit.Broker, *numbers: int) -> None:
    made = ((str(number), {"id": number, "cents": 100 * number}) for number in numbers)
    odradek.topic(PAYMENTS).produce_many(made, schema=PAYMENT)


def test_a_payment_gets_a_receipt(odradek: kit.Broker, start: Start) -> None:
    start("a")
    pay(odradek, 7)
    odradek.topic(RECEIPTS).expect({"payment": 7, "paid": 700}, key="7", timeout=SECONDS)


def test_a_receipt_is_written_once_the_registry_works_again(odradek: kit.Broker, start: Start) -> None:
    with odradek.registry.fault(call="register", subject="receipts-value", error=50001, count=2) as failing:
        start("a")
        pay(odradek, 7)
        failing.wait(2, timeout=SECONDS)
        odradek.topic(RECEIPTS).expect({"payment": 7, "currency": "EUR"}, timeout=SECONDS)


def test_who_reads_receipts_can_read_the_next_ones_too(odradek: kit.Broker) -> None:
    before = {
        "type": "record",
        "name": "Receipt",
        "namespace": "shop",
        "fields": [{"name": "payment", "type": "int"}, {"name": "paid", "type": "long"}],
    }
    odradek.registry.register(RECEIPTS, before)
    odradek.registry.set_compatibility("FULL", RECEIPTS)
    assert odradek.registry.check(RECEIPTS, RECEIPT) == []


def test_a_zombie_is_fenced_and_nothing_is_paid_twice(odradek: kit.Broker, start: Start) -> None:
    with odradek.fault(api="EndTxn", client_id="a", disconnect=True) as cut_off:
        zombie = start("a")
        pay(odradek, 7)
        cut_off.wait(timeout=SECONDS)  # it has paid, and cannot commit
        odradek.group(GROUP).expire("a")
        start("b")
        odradek.topic(RECEIPTS).expect({"payment": 7}, timeout=SECONDS)
    with pytest.raises(KafkaException, match="FENCED"):  # its commit gets through now
        zombie.result(SECONDS)
    odradek.assert_exactly_once(PAYMENTS, RECEIPTS, timeout=SECONDS)


def test_a_rebalance_in_the_middle_of_a_commit_pays_once(odradek: kit.Broker, start: Start) -> None:
    with odradek.fault(api="TxnOffsetCommit", group=GROUP, error="ILLEGAL_GENERATION", count=1) as refused:
        start("a")
        pay(odradek, 1, 2, 3)
        refused.wait(timeout=SECONDS)
        odradek.group(GROUP).wait(lag=0, timeout=SECONDS)
    odradek.assert_exactly_once(PAYMENTS, RECEIPTS, timeout=SECONDS)


def test_a_commit_whose_reply_is_lost_counts(odradek: kit.Broker, start: Start) -> None:
    with odradek.fault(
        api="EndTxn", transactional_id=TRANSACTIONAL_ID, phase="before_reply", disconnect=True, count=1
    ) as lost:
        start("a")
        pay(odradek, 1, 2)
        odradek.group(GROUP).wait(lag=0, timeout=SECONDS)
        assert lost.hits == 1
    odradek.assert_exactly_once(PAYMENTS, RECEIPTS, timeout=SECONDS)

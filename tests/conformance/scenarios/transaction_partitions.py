"""AddPartitionsToTxn 0-5 and AddOffsetsToTxn 0-4."""

from __future__ import annotations

from tests.conformance.runner import Talk, scenario
from tests.conformance.transactor import Transactor

OF_CLIENTS = range(4)
BETWEEN_BROKERS = (4, 5)


@scenario("add_partitions_to_txn", range(6))
def adds(t: Talk, v: int) -> None:
    a, b = t.topic("a", 3), t.topic("b")
    absent = t.name("absent")
    tx = Transactor(t)
    tx.add("no such id", v, (a.name, 0), producer_id=4, producer_epoch=0)
    tx.start()
    tx.add("two", v, (a.name, 0), (b.name, 0))
    tx.describe("two: described")
    tx.add("one of them again, one more", v, (a.name, 0), (a.name, 2))
    tx.add("all of them again", v, (a.name, 0), (a.name, 2), (b.name, 0))
    tx.add("a partition twice", v, (a.name, 0), (a.name, 0))
    tx.add("unknown topic", v, (absent, 0))
    tx.add("unknown partition among known", v, (a.name, 1), (a.name, 9), (absent, 0))
    if v in OF_CLIENTS:
        tx.add("an internal topic, for brokers alone", v, ("__consumer_offsets", 0), (a.name, 1), (absent, 0))
    tx.describe("none was added")
    tx.add("an older epoch", v, (a.name, 1), producer_epoch=tx.epoch - 1)
    tx.add("a newer epoch", v, (a.name, 1), producer_epoch=tx.epoch + 1)
    tx.add("another producer", v, (a.name, 1), producer_id=tx.producer_id + 100_000)
    tx.add("empty id", v, (a.name, 1), transactional_id="")
    tx.add("unknown topic, another producer", v, (absent, 0), producer_id=tx.producer_id + 100_000)
    tx.add("no partitions", v)
    tx.add("a topic of no partitions", v, topics=[{"name": a.name, "partitions": []}])
    tx.ended("committed", 4, True)
    tx.describe("complete")
    tx.add("the next transaction", v, (a.name, 1))
    tx.describe("the next transaction: described")
    tx.ended("aborted", 4, False)
    tx.add("one more", v, (a.name, 1))
    tx.ended("one more: aborted", 4, False)


@scenario("add_partitions_to_txn", OF_CLIENTS)
def first_without_partitions(t: Talk, v: int) -> None:
    tx = Transactor(t).start()
    tx.add("nothing", v)
    tx.describe("described")
    tx.end("committed", 4, True)


@scenario("add_partitions_to_txn", BETWEEN_BROKERS)
def several(t: Talk, v: int) -> None:
    a, b = t.topic("a", 3), t.topic("b")
    one, other, stranger = Transactor(t, "one").start(), Transactor(t, "other").start(), Transactor(t, "stranger")
    absent = (t.name("absent"), 0)

    def ask(step: str, *transactions: object) -> None:
        t.call(step, "add_partitions_to_txn", v, {"transactions": list(transactions)})

    ask(
        "added",
        one.one((a.name, 0), (a.name, 1)),
        other.one((a.name, 0), absent),
        stranger.one((a.name, 0), producer_id=5, producer_epoch=0),
    )
    ask("added and verified", one.one((a.name, 2)), other.one((a.name, 0), verify_only=True))
    ask("verified", one.one((a.name, 0), (a.name, 2), verify_only=True))
    other.add("other", 3, (a.name, 1))
    ask(
        "some verified",
        one.one((a.name, 0), verify_only=True),
        other.one((a.name, 0), (a.name, 1), verify_only=True),
        stranger.one((a.name, 0), verify_only=True, producer_id=5, producer_epoch=0),
    )
    ask("verified with an older epoch", one.one((a.name, 0), verify_only=True, producer_epoch=one.epoch - 1))
    ask("verified with another producer", one.one((a.name, 0), verify_only=True, producer_id=other.producer_id))
    ask("verified unknown", one.one((a.name, 0), absent, verify_only=True))
    nothing, again = {"name": b.name, "partitions": []}, {"name": a.name, "partitions": [0, 0]}
    ask("verified, twice and of no partitions", one.one(verify_only=True, topics=[nothing, again, again]))
    ask("an id twice", one.one((a.name, 0)), one.one((a.name, 2), verify_only=True))
    one.ended("one committed", 4, True)
    other.ended("other aborted", 4, False)
    ask("verified after the end", one.one((a.name, 0), verify_only=True), other.one((a.name, 1), verify_only=True))


@scenario("add_offsets_to_txn", range(5))
def adds_offsets(t: Talk, v: int) -> None:
    tx = Transactor(t)
    tx.add_offsets("no such id", v, producer_id=4, producer_epoch=0)
    tx.start()
    tx.add_offsets("added", v)
    t.keep("state", tx.described()["transaction_state"])
    tx.add_offsets("again", v)
    tx.add_offsets("an older epoch", v, producer_epoch=tx.epoch - 1)
    tx.add_offsets("a newer epoch", v, producer_epoch=tx.epoch + 1)
    tx.add_offsets("another producer", v, producer_id=tx.producer_id + 100_000)
    tx.add_offsets("empty id", v, transactional_id="")
    tx.add_offsets("empty group", v, group_id="")
    tx.ended("committed", 4, True)
    tx.describe("complete")
    tx.add_offsets("the next transaction", v)
    tx.ended("aborted", 4, False)

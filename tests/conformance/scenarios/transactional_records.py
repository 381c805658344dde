"""Transactional Produce 3-13, what readers of both isolation levels see, and WriteTxnMarkers."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.runner import Talk, produce_body, scenario
from tests.conformance.transactor import Transactor, offsets, producers, read

VERSIONS = range(3, 14)
FIRST_WITH_IMPLICIT_PARTITIONS = 12
UNCOMMITTED, COMMITTED = 0, 1
MAX_TIMESTAMP = -3
FIRST_WITH_MAX_TIMESTAMP = 7


@scenario("produce", VERSIONS)
def in_transactions(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    tx = Transactor(t).start()
    old = v < FIRST_WITH_IMPLICIT_PARTITIONS
    end = 4 if old else 5
    sequence = 0
    for commit in (True, False):
        name = "commit" if commit else "abort"
        if old:
            tx.produce(f"{name}: not added", v, a, sequence)
            tx.add(f"{name}: added", 3, (a.name, 0))
        tx.produce(f"{name}: first", v, a, sequence)
        tx.produce(f"{name}: first again", v, a, sequence)
        tx.produce(f"{name}: a gap", v, a, sequence + 3)
        tx.produce(f"{name}: second", v, a, sequence + 1)
        tx.produce(f"{name}: an older epoch", v, a, sequence + 2, epoch=tx.epoch - 1)
        tx.produce(f"{name}: a newer epoch", v, a, sequence + 2, epoch=tx.epoch + 1)
        tx.produce(f"{name}: not transactional", v, a, sequence + 2, attributes=0)
        tx.produce(f"{name}: no id", v, a, sequence + 2, transactional_id=None)
        tx.produce(f"{name}: no id, not transactional", v, a, sequence + 2, attributes=0, transactional_id=None)
        producers(t, f"{name}: producers", a.name, 0)
        for level in (UNCOMMITTED, COMMITTED):
            offsets(t, f"{name}: open, level {level}", a, level)
        read(t, f"{name}: open, committed", a, COMMITTED)
        tx.ended(f"{name}: ended", end, commit)
        producers(t, f"{name}: producers after", a.name, 0)
        read(t, f"{name}: committed", a, COMMITTED)
        read(t, f"{name}: uncommitted", a, UNCOMMITTED)
        for level in (UNCOMMITTED, COMMITTED):
            offsets(t, f"{name}: ended, level {level}", a, level)
        if old:
            sequence += 2
        else:
            tx.produce(f"{name}: an old batch again", v, a, 1, epoch=tx.epoch - 1)
            tx.produce(f"{name}: delayed until after the end", v, a, 2, epoch=tx.epoch - 1)
            tx.produce(f"{name}: the next does not start at 0", v, a, 2)
    t.call(
        "two producers",
        "produce",
        v,
        produce_body(
            a,
            {
                0: t.batch(1, sequence=sequence, pid=tx.producer_id, epoch=tx.epoch, attributes=batches.TRANSACTIONAL),
                1: t.batch(1, sequence=0, pid=tx.producer_id + 1, epoch=0, attributes=batches.TRANSACTIONAL),
            },
        )
        | {"transactional_id": tx.id},
    )


@scenario("produce", VERSIONS)
def in_the_order_tried(t: Talk, v: int) -> None:
    """KIP-890: what is refused while it is verified must not be overtaken."""
    a = t.topic("a", 3)
    tx = Transactor(t).start()
    old = v < FIRST_WITH_IMPLICIT_PARTITIONS
    tx.produce("too early", v, a, 3, epoch=tx.epoch + 1)
    tx.produce("then lower", v, a, 1, epoch=tx.epoch + 1)
    if old:
        tx.add("added", 3, (a.name, 0), (a.name, 1), (a.name, 2))
    tx.produce("the higher one", v, a, 3)
    tx.produce("one lower", v, a, 2)
    tx.produce("the lowest tried", v, a, 1)
    tx.produce("0", v, a, 0)
    tx.produce("the higher one after all", v, a, 3)
    tx.produce("starts at 5", v, a, 5, index=1)
    tx.produce("then 4", v, a, 4, index=1)
    tx.produce("then 5", v, a, 5, index=1)
    tx.produce("starts at 2 with a newer epoch", v, a, 2, index=2, epoch=tx.epoch + 1)
    producers(t, "producers", a.name, 0, 1, 2)
    tx.ended("ended", 4 if old else 5, True)
    tx.produce("delayed until after the end", v, a, 4)
    tx.produce("an old batch again", v, a, 3)
    tx.produce("of nothing: an older epoch", v, a, 0, index=2, epoch=tx.epoch - 1)
    if old:
        tx.add("added again", 3, (a.name, 0))
    tx.produce("the next", v, a, 4 if old else 0)
    producers(t, "producers after", a.name, 0, 1, 2)
    tx.ended("ended again", 4 if old else 5, False)


@scenario("produce", (11, 12, 13))
def tried_and_refused(t: Talk, v: int) -> None:
    """What was refused keeps its place before later batches, whatever it was refused for."""
    a = t.topic("a", 4)
    tx = Transactor(t).start()
    tx.produce("0: of a strange id", v, a, 3, transactional_id=t.prefix + "nobody")
    tx.produce("1: without a sequence", v, a, -1, index=1)
    tx.produce("3: of a strange id", v, a, 0, index=3, transactional_id=t.prefix + "nobody")
    tx.produce("3: outside of transactions", v, a, 2, index=3, attributes=0, transactional_id=None)
    if v < FIRST_WITH_IMPLICIT_PARTITIONS:
        tx.add("added", 3, *((a.name, index) for index in range(4)))
    tx.produce("0: one lower", v, a, 2)
    tx.produce("0: the first", v, a, 0)
    tx.produce("1: the first", v, a, 0, index=1)
    tx.produce("2: the first", v, a, 0, index=2)
    tx.produce("2: of an epoch that is not there yet", v, a, 0, index=2, epoch=tx.epoch + 5)
    tx.produce("2: the second", v, a, 1, index=2)
    tx.produce("2: the first again", v, a, 0, index=2)
    tx.produce("3: the second", v, a, 1, index=3)
    tx.produce("3: the first", v, a, 0, index=3)
    tx.produce("3: the second after all", v, a, 1, index=3)
    producers(t, "producers", a.name, 0, 1, 2, 3)
    tx.ended("ended", 4 if v < FIRST_WITH_IMPLICIT_PARTITIONS else 5, True)
    producers(t, "producers after", a.name, 0, 1, 2, 3)


@scenario("produce", VERSIONS)
def of_strangers(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    tx = Transactor(t).start()
    tx.produce("unknown id", v, a, 0, transactional_id=t.prefix + "nobody")
    tx.produce("another producer", v, a, 0, pid=tx.producer_id + 100_000)
    for nobody in (-1, -2):
        tx.produce(f"producer {nobody}", v, a, 0, index=1, pid=nobody)
    tx.produce("empty id", v, a, 0, transactional_id="")
    tx.produce("unknown partition", v, a, 0, index=7)
    t.call("plain batch", "produce", v, produce_body(a, {0: t.batch(1)}) | {"transactional_id": tx.id})
    t.call("producer ids", "produce", v, produce_body(a, {0: t.batch(1)}) | {"transactional_id": ""})
    t.keep("state", tx.described()["transaction_state"])
    producers(t, "producers", a.name, 0)
    read(t, "what is in the log", a, UNCOMMITTED)


@scenario("produce", (11, 12, 13))
def several_at_once(t: Talk, v: int) -> None:
    """Interleaved transactions: the last stable offset follows the oldest."""
    a = t.topic("a")
    one, two, three = (Transactor(t, name).start() for name in ("one", "two", "three"))
    for name, tx in {"one": one, "two": two, "three": three}.items():
        if v < FIRST_WITH_IMPLICIT_PARTITIONS:
            tx.add(f"{name}: added", 3, (a.name, 0))
        tx.produce(f"{name}: first", v, a, 0)
    t.call("plain", "produce", v, produce_body(a, {0: t.batch(2)}))
    two.produce("two: second", v, a, 1)
    for step, tx, commit in (("two aborts", two, False), ("three commits", three, True), ("one aborts", one, False)):
        tx.ended(step, 5, commit)
        read(t, f"{step}: committed", a, COMMITTED)
        offsets(t, f"{step}: offsets", a, COMMITTED)
    read(t, "uncommitted", a, UNCOMMITTED)


@scenario("fetch", (11,))
def aborted_up_to_the_next_index_entry(t: Talk, v: int) -> None:
    """Which aborted transactions are listed shows where the offset index has entries, and how it is searched."""
    a = t.topic("a", index_interval_bytes="100")
    first, second = Transactor(t, "first").start(), Transactor(t, "second").start()
    for number in range(3):
        t.call(f"plain {number}", "produce", 9, produce_body(a, {0: t.batch(1)}))
    first.produce("first", 12, a, 0)
    first.ended("first is aborted", 5, False)
    t.call("plain between", "produce", 9, produce_body(a, {0: t.batch(1)}))
    second.produce("second", 12, a, 0)
    second.ended("second is aborted", 5, False)
    for start in range(9):
        for most_bytes in (1, 150, 300):
            read(t, f"from {start} on, {most_bytes} bytes", a, COMMITTED, start=start, most_bytes=most_bytes)


@scenario("list_offsets", (5, 10))
def asked_by_no_consumer(t: Talk, v: int) -> None:
    """Isolation is for consumers alone: a request with another replica id sees open transactions, too."""
    a = t.topic("a")
    tx = Transactor(t).start()
    tx.produce("of an open transaction", 12, a, 0)
    for replica_id in (-1, -2, -3, 0, 1, 5):
        for timestamp in (-1, -2, -3, t.t0):
            if v >= FIRST_WITH_MAX_TIMESTAMP or timestamp != MAX_TIMESTAMP:
                asked = [{"partition_index": 0, "timestamp": timestamp}]
                body = {"replica_id": replica_id, "isolation_level": COMMITTED, "timeout": 5000}
                step = f"replica {replica_id}, {'t0' if timestamp == t.t0 else timestamp}"
                t.call(step, "list_offsets", v, body | {"topics": [{"name": a.name, "partitions": asked}]})


def marker(tx: Transactor, topics: list[Any], **fields: Any) -> dict[str, Any]:
    plain = {"producer_id": tx.producer_id, "producer_epoch": tx.epoch, "transaction_result": False}
    return plain | {"coordinator_epoch": 0, "topics": topics} | fields


@scenario("write_txn_markers", (1,))
def writes(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    tx = Transactor(t).start()
    absent = t.name("absent")

    def write(step: str, *topics: tuple[str, tuple[int, ...]], **fields: Any) -> None:
        named = [{"name": name, "partition_indexes": list(indexes)} for name, indexes in topics]
        body = {"markers": [marker(tx, named, **fields)]}
        t.call(step, "write_txn_markers", v, body)

    t.call("none", "write_txn_markers", v, {"markers": []})
    tx.produce("produced", 12, a, 0)
    write("unknown topic", (absent, (0,)))
    write("unknown partition", (a.name, (9,)))
    write("an older epoch", (a.name, (0,)), producer_epoch=tx.epoch - 1)
    write("a negative epoch", (a.name, (0,)), producer_epoch=-1)
    producers(t, "still open", a.name, 0)
    write("aborted", (a.name, (0,)), coordinator_epoch=3)
    producers(t, "not open any more", a.name, 0)
    write("an older coordinator", (a.name, (0,)), coordinator_epoch=2)
    write("again", (a.name, (0,)), coordinator_epoch=3)
    write("no coordinator", (a.name, (0,)), coordinator_epoch=-1)
    write("a newer epoch, commit", (a.name, (0,)), producer_epoch=tx.epoch + 1, transaction_result=True)
    write("a producer never seen, some unknown", (a.name, (0, 1, 9)), (absent, (0,)), producer_id=1 << 41)
    producers(t, "producers", a.name, 0, 1)
    two = [marker(tx, [{"name": a.name, "partition_indexes": [1]}], coordinator_epoch=4) for _ in range(2)]
    t.call("two markers of a producer", "write_txn_markers", v, {"markers": two})
    read(t, "what is in 0", a, UNCOMMITTED)
    read(t, "what is in 1", a, UNCOMMITTED, 1)
    tx.describe("the coordinator knows nothing of it")

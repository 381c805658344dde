"""DeleteRecords 0-2, and what Fetch and ListOffsets say right after it."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.runner import Talk, produce_body, scenario
from tests.conformance.scenarios.fetch import ask as fetch_body
from tests.conformance.scenarios.fetch import place
from tests.conformance.scenarios.offsets import ask as offsets_body
from tests.conformance.transactor import Transactor, producers

VERSIONS = range(3)


def ask(name: str, *partitions: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """(partition, offset) pairs of one topic."""
    asked = [{"partition_index": p, "offset": offset} for p, offset in partitions]
    return {"topics": [{"name": name, "partitions": asked}], "timeout": 1500} | fields


@scenario("delete_records", VERSIONS)
def offsets(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(3), t.batch(2), t.batch(4))
    for offset in (-2, -100, 10, 1 << 40, 0, 2, 1, 5, 4, 9, 10, -1, 9):
        t.call(f"to {offset}, after {len(t.steps)}", "delete_records", v, ask(a.name, (0, offset)))
    t.call("empty partition, to 0", "delete_records", v, ask(a.name, (1, 0)))
    t.call("empty partition, to the end", "delete_records", v, ask(a.name, (1, -1)))
    t.call("empty partition, to 1", "delete_records", v, ask(a.name, (1, 1)))
    t.fill(a, 0, t.batch(2))
    t.call("to the end once more", "delete_records", v, ask(a.name, (0, -1)))


@scenario("delete_records", VERSIONS)
def readers_after_it(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(3), t.batch(2), t.batch(4))
    for start in (1, 3, 4, 9):
        t.call(f"to {start}", "delete_records", v, ask(a.name, (0, start)))
        for offset in sorted({0, start - 1, start, 8, 9, 10}):
            body = fetch_body(place(a, {"partition": 0, "fetch_offset": offset}))
            t.call(f"start {start}, fetch {offset}", "fetch", 12, body)
        for name, timestamp in (("earliest", -2), ("latest", -1), ("max timestamp", -3), ("t0", t.t0)):
            t.call(f"start {start}, {name}", "list_offsets", 7, offsets_body(a.name, (0, timestamp)))
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    body = {"replica_id": -1, "topics": [{"topic": a.name, "partitions": [asked]}]}
    t.call("end of epoch 0", "offset_for_leader_epoch", 4, body)
    t.fill(a, 0, t.batch(1))
    t.call("fetch what came after", "fetch", 12, fetch_body(place(a, {"partition": 0, "fetch_offset": 9})))


@scenario("fetch", (12, 18))
def with_an_epoch_before_the_start(t: Talk, v: int) -> None:
    """Where the log parted from the reader's is told of places that it still has."""
    a = t.topic("a")
    t.fill(a, 0, t.batch(3), t.batch(2))
    t.call("to 2", "delete_records", 2, ask(a.name, (0, 2)))
    for epoch in (0, 1):
        for offset in range(7):
            asked = {"partition": 0, "fetch_offset": offset, "last_fetched_epoch": epoch}
            t.call(f"epoch {epoch}, offset {offset}", "fetch", v, fetch_body(place(a, asked)))


@scenario("delete_records", VERSIONS)
def into_an_open_transaction(t: Talk, v: int) -> None:
    """The last stable offset is where the batch begins that holds the log's start, below that start maybe."""
    a = t.topic("a")
    tx = Transactor(t).start()

    def produce(count: int, sequence: int) -> None:
        batch = t.batch(count, sequence=sequence, pid=tx.producer_id, epoch=tx.epoch, attributes=batches.TRANSACTIONAL)
        t.call(f"{count} from {sequence}", "produce", 12, produce_body(a, {0: batch}) | {"transactional_id": tx.id})

    def look(step: str) -> None:
        for offset in range(8):
            asked = {"partition": 0, "fetch_offset": offset}
            body = fetch_body(place(a, asked), isolation_level=1, min_bytes=0, max_wait=0)
            t.call(f"{step}, fetch {offset}", "fetch", 12, body)
        for timestamp in (-1, -2):
            body = offsets_body(a.name, (0, timestamp)) | {"isolation_level": 1}
            t.call(f"{step}, list {timestamp}", "list_offsets", 7, body)
        producers(t, f"{step}, producers", a.name, 0)

    produce(2, 0)
    produce(3, 2)
    for start in (1, 4, 5):
        t.call(f"to {start}", "delete_records", v, ask(a.name, (0, start)))
        look(f"start {start}")
    produce(2, 5)
    t.call("to 6", "delete_records", v, ask(a.name, (0, 6)))
    look("start 6")
    tx.ended("ended", 5, False)
    look("ended")


@scenario("delete_records", VERSIONS)
def places_and_duplicates(t: Talk, v: int) -> None:
    a = t.topic("a", 3)
    for partition in (0, 1):
        t.fill(a, partition, t.batch(4))
    t.call("unknown topic", "delete_records", v, ask(t.name("ghost"), (0, -1)))
    t.call("empty name", "delete_records", v, ask("", (0, -1)))
    t.call("invalid name", "delete_records", v, ask("a b", (0, -1)))
    t.call("partition -1", "delete_records", v, ask(a.name, (-1, -1)))
    t.call("partition 9", "delete_records", v, ask(a.name, (9, -1)))
    t.call("no topics", "delete_records", v, {"topics": [], "timeout": 1500})
    t.call("no partitions", "delete_records", v, ask(a.name))
    t.call("one good, one out of range, one unknown", "delete_records", v, ask(a.name, (0, 1), (1, 9), (7, 0)))
    t.call("twice, the later one wins", "delete_records", v, ask(a.name, (0, 2), (0, 3)))
    t.call("twice, the later one fails", "delete_records", v, ask(a.name, (1, 2), (1, 9)))
    t.call("what came of it", "delete_records", v, ask(a.name, (0, 0), (1, 0)))
    two = ask(a.name, (0, 4))["topics"] + ask(t.name("ghost"), (0, -1))["topics"]
    t.call("one topic known", "delete_records", v, {"topics": two, "timeout": 1500})
    for timeout in (0, -1):
        t.call(f"timeout {timeout}", "delete_records", v, ask(a.name, (1, -1), timeout=timeout))


@scenario("delete_records", VERSIONS)
def policies(t: Talk, v: int) -> None:
    for policy in ("compact", "compact,delete", "delete,compact"):
        topic = t.topic(policy.replace(",", "-"), cleanup_policy=policy)
        t.call(f"{policy}, to the end", "delete_records", v, ask(topic.name, (0, -1)))
        t.call(f"{policy}, to 0", "delete_records", v, ask(topic.name, (0, 0)))
        t.call(f"{policy}, out of range", "delete_records", v, ask(topic.name, (0, 5)))
        t.call(f"{policy}, unknown partition", "delete_records", v, ask(topic.name, (3, 0)))

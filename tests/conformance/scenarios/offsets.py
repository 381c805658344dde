"""ListOffsets 1-10 and OffsetForLeaderEpoch 2-4."""

from __future__ import annotations

from typing import Any

from tests.conformance.batches import GZIP, record
from tests.conformance.runner import Talk, scenario

VERSIONS = range(1, 11)
SPECIAL = {
    "latest": -1,
    "earliest": -2,
    "max timestamp": -3,
    "earliest local": -4,
    "latest tiered": -5,
    "earliest pending": -6,
    "minus seven": -7,
    "minus a hundred": -100,
}


def ask(name: str, *partitions: tuple[int, int], **fields: Any) -> dict[str, Any]:
    """(partition, timestamp) pairs of one topic."""
    asked = [{"partition_index": p, "timestamp": ts} for p, ts in partitions]
    return {"replica_id": -1, "timeout": 1500, "topics": [{"name": name, "partitions": asked}]} | fields


@scenario("list_offsets", VERSIONS)
def special_timestamps(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    times = [record(offset_delta=i, timestamp_delta=d) for i, d in enumerate((0, 50, 20))]
    t.fill(a, 0, t.batch(2), t.batch(times, max_timestamp=t.t0 + 50), t.batch(1, base_timestamp=t.t0 + 30))
    for name, ts in SPECIAL.items():
        t.call(f"{name}", "list_offsets", v, ask(a.name, (0, ts)))
        t.call(f"{name}, empty partition", "list_offsets", v, ask(a.name, (1, ts)))
        t.call(f"{name}, read committed", "list_offsets", v, ask(a.name, (0, ts), isolation_level=1))
        t.call(f"{name}, unknown partition", "list_offsets", v, ask(a.name, (9, ts)))
    everything = [(0, ts) for ts in SPECIAL.values()]
    t.call("one good and one too new", "list_offsets", v, ask(a.name, (0, -1), (1, -7)))
    t.call("all of one partition", "list_offsets", v, ask(a.name, *everything))


@scenario("list_offsets", VERSIONS)
def by_time(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    times = [record(offset_delta=i, timestamp_delta=d) for i, d in enumerate((100, 500, 200))]
    t.fill(
        a,
        0,
        t.batch(3),
        t.batch(times, max_timestamp=t.t0 + 500),
        t.batch(2, base_timestamp=t.t0 + 50, attributes=GZIP),
    )
    t.fill(a, 0, t.batch(1, base_timestamp=t.t0 + 900))
    for d in (-1000, 0, 1, 2, 3, 50, 51, 150, 201, 500, 501, 900, 901):
        t.call(f"t0 + {d}", "list_offsets", v, ask(a.name, (0, t.t0 + d)))
    t.call("time 0", "list_offsets", v, ask(a.name, (0, 0)))
    t.call("far future", "list_offsets", v, ask(a.name, (0, 1 << 62)))
    t.call("empty partition", "list_offsets", v, ask(a.name, (1, 0)))
    t.call("read committed", "list_offsets", v, ask(a.name, (0, t.t0 + 100), isolation_level=1))


@scenario("list_offsets", VERSIONS)
def places_and_duplicates(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(2))
    t.call("unknown topic", "list_offsets", v, ask(t.name("ghost"), (0, -1)))
    t.call("empty name", "list_offsets", v, ask("", (0, -1)))
    t.call("invalid name", "list_offsets", v, ask("a b", (0, -1)))
    t.call("partition -1", "list_offsets", v, ask(a.name, (-1, -1)))
    t.call("two partitions", "list_offsets", v, ask(a.name, (1, -1), (0, -1)))
    t.call("twice", "list_offsets", v, ask(a.name, (0, -1), (0, -2), (1, -1)))
    twice = ask(a.name, (0, -1))
    t.call("topic twice", "list_offsets", v, twice | {"topics": twice["topics"] * 2})
    two = twice["topics"] + ask(t.name("ghost"), (0, -1))["topics"]
    t.call("one topic known", "list_offsets", v, twice | {"topics": two})
    t.call("no topics", "list_offsets", v, twice | {"topics": []})
    t.call("no partitions", "list_offsets", v, ask(a.name))
    for replica in (-2, -3, 1, 5):
        t.call(f"replica {replica}", "list_offsets", v, ask(a.name, (0, -1), replica_id=replica))
    for level in (2, -1):
        t.call(f"isolation level {level}", "list_offsets", v, ask(a.name, (0, -1), isolation_level=level))


@scenario("list_offsets", VERSIONS)
def leader_epochs(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(2))
    for epoch in (-2, -1, 0, 1, 77):
        for ts in (-1, -2, -3, t.t0):
            asked = {"partition_index": 0, "timestamp": ts, "current_leader_epoch": epoch}
            body = {"replica_id": -1, "topics": [{"name": a.name, "partitions": [asked]}]}
            t.call(f"epoch {epoch}, {'by time' if ts > 0 else ts}", "list_offsets", v, body)


@scenario("list_offsets", VERSIONS)
def records_without_times(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch([record()], base_timestamp=-1), t.batch([record()], base_timestamp=-1))
    for name, ts in (*list(SPECIAL.items())[:3], ("time 0", 0)):
        t.call(name, "list_offsets", v, ask(a.name, (0, ts)))


@scenario("list_offsets", (1, 7, 10))
def log_append_time(t: Talk, v: int) -> None:
    a = t.topic("a", message_timestamp_type="LogAppendTime")
    t.fill(a, 0, t.batch(3), t.batch(2))
    t.call("max timestamp", "list_offsets", v, ask(a.name, (0, -3)), pick=_without_offset)
    t.call("t0", "list_offsets", v, ask(a.name, (0, t.t0)))


def _without_offset(answer: dict[str, Any]) -> Any:
    """The two batches may or may not share a millisecond."""
    partition = answer["topics"][0]["partitions"][0]
    return {k: v for k, v in partition.items() if k != "offset"}


@scenario("list_offsets", (1, 4, 7, 10))
def inside_compressed_batches(t: Talk, v: int) -> None:
    a = t.topic("a", 5)
    times = [record(offset_delta=i, timestamp_delta=d) for i, d in enumerate((10, 70, 30, 50))]
    for codec in range(5):
        t.fill(a, codec, t.batch(times, max_timestamp=t.t0 + 70, attributes=codec))
        for d in (0, 11, 31, 60, 71):
            t.call(f"codec {codec}, t0 + {d}", "list_offsets", v, ask(a.name, (codec, t.t0 + d)))
        t.call(f"codec {codec}, max timestamp", "list_offsets", v, ask(a.name, (codec, -3)))
    recompressed = t.topic("b", compression_type="lz4")
    t.fill(recompressed, 0, t.batch(times, max_timestamp=t.t0 + 70))
    t.call("recompressed, t0 + 31", "list_offsets", v, ask(recompressed.name, (0, t.t0 + 31)))
    t.call("recompressed, max timestamp", "list_offsets", v, ask(recompressed.name, (0, -3)))


@scenario("offset_for_leader_epoch", range(2, 5))
def epochs(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(3))

    def epoch(step: str, name: str, *partitions: dict[str, Any], **fields: Any) -> None:
        body = {"replica_id": -1, "topics": [{"topic": name, "partitions": list(partitions)}]} | fields
        t.call(step, "offset_for_leader_epoch", v, body)

    for e in (-2, -1, 0, 1, 5):
        epoch(f"epoch {e}", a.name, {"partition": 0, "leader_epoch": e})
        epoch(f"epoch {e}, empty partition", a.name, {"partition": 1, "leader_epoch": e})
        asked = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": e}
        epoch(f"current epoch {e}", a.name, asked)
    epoch("unknown partition", a.name, {"partition": 9, "leader_epoch": 0})
    epoch("partition -1", a.name, {"partition": -1, "leader_epoch": 0})
    epoch("unknown topic", t.name("ghost"), {"partition": 0, "leader_epoch": 0})
    epoch("empty name", "", {"partition": 0, "leader_epoch": 0})
    epoch("two", a.name, {"partition": 1, "leader_epoch": 0}, {"partition": 0, "leader_epoch": 0})
    epoch("twice", a.name, {"partition": 0, "leader_epoch": 0}, {"partition": 0, "leader_epoch": 0})
    epoch("no partitions", a.name)
    for replica in (-2, 1, 7):
        epoch(f"replica {replica}", a.name, {"partition": 0, "leader_epoch": 0}, replica_id=replica)
    t.call("no topics", "offset_for_leader_epoch", v, {"topics": []})

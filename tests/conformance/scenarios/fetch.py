"""Fetch 4-18, sessions included."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance import schema
from tests.conformance.batches import GZIP, record
from tests.conformance.runner import Talk, Topic, scenario
from tests.conformance.wire import Frame, decode

VERSIONS = range(4, 19)
WITH_SESSIONS = range(7, 19)
GHOST_ID = "0123456789abcdef0123456789abcdef"


def place(topic: Topic, *partitions: int | dict[str, Any]) -> dict[str, Any]:
    """A topic of a request; partitions by index, from offset 0, or spelt out."""
    full = [{"partition": p} if isinstance(p, int) else p for p in partitions]
    defaults = {"fetch_offset": 0, "partition_max_bytes": 1 << 20}
    return {"topic": topic.name, "topic_id": topic.id, "partitions": [defaults | p for p in full]}


def ask(*topics: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request that does not wait; `fields` override."""
    return {"max_wait": 0, "min_bytes": 0, "replica_id": -1, "session_epoch": -1, "topics": list(topics)} | fields


def get(t: Talk, step: str, v: int, *topics: dict[str, Any], **fields: Any) -> Any:
    return t.call(step, "fetch", v, ask(*topics, **fields))


@scenario("fetch", VERSIONS)
def offsets(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(3), t.batch(2), t.batch(4, attributes=GZIP))
    for offset in (0, 2, 3, 5, 8, 9):
        get(t, f"from {offset}", v, place(a, {"partition": 0, "fetch_offset": offset}))
    for offset in (10, -1, -2, 1 << 40):
        get(t, f"out of range {offset}", v, place(a, {"partition": 0, "fetch_offset": offset}))
    get(t, "an empty partition", v, place(a, 1))
    get(t, "an empty partition from 1", v, place(a, {"partition": 1, "fetch_offset": 1}))
    get(t, "both", v, place(a, 0, 1))
    get(t, "both, other order", v, place(a, 1, 0))
    get(t, "no topics", v)
    get(t, "a topic of no partitions", v, place(a))
    for level in (1, 2, -1):
        get(t, f"isolation level {level}", v, place(a, 0), isolation_level=level)
    for log_start in (0, 5, 100):
        get(
            t, f"log start {log_start}", v, place(a, {"partition": 0, "fetch_offset": 5, "log_start_offset": log_start})
        )
    get(t, "rack", v, place(a, {"partition": 0, "fetch_offset": 5}), rack_id="r1")
    get(t, "cluster id", v, place(a, {"partition": 0, "fetch_offset": 5}), cluster_id="nonsense")


@scenario("fetch", VERSIONS)
def unknown_places(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(1))
    ghost = Topic(t.name("ghost"), GHOST_ID)
    get(t, "partition past the last", v, place(a, 1))
    get(t, "partition -1", v, place(a, -1))
    get(t, "topic that is not", v, place(ghost, 0))
    get(t, "zero id or empty name", v, place(Topic("", schema.NO_ID), 0))
    nameless = place(Topic("", schema.NO_ID), 0)
    get(t, "zero id or empty name, then others", v, nameless, place(a, 0))
    get(t, "zero id or empty name, then an unknown partition", v, nameless, place(a, 1))
    get(t, "an unknown partition, then zero id or empty name", v, place(a, 1), nameless)
    get(t, "zero id or empty name, then an unknown topic", v, nameless, place(ghost, 0))
    get(t, "invalid name", v, place(Topic("a b", schema.NO_ID), 0))
    get(t, "some are", v, place(ghost, 0), place(a, 0, 5))
    get(t, "partition twice", v, place(a, 0, 0))
    get(t, "partition twice, other offset", v, place(a, {"partition": 0, "fetch_offset": 1}, 0))
    get(t, "topic twice", v, place(a, 0), place(a, 0))


@scenario("fetch", VERSIONS)
def leader_epochs(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(2))
    for epoch in (-2, -1, 0, 1, 99):
        get(t, f"current leader epoch {epoch}", v, place(a, {"partition": 0, "current_leader_epoch": epoch}))
    for epoch, offset in ((0, 0), (0, 2), (0, 3), (1, 1), (5, 0), (-2, 0)):
        last = {"partition": 0, "fetch_offset": offset, "last_fetched_epoch": epoch}
        get(t, f"last fetched epoch {epoch} at {offset}", v, place(a, last))


@scenario("fetch", VERSIONS)
def replica_ids(t: Talk, v: int) -> None:
    """A consumer is -1; other ids claim to be followers, debuggers or nothing."""
    a = t.topic("a")
    t.fill(a, 0, t.batch(1))
    for replica in (-2, -3, 1, 5):
        state = {"replica_id": replica, "replica_epoch": -1}
        get(t, f"replica {replica}", v, place(a, 0), replica_id=replica, replica_state=state)
        epoch = {"partition": 0, "current_leader_epoch": 0}
        get(t, f"replica {replica} with epoch", v, place(a, epoch), replica_id=replica, replica_state=state)
    directory = {"partition": 0, "replica_directory_id": GHOST_ID}
    get(t, "directory id", v, place(a, directory))
    get(t, "high watermark known", v, place(a, {"partition": 0, "high_watermark": 1}))


@scenario("fetch", VERSIONS)
def sizes(t: Talk, v: int) -> None:
    """Batches of about 1000, 100 and 1000 bytes in two partitions."""
    a = t.topic("a", 3)
    big, small = t.batch([record(b"x" * 930)]), t.batch([record(b"y" * 30)])
    for p in (0, 1):
        t.fill(a, p, big, small, big)
    for limit in (0, 1, 200, len(big), len(big) + 1, len(big) + len(small), 1 << 30, -1):
        get(t, f"partition max {limit}", v, place(a, {"partition": 0, "partition_max_bytes": limit}))
    for limit in (0, 1, len(big), len(big) + 50, 3 * len(big), 5 * len(big), -1):
        get(t, f"max bytes {limit}", v, place(a, 0, 1), max_bytes=limit)
    limited = [{"partition": p, "partition_max_bytes": 10} for p in (0, 1)]
    get(t, "both partitions tiny", v, place(a, *limited))
    get(t, "both partitions tiny, other order", v, place(a, *reversed(limited)))
    get(t, "an empty one first", v, place(a, {"partition": 2, "partition_max_bytes": 10}, *limited))
    get(t, "an unknown one first", v, place(a, {"partition": 9, "partition_max_bytes": 10}, *limited))
    get(t, "from the middle, cut", v, place(a, {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 150}))
    get(t, "max bytes below partition max", v, place(a, {"partition": 0, "partition_max_bytes": 1500}), max_bytes=100)


@scenario("fetch", (4, 7, 11, 12, 13, 18))
def waits(t: Talk, v: int) -> None:
    """min.bytes and max.wait: what is answered, and whether it took the wait (by 300 ms)."""
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(1))
    end = {"partition": 0, "fetch_offset": 1}
    for step, topics, fields in (
        ("nothing there", (place(a, end),), {"min_bytes": 1}),
        ("enough", (place(a, 0),), {"min_bytes": 1}),
        ("too little", (place(a, 0),), {"min_bytes": 100_000}),
        ("min above max", (place(a, 0),), {"min_bytes": 1000, "max_bytes": 10}),
        ("nothing wanted", (place(a, end),), {"min_bytes": 0}),
        ("min negative", (place(a, end),), {"min_bytes": -1}),
        ("no topics", (), {"min_bytes": 1}),
        ("an error in one", (place(a, end, 7),), {"min_bytes": 1}),
        ("out of range in one", (place(a, end, {"partition": 1, "fetch_offset": 9}),), {"min_bytes": 1}),
    ):
        began = time.monotonic()
        get(t, step, v, *topics, max_wait=300, **fields)
        t.keep(f"{step}: waited", time.monotonic() - began > 0.25)
    began = time.monotonic()
    get(t, "negative wait", v, place(a, end), max_wait=-1, min_bytes=1)
    t.keep("negative wait: waited", time.monotonic() - began > 0.25)
    wire = t.connect(5)
    wire.send(schema.encode_request("fetch", v, ask(place(a, end), max_wait=4000, min_bytes=1)))
    began = time.monotonic()
    t.fill(a, 0, t.batch(2))
    wire.receive()
    t.keep("woken by an append", time.monotonic() - began < 3)


@scenario("fetch", VERSIONS)
def deleted_and_made_again(t: Talk, v: int) -> None:
    old = t.topic("a")
    t.fill(old, 0, t.batch(2))
    t.main.call("delete_topics", 6, {"topics": [{"name": old.name}], "timeout": 5000})
    t.gone(old.name)
    get(t, "gone", v, place(old, 0))
    new = t.topic("a")
    get(t, "new one, by the old id", v, place(Topic(new.name, old.id), 0))
    get(t, "new one", v, place(new, 0))


@scenario("fetch", WITH_SESSIONS)
def sessions(t: Talk, v: int) -> None:
    a, b = t.topic("a", 3), t.topic("b")
    t.fill(a, 0, t.batch(2))
    t.fill(b, 0, t.batch(1))
    first = get(t, "full", v, place(a, 0, 1), place(b, 0), session_id=0, session_epoch=0)
    sid = first["session_id"]

    def next_one(step: str, epoch: int, *topics: dict[str, Any], **fields: Any) -> Any:
        return get(t, step, v, *topics, session_id=sid, session_epoch=epoch, **fields)

    next_one("nothing asked anew", 1)
    next_one("again", 2)
    next_one("one moves on", 3, place(a, {"partition": 0, "fetch_offset": 2}))
    next_one("then", 4)
    t.fill(a, 1, t.batch(1))
    next_one("after an append to another", 5)
    next_one("one is added", 6, place(a, 2))
    next_one("unknown partition added", 7, place(a, 9))
    next_one("it stays", 8)
    next_one("unknown one forgotten", 9, forgotten_topics_data=[_forget(a, 9)])
    next_one("forgotten one", 10, forgotten_topics_data=[_forget(b, 0)])
    next_one("forgotten and asked at once", 11, place(b, 0), forgotten_topics_data=[_forget(b, 0)])
    next_one(
        "what is forgotten was never there", 12, forgotten_topics_data=[_forget(b, 7), _forget(Topic("x", GHOST_ID), 0)]
    )
    next_one("out of range", 13, place(a, {"partition": 0, "fetch_offset": 50}))
    next_one("it stays out of range", 14)
    next_one("wrong epoch, too high", 99)
    next_one("wrong epoch, the last", 14)
    next_one("still usable", 15)
    next_one("negative epoch", -5)
    unknown = sid - 1 if sid > 1 else 2
    get(t, "unknown session", v, place(a, 0), session_id=unknown, session_epoch=1)
    get(t, "unknown session, epoch 0", v, place(a, 0), session_id=unknown, session_epoch=0)
    get(t, "session 0 at epoch 1", v, place(a, 0), session_id=0, session_epoch=1)
    get(t, "on another connection", v, session_id=sid, session_epoch=16)
    next_one("topic gone from the request, max bytes 1", 17, max_bytes=1)
    next_one("closed, with a partition", -1, place(a, 1))
    next_one("after the close", 18)
    again = get(t, "full again", v, place(a, 0), session_id=0, session_epoch=0)
    sid = again["session_id"]
    next_one("replaced by a full one", 0, place(b, 0))
    next_one("the replaced one is gone", 1)


def _forget(topic: Topic, *partitions: int) -> dict[str, Any]:
    return {"topic": topic.name, "topic_id": topic.id, "partitions": list(partitions)}


@scenario("fetch", WITH_SESSIONS)
def sessions_with_unknown_topics(t: Talk, v: int) -> None:
    a = t.topic("a")
    ghost = Topic(t.name("ghost"), GHOST_ID)
    sid = get(t, "full", v, place(ghost, 0), place(a, 0), session_id=0, session_epoch=0)["session_id"]
    get(t, "next", v, session_id=sid, session_epoch=1)
    get(t, "and next", v, session_id=sid, session_epoch=2)
    get(t, "forgotten", v, session_id=sid, session_epoch=3, forgotten_topics_data=[_forget(ghost, 0)])
    get(t, "without it", v, session_id=sid, session_epoch=4)
    get(t, "only an unknown one", v, place(ghost, 0), session_id=0, session_epoch=0)
    get(t, "of no partitions", v, session_id=0, session_epoch=0)


@scenario("fetch", (12, 13, 18))
def unknown_topics_and_unknown_partitions(t: Talk, v: int) -> None:
    """Which of them come first in an answer."""
    a = t.topic("a")
    ghosts = [Topic(t.name(f"ghost{n}"), f"{GHOST_ID[:-1]}{n}") for n in (7, 8)]
    asked = place(a, 7), place(ghosts[0], 0), place(a, 0, 8), place(ghosts[1], 0)
    get(t, "without a session", v, *asked)
    get(t, "as a replica", v, *asked, replica_id=5)
    sid = get(t, "in a new session", v, *asked, session_id=0, session_epoch=0)["session_id"]
    get(t, "next", v, session_id=sid, session_epoch=1)


@scenario("fetch", (7, 11))
def sessions_of_newer_versions(t: Talk, v: int) -> None:
    """A last fetched epoch, which the session keeps, makes an answer that older versions cannot hold."""
    a = t.topic("a")
    t.fill(a, 0, t.batch())
    diverged = {"partition": 0, "fetch_offset": 5, "last_fetched_epoch": 0}
    sid = get(t, "begun", 12, place(a, diverged), session_id=0, session_epoch=0)["session_id"]
    get(t, "gone on with", v, session_id=sid, session_epoch=1)
    get(t, "naming it again", v, place(a, 0), session_id=sid, session_epoch=2)
    get(t, "newer again", 12, place(a, diverged), session_id=sid, session_epoch=3)
    get(t, "naming it in the older version", v, place(a, 0, 1), session_id=sid, session_epoch=4)


@scenario("fetch", (7, 12, 13, 18))
def sessions_and_deletion(t: Talk, v: int) -> None:
    a, b = t.topic("a"), t.topic("b")
    t.fill(a, 0, t.batch(1))
    sid = get(t, "full", v, place(a, 0), place(b, 0), session_id=0, session_epoch=0)["session_id"]
    t.main.call("delete_topics", 6, {"topics": [{"name": a.name}], "timeout": 5000})
    t.gone(a.name)
    get(t, "one is deleted", v, session_id=sid, session_epoch=1)
    t.topic("a")
    get(t, "and made again", v, session_id=sid, session_epoch=2)
    get(t, "next", v, session_id=sid, session_epoch=3)


@scenario("fetch", (7, 11, 12, 13, 17, 18))
def session_names_or_ids(t: Talk, v: int) -> None:
    """A session begun by name and continued by id, or the other way round."""
    a = t.topic("a")
    other = 13 if v < 13 else 12
    sid = get(t, "begun", v, place(a, 0), session_id=0, session_epoch=0)["session_id"]
    get(t, "continued otherwise", other, place(a, 0), session_id=sid, session_epoch=1)
    get(t, "continued as begun", v, session_id=sid, session_epoch=1)
    get(t, "continued as begun, next epoch", v, session_id=sid, session_epoch=2)


@scenario("fetch", WITH_SESSIONS)
def session_order(t: Talk, v: int) -> None:
    """Which partition comes first when max.bytes lets only some through."""
    a = t.topic("a", 4)
    for p in range(4):
        t.fill(a, p, t.batch([record(b"x" * 500)]))
    sid = get(t, "full, room for one", v, place(a, 2, 0, 3, 1), session_id=0, session_epoch=0, max_bytes=10)[
        "session_id"
    ]
    moved = {"partition": 2, "fetch_offset": 1}
    get(t, "the first moves on", v, place(a, moved), session_id=sid, session_epoch=1, max_bytes=10)
    moved = {"partition": 0, "fetch_offset": 1}
    get(t, "the second moves on", v, place(a, moved), session_id=sid, session_epoch=2, max_bytes=10)
    get(t, "nobody moves", v, session_id=sid, session_epoch=3, max_bytes=10)
    get(t, "nobody moves again", v, session_id=sid, session_epoch=4, max_bytes=10)


@scenario("fetch", (4, 11, 13))
def zstd_to_old_consumers(t: Talk, v: int) -> None:
    a = t.topic("a", compression_type="zstd")
    t.fill(a, 0, t.batch(1))
    t.call("zstd", "fetch", v, ask(place(a, 0)), ignore=("size", "crc"))
    get(t, "zstd topic, at its end", v, place(a, {"partition": 0, "fetch_offset": 1}))


@scenario("fetch", range(4, 11))
def zstd_before_10(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(1), t.batch(1, attributes=4))
    get(t, "zstd batch in a producer-compressed topic", v, place(a, 0))
    get(t, "from the zstd batch", v, place(a, {"partition": 0, "fetch_offset": 1}))


@scenario("fetch", (4, 11, 12, 13, 18))
def many_topics(t: Talk, v: int) -> None:
    """The order of the request is kept, over topics too."""
    a, b, c = (t.topic(n, 2) for n in "abc")
    for topic in (a, b, c):
        t.fill(topic, 0, t.batch([record(b"x" * 300)]))
    get(t, "three", v, place(b, 1, 0), place(a, 0), place(c, 0, 1))
    get(t, "room for one", v, place(c, 0), place(a, 0), place(b, 0), max_bytes=100)
    get(t, "room for two", v, place(c, 0), place(a, 0), place(b, 0), max_bytes=750)
    get(t, "a topic apart", v, place(a, 0), place(b, 0), place(a, 1))


@scenario("fetch", (4, 12, 13, 18))
def deletion_ends_a_wait(t: Talk, v: int) -> None:
    a = t.topic("a")
    wire = t.connect(5)
    request = schema.encode_request("fetch", v, ask(place(a, 0), max_wait=4000, min_bytes=1))
    correlation_id = wire.send(request)
    time.sleep(0.1)
    began = time.monotonic()
    t.main.call("delete_topics", 6, {"topics": [{"name": a.name}], "timeout": 5000})
    outcome = wire.receive()
    t.keep("ended early", time.monotonic() - began < 3)
    t.keep("the answer", decode(outcome, "fetch", v, correlation_id) if isinstance(outcome, Frame) else outcome)


@scenario("fetch", (7, 12, 13, 18))
def waits_in_a_session(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    t.fill(a, 0, t.batch(1))
    end = {"partition": 0, "fetch_offset": 1}
    sid = get(t, "full", v, place(a, end, 1), session_id=0, session_epoch=0)["session_id"]
    began = time.monotonic()
    get(t, "nothing new", v, session_id=sid, session_epoch=1, max_wait=300, min_bytes=1)
    t.keep("nothing new: waited", time.monotonic() - began > 0.25)
    wire = t.connect(5)
    body = ask(session_id=sid, session_epoch=2, max_wait=4000, min_bytes=1)
    correlation_id = wire.send(schema.encode_request("fetch", v, body))
    began = time.monotonic()
    t.fill(a, 1, t.batch(2))
    outcome = wire.receive()
    t.keep("woken", time.monotonic() - began < 3)
    t.keep("the answer", decode(outcome, "fetch", v, correlation_id) if isinstance(outcome, Frame) else outcome)


@scenario("fetch", (4, 11, 13))
def over_segments(t: Talk, v: int) -> None:
    """Segments of a megabyte, two batches of 400 kB in each: one answer never spans two."""
    a = t.topic("a", segment_bytes="1048576")
    for i in range(5):
        t.fill(a, 0, t.batch([record(bytes([i]) * 400_000)], base_timestamp=t.t0 + 1000 * i))
    for offset in range(6):
        everything = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 10_000_000}
        get(t, f"from {offset}", v, place(a, everything))
    get(t, "one batch and a half", v, place(a, {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 600_000}))
    for shift in (0, 500, 2000, 2500, 4000, 4001):
        asked = [{"partition_index": 0, "timestamp": t.t0 + shift}]
        body = {"replica_id": -1, "topics": [{"name": a.name, "partitions": asked}]}
        t.call(f"offset at t0 + {shift}", "list_offsets", 7, body)
    asked = [{"partition_index": 0, "timestamp": -3}]
    t.call("max timestamp", "list_offsets", 7, {"replica_id": -1, "topics": [{"name": a.name, "partitions": asked}]})
    t.call("log dirs", "describe_log_dirs", 4, {"topics": [{"topic": a.name, "partitions": [0]}]})


@scenario("fetch", (4, 11, 13))
def within_many_batches(t: Talk, v: int) -> None:
    """Two hundred batches of some hundred bytes: the offset index has entries to be found by."""
    a = t.topic("a")
    for i in range(200):
        t.fill(a, 0, t.batch([record(b"z" * 300, offset_delta=d) for d in range(3)], base_timestamp=t.t0 + i))
    for offset in (0, 1, 44, 45, 46, 299, 300, 301, 597, 598, 599):
        asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1500}
        get(t, f"from {offset}", v, place(a, asked))
    for shift in (0, 1, 57, 58, 59, 120, 199, 200):
        asked = {"partition_index": 0, "timestamp": t.t0 + shift}
        body = {"replica_id": -1, "topics": [{"name": a.name, "partitions": [asked]}]}
        t.call(f"offset at t0 + {shift}", "list_offsets", 7, body)

"""Produce 3-13."""

from __future__ import annotations

import struct
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.batches import GZIP, LOG_APPEND, LZ4, SNAPPY, ZSTD, legacy, record
from tests.conformance.runner import Talk, Topic, produce_body, scenario

VERSIONS = range(3, 14)


def send(t: Talk, step: str, v: int, topic: Topic, records: bytes | None, *, partition: int = 0, **how: Any) -> Any:
    return t.call(step, "produce", v, produce_body(topic, {partition: records}, **how))


def end_offset(t: Talk, step: str, topic: Topic, partition: int = 0) -> None:
    asked = [{"partition_index": partition, "timestamp": -1}]
    t.call(step, "list_offsets", 5, {"replica_id": -1, "topics": [{"name": topic.name, "partitions": asked}]})


@scenario("produce", VERSIONS)
def appends(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    send(t, "first", v, a, t.batch(3))
    send(t, "second goes after", v, a, t.batch(2), acks=1)
    send(t, "large producer timeout", v, a, t.batch(1), timeout=2_000_000)
    send(t, "negative timeout", v, a, t.batch(1), timeout=-1)
    body = produce_body(a, {1: t.batch(1), 0: t.batch(1)})
    t.call("two partitions, high one first", "produce", v, body)
    t.call("no topics", "produce", v, {"acks": -1, "timeout": 1000, "topic_data": []})
    t.call("a topic of no partitions", "produce", v, produce_body(a, {}))
    end_offset(t, "end", a)


@scenario("produce", VERSIONS)
def acks(t: Talk, v: int) -> None:
    a = t.topic("a")
    for value in (-2, 2, 32767):
        send(t, f"acks {value}", v, a, t.batch(1), acks=value)
    end_offset(t, "nothing appended", a)
    wire = t.connect(0.3)
    request = schema.encode_request("produce", v, produce_body(a, {0: t.batch(1)}, acks=0))
    wire.send(request)
    t.keep("acks 0 is not answered", wire.receive())
    t.call("the connection lives on", "metadata", 1, {"topics": []}, wire=wire, timeout=3, pick=lambda _: "answered")
    t.until("acks 0 appended", lambda: _end(t, a) == 1)
    bad = schema.encode_request("produce", v, produce_body(a, {7: t.batch(1)}, acks=0))
    wire = t.connect(2)
    wire.send(bad)
    t.keep("acks 0 with an error", wire.receive())
    wire = t.connect(2)
    wire.send(schema.encode_request("produce", v, {"acks": 0, "timeout": 1000, "topic_data": []}))
    t.keep("acks 0 with nothing", wire.receive(0.3))


def _end(t: Talk, topic: Topic) -> int:
    asked = [{"partition_index": 0, "timestamp": -1}]
    answer = t.main.call("list_offsets", 5, {"replica_id": -1, "topics": [{"name": topic.name, "partitions": asked}]})
    return int(answer["topics"][0]["partitions"][0]["offset"])


@scenario("produce", VERSIONS)
def unknown_places(t: Talk, v: int) -> None:
    a = t.topic("a")
    send(t, "partition past the last", v, a, t.batch(1), partition=1)
    send(t, "partition -1", v, a, t.batch(1), partition=-1)
    ghost = Topic(t.name("ghost"), "12345678123456781234567812345678")
    send(t, "topic that is not", v, ghost, t.batch(1))
    send(t, "topic that is not, no records", v, ghost, b"")
    t.call(
        "and one that is", "produce", v, _two(produce_body(ghost, {0: t.batch(1)}), produce_body(a, {0: t.batch(1)}))
    )
    send(t, "zero id or empty name", v, Topic("", schema.NO_ID), t.batch(1))
    send(t, "invalid name", v, Topic("a b", schema.NO_ID), t.batch(1))
    names = [{"name": ghost.name}]
    t.call("not auto-created", "metadata", 5, {"topics": names, "allow_auto_topic_creation": False}, pick=_topics)


def _two(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return first | {"topic_data": first["topic_data"] + second["topic_data"]}


def _topics(answer: dict[str, Any]) -> Any:
    return answer["topics"]


@scenario("produce", VERSIONS)
def twice_in_one_request(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    one, two = t.batch(1), t.batch(2)
    partitions = [{"index": 0, "records": one}, {"index": 0, "records": two}]
    entry = {"name": a.name, "topic_id": a.id, "partition_data": partitions}
    t.call("partition twice", "produce", v, {"acks": -1, "timeout": 1000, "topic_data": [entry]})
    end_offset(t, "end after partition twice", a)
    t.call("topic twice, other partition", "produce", v, _two(produce_body(a, {0: one}), produce_body(a, {1: two})))
    t.call("topic twice, same partition", "produce", v, _two(produce_body(a, {0: one}), produce_body(a, {0: two})))
    end_offset(t, "end after topic twice", a)


@scenario("produce", VERSIONS)
def twice_and_malformed(t: Talk, v: int) -> None:
    """A partition named several times, not always with a batch that is well formed."""
    a = t.topic("a")
    empty, pair, old = b"", t.batch(1) * 2, t.batch(1, magic=1)
    bad_crc = t.batch(1, crc=1)
    for step, entries in (
        ("good, empty", (t.batch(1), empty)),
        ("empty, good", (empty, t.batch(2))),
        ("good, good, pair", (t.batch(1), t.batch(2), pair)),
        ("pair, empty", (pair, empty)),
        ("empty, pair", (empty, pair)),
        ("magic 1, good, empty", (old, t.batch(3), empty)),
        ("good, bad crc", (t.batch(1), bad_crc)),
        ("bad crc, good", (bad_crc, t.batch(1))),
        ("bad crc, empty", (bad_crc, empty)),
    ):
        partitions = [{"index": 0, "records": records} for records in entries]
        topic = {"name": a.name, "topic_id": a.id, "partition_data": partitions}
        t.call(step, "produce", v, {"acks": -1, "timeout": 1000, "topic_data": [topic]})
        end_offset(t, f"end after {step}", a)
    unknown = [{"index": 7, "records": records} for records in (t.batch(1), empty)]
    topic = {"name": a.name, "topic_id": a.id, "partition_data": unknown}
    t.call("unknown partition", "produce", v, {"acks": -1, "timeout": 1000, "topic_data": [topic]})


@scenario("produce", VERSIONS)
def malformed_records(t: Talk, v: int) -> None:
    """Framing of the record set; every fault is on a partition of its own topic, which must stay empty."""
    a = t.topic("a")
    good = t.batch(1)
    cases: dict[str, bytes | None] = {
        "empty": b"",
        "two batches": good + good,
        "one batch and rubbish after": good + b"\x00" * 5,
        "batch cut in the header": good[:40],
        "batch cut in the records": good[:-1],
        "17 bytes": good[:17],
        "11 bytes": good[:11],
        "one byte": b"\x00",
        "rubbish": bytes(range(7, 107)),
        "zeros": b"\x00" * 80,
        "length too small": t.batch(1, length=10),
        "length 49, header only": t.batch([], payload=b"", count=0, last_offset_delta=0),
        "length 0": t.batch(1, length=0),
        "length negative": t.batch(1, length=-1),
        "length too large": t.batch(1, length=1000),
        "length one too small": t.batch(1, length=len(good) - 13),
        "bad crc": t.batch(1, crc=12345),
        "magic 3": t.batch(1, magic=3),
        "magic -1": t.batch(1, magic=-1),
        "magic 127": t.batch(1, magic=127),
        "magic 0": legacy(0, timestamp=t.t0),
        "magic 1": legacy(1, timestamp=t.t0),
        "magic 1 with a v2 body": t.batch(1, magic=1),
        "base offset 5": t.batch(1, base_offset=5),
        "base offset -1": t.batch(1, base_offset=-1),
    }
    for step, data in cases.items():
        send(t, step, v, a, data)
    end_offset(t, "nothing appended", a)


@scenario("produce", VERSIONS)
def wrong_counts_and_deltas(t: Talk, v: int) -> None:
    a = t.topic("a")
    two = [record(offset_delta=0), record(offset_delta=1)]
    cases = {
        "count too low": t.batch(two, count=1),
        "count too high": t.batch(two, count=3),
        "count 0": t.batch(two, count=0),
        "count negative": t.batch(two, count=-1),
        "no records, count 0": t.batch([], last_offset_delta=0, count=0, payload=b""),
        "no records, delta -1": t.batch([], last_offset_delta=-1, count=0, payload=b""),
        "no records, count 1": t.batch([], last_offset_delta=0, count=1, payload=b""),
        "last delta too low": t.batch(two, last_offset_delta=0),
        "last delta too high": t.batch(two, last_offset_delta=5),
        "last delta negative": t.batch(two, last_offset_delta=-1),
        "last delta and count both high": t.batch(two, last_offset_delta=2, count=3),
        "deltas start at 1": t.batch([record(offset_delta=1), record(offset_delta=2)]),
        "deltas repeat": t.batch([record(offset_delta=0), record(offset_delta=0)]),
        "deltas backwards": t.batch([record(offset_delta=1), record(offset_delta=0)]),
        "delta gap": t.batch([record(offset_delta=0), record(offset_delta=2)], last_offset_delta=2),
        "delta gap, count to match": t.batch(
            [record(offset_delta=0), record(offset_delta=2)], last_offset_delta=2, count=3
        ),
        "record length too long": t.batch([record(length=100)]),
        "record length too short": t.batch([record(length=3)]),
        "record length 0": t.batch([record(length=0)]),
        "record length negative": t.batch([record(length=-1)]),
        "header count too high": t.batch([record(header_count=2)]),
        "header count negative": t.batch([record(header_count=-1)]),
        "null header key": t.batch([record(headers=[(None, b"x")])]),  # type: ignore[list-item]
        "header with null value": t.batch([record(headers=[(b"h", None)])]),
        "record attributes set": t.batch([record(attributes=0x7F)]),
        "bytes after the records": t.batch(two, payload=b"".join(two) + b"\x00\x00"),
        "null key and value": t.batch([record(None, None)]),
        "same in gzip: count too low": t.batch(two, count=1, attributes=GZIP),
        "same in gzip: count too high": t.batch(two, count=3, attributes=GZIP),
        "same in gzip: deltas repeat": t.batch([record(offset_delta=0), record(offset_delta=0)], attributes=GZIP),
        "same in gzip: deltas start at 1": t.batch([record(offset_delta=1), record(offset_delta=2)], attributes=GZIP),
        "same in gzip: last delta too high": t.batch(two, last_offset_delta=5, attributes=GZIP),
        "same in gzip: record length too long": t.batch([record(length=100)], attributes=GZIP),
        "same in gzip: header count too high": t.batch([record(header_count=2)], attributes=GZIP),
        "same in gzip: bytes after the records": t.batch(
            two, payload=batches.COMPRESS[GZIP](b"".join(two) + b"\0\0"), attributes=GZIP
        ),
        "same in lz4: bytes after the records": t.batch(
            two, payload=batches.COMPRESS[LZ4](b"".join(two) + b"\0\0"), attributes=LZ4
        ),
        "same in zstd: count too high": t.batch(two, count=3, attributes=ZSTD) if v >= 7 else t.batch(1),
    }
    for step, data in cases.items():
        send(t, step, v, a, data)
    end_offset(t, "end", a)


@scenario("produce", VERSIONS)
def attributes(t: Talk, v: int) -> None:
    a = t.topic("a")
    cases = {
        "control": batches.CONTROL,
        "transactional without a producer": batches.TRANSACTIONAL,
        "log append bit": LOG_APPEND,
        "delete horizon bit": batches.DELETE_HORIZON,
        "unused bits": 0x7F80,
        "sign bit": -0x8000,
    }
    for step, bits in cases.items():
        send(t, step, v, a, t.batch(1, attributes=bits))
    control_key = struct.pack(">hh", 0, 1)
    marker = record(struct.pack(">hi", 0, 0), control_key)
    send(t, "control with a producer", v, a, t.batch([marker], attributes=48, pid=1, epoch=0, sequence=0))
    send(t, "leader epoch given", v, a, t.batch(1, leader_epoch=77))
    body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    t.call("what is in the log", "fetch", 11, body | {"topics": [{"topic": a.name, "partitions": [partition]}]})


@scenario("produce", VERSIONS)
def compression(t: Talk, v: int) -> None:
    a = t.topic("a")
    for name, codec in (("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)):
        send(t, name, v, a, t.batch(3, attributes=codec))
        send(t, f"{name} rubbish", v, a, t.batch(1, attributes=codec, payload=b"\x01\x02\x03\x04\x05\x06\x07\x08" * 3))
        send(t, f"{name} empty", v, a, t.batch(1, attributes=codec, payload=b""))
    for codec in (5, 6, 7):
        send(t, f"codec {codec}", v, a, t.batch(1, attributes=codec))
    import cramjam

    send(
        t,
        "snappy without frames",
        v,
        a,
        t.batch(1, attributes=SNAPPY, payload=bytes(cramjam.snappy.compress_raw(record()))),
    )
    end_offset(t, "end", a)


@scenario("produce", (3, 6, 7))
def what_is_behind(t: Talk, v: int) -> None:
    """A batch: the same once more, and too little for another."""
    a = t.topic("a")
    for name, codec in (("zstd", ZSTD), ("snappy", SNAPPY), ("codec 5", 5)):
        batch = t.batch(1, attributes=codec)
        send(t, f"{name}: twice", v, a, batch + batch)
        send(t, f"{name}: zeros", v, a, batch + bytes(20))
        send(t, f"{name}: a few zeros", v, a, batch + bytes(5))
    whole = batches.COMPRESS[SNAPPY](record())
    for count in range(5):
        send(t, f"{count} bytes behind a block", v, a, t.batch(1, attributes=SNAPPY, payload=whole + bytes(count)))
    end_offset(t, "end", a)


def read(t: Talk, step: str, topic: Topic, *ignore: str) -> None:
    body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1}
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    t.call(step, "fetch", 11, body | {"topics": [{"topic": topic.name, "partitions": [partition]}]}, ignore=ignore)


@scenario("produce", (3, 8, 11))
def recompression(t: Talk, v: int) -> None:
    for codec in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = t.topic(codec, compression_type=codec)
        send(t, f"plain into {codec}", v, topic, t.batch(3))
        send(t, f"gzip into {codec}", v, topic, t.batch(3, attributes=GZIP))
        send(t, f"bad deltas into {codec}", v, topic, t.batch([record(offset_delta=1)], attributes=GZIP))
        same = record(offset_delta=0)
        send(t, f"deltas repeat into {codec}", v, topic, t.batch([same, same]))
        send(t, f"two batches into {codec}", v, topic, t.batch(1) + t.batch(1))
        pid = {"pid": 4242, "epoch": 3, "sequence": 0}
        send(t, f"idempotent into {codec}", v, topic, t.batch(2, **pid))
        send(t, f"idempotent twice into {codec}", v, topic, t.batch(2, **pid))
        read(t, f"what is in {codec}", topic, "size", "crc")


@scenario("produce", VERSIONS)
def too_large(t: Talk, v: int) -> None:
    a = t.topic("a", max_message_bytes="500")
    fits = 500 - len(t.batch([record(b"")]))
    for step, extra in (("far below", -200), ("just fits", -3), ("just too large", 5), ("far too large", 5000)):
        send(t, step, v, a, t.batch([record(b"x" * (fits + extra))]))
    send(t, "compressed fits", v, a, t.batch([record(b"x" * 5000)], attributes=GZIP))
    send(t, "too large with a bad crc", v, a, t.batch([record(b"x" * 5000)], crc=1))
    send(t, "too large and two batches", v, a, t.batch([record(b"x" * 5000)]) * 2)
    send(t, "too large and codec 7", v, a, t.batch([record(b"x" * 5000)], attributes=7))
    end_offset(t, "end", a)


@scenario("produce", (3, 9, 12))
def larger_than_default(t: Talk, v: int) -> None:
    a = t.topic("a")
    send(t, "1 MiB fits", v, a, t.batch([record(b"x" * ((1 << 20) - 100))]))
    send(t, "1 MiB and 12 bytes of overhead", v, a, t.batch([record(b"x" * ((1 << 20) - 77))]))
    send(t, "more", v, a, t.batch([record(b"x" * (1 << 20))]))
    end_offset(t, "end", a)

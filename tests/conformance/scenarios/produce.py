"""Produce 3-13."""

import struct
import time
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.batches import GZIP, LOG_APPEND, LZ4, SNAPPY, ZSTD, legacy, record
from tests.conformance.runner import Talk, Topic, produce_body, scenario
from tests.conformance.wire import Frame, decode

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


def _read(t: Talk, step: str, topic: Topic, *ignore: str) -> None:
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
        _read(t, f"what is in {codec}", topic, "size", "crc")


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


@scenario("produce", VERSIONS)
def timestamps(t: Talk, v: int) -> None:
    a = t.topic("a", message_timestamp_before_max_ms="36000000", message_timestamp_after_max_ms="3600000")
    hour = 3_600_000
    for step, shift in (("in range", 0), ("too far ahead", 5 * hour), ("too far behind", -20 * hour)):
        send(t, step, v, a, t.batch(1, base_timestamp=t.t0 + shift))
    late = [record(offset_delta=i, timestamp_delta=d) for i, d in enumerate((0, -20 * hour, 5))]
    send(t, "second record too old", v, a, t.batch(late, max_timestamp=t.t0 + 5))
    send(t, "second record too old, gzip", v, a, t.batch(late, max_timestamp=t.t0 + 5, attributes=GZIP))
    send(t, "no timestamp", v, a, t.batch([record()], base_timestamp=-1))
    send(t, "negative timestamp", v, a, t.batch([record()], base_timestamp=-5))
    send(t, "max timestamp wrong", v, a, t.batch(2, max_timestamp=t.t0 + 77))
    send(t, "max timestamp -1", v, a, t.batch(2, max_timestamp=-1))
    send(t, "max timestamp too far, records not", v, a, t.batch(2, max_timestamp=t.t0 + 5 * hour))
    send(t, "max timestamp wrong, gzip", v, a, t.batch(2, max_timestamp=t.t0 + 77, attributes=GZIP))
    many = [record(offset_delta=i, timestamp_delta=-20 * hour) for i in range(20)]
    send(t, "twenty records too old", v, a, t.batch(many, max_timestamp=t.t0))
    _read(t, "what is in the log", a)
    b = t.topic("b")
    send(t, "default: five hours ahead", v, b, t.batch(1, base_timestamp=t.t0 + 5 * hour))
    send(t, "default: 1971", v, b, t.batch([record()], base_timestamp=40_000_000_000))
    send(t, "default: no timestamp", v, b, t.batch([record()], base_timestamp=-1))
    send(t, "default: very negative", v, b, t.batch([record()], base_timestamp=-(1 << 62)))


@scenario("produce", VERSIONS)
def log_append_time(t: Talk, v: int) -> None:
    a = t.topic("a", message_timestamp_type="LogAppendTime")
    send(t, "plain", v, a, t.batch(2))
    send(t, "gzip", v, a, t.batch(2, attributes=GZIP))
    send(t, "far behind", v, a, t.batch(1, base_timestamp=1))
    send(t, "far ahead", v, a, t.batch(1, base_timestamp=4_000_000_000_000))
    send(t, "bit already set", v, a, t.batch(1, attributes=LOG_APPEND))
    pid = {"pid": 99, "epoch": 0, "sequence": 0}
    send(t, "idempotent", v, a, t.batch(1, **pid))
    send(t, "idempotent, again", v, a, t.batch(1, **pid))
    _read(t, "what is in the log", a)


@scenario("produce", VERSIONS)
def compacted(t: Talk, v: int) -> None:
    a = t.topic("a", cleanup_policy="compact")
    send(t, "with a key", v, a, t.batch(1))
    send(t, "null key", v, a, t.batch([record(b"v", None)]))
    some = [record(b"v", b"k", offset_delta=0), record(b"v", None, offset_delta=1), record(b"v", None, offset_delta=2)]
    send(t, "second and third null", v, a, t.batch(some))
    send(t, "null keys in gzip", v, a, t.batch(some, attributes=GZIP))
    send(t, "null keys in lz4", v, a, t.batch(some, attributes=LZ4))
    send(t, "tombstone", v, a, t.batch([record(None, b"k")]))
    send(t, "null keys and a bad count", v, a, t.batch(some, count=2))
    end_offset(t, "end", a)


@scenario("produce", VERSIONS)
def idempotent(t: Talk, v: int) -> None:
    a = t.topic("a", 4)

    def seq(
        step: str, sequence: int, n: int = 1, epoch: int = 0, partition: int = 0, pid: int = 7001, **header: Any
    ) -> None:
        data = t.batch(n, pid=pid, epoch=epoch, sequence=sequence, **header)
        send(t, step, v, a, data, partition=partition)

    seq("0-2", 0, 3)
    seq("0-2 again", 0, 3)
    seq("3", 3)
    seq("3 again", 3)
    seq("0-2 once more", 0, 3)
    seq("0-1, other size", 0, 2)
    seq("5, a gap", 5)
    seq("2, inside", 2)
    seq("4-5", 4, 2)
    for i in range(6, 12):
        seq(f"{i}", i)
    seq("3, older than five batches", 3)
    seq("7, the fifth back", 7)
    seq("6, the sixth back", 6)
    seq("11, the last", 11)
    seq("epoch 1 not from 0", 12, epoch=1)
    seq("epoch 1 from 0", 0, epoch=1)
    seq("epoch 0, fenced", 12, epoch=0)
    seq("epoch 1 goes on", 1, epoch=1)
    seq("epoch 5", 0, epoch=5)
    seq("unknown producer from 5", 5, pid=7002)
    seq("then 6", 6, pid=7002)
    seq("then 5 again", 5, pid=7002)
    seq("sequence at the end of its range", 2147483647, pid=7003, partition=1)
    seq("wraps to 0", 0, pid=7003, partition=1)
    seq("wraps inside a batch", 2147483646, 4, pid=7004, partition=1)
    seq("then 2", 2, pid=7004, partition=1)
    seq("sequence -1", -1, pid=7005, partition=1)
    seq("sequence -2", -2, pid=7005, partition=1)
    seq("epoch -1", 0, epoch=-1, pid=7006, partition=1)
    seq("producer -2", 0, pid=-2, partition=1)
    seq("no producer but a sequence", 0, pid=-1, epoch=-1, partition=1)
    seq("epoch 32767", 0, epoch=32767, pid=7007, partition=1)
    seq("partition 2 knows nothing of it", 0, partition=2)
    seq("gzip", 1, partition=2, attributes=GZIP)
    seq("gzip again", 1, partition=2, attributes=GZIP)
    two = t.batch(1, pid=7008, epoch=0, sequence=0) + t.batch(1, pid=7008, epoch=0, sequence=1)
    send(t, "two batches of a producer", v, a, two, partition=3)
    send(t, "acks 1 duplicate", v, a, t.batch(1, pid=7001, epoch=0, sequence=1, attributes=GZIP), partition=2, acks=1)
    _read(t, "what is in partition 0", a)


@scenario("produce", VERSIONS)
def transactional(t: Talk, v: int) -> None:
    a = t.topic("a")
    body = produce_body(a, {0: t.batch(1)})
    t.call("transactional id, plain batch", "produce", v, body | {"transactional_id": t.prefix + "x"})
    bits = {"attributes": batches.TRANSACTIONAL, "pid": 8001, "epoch": 0, "sequence": 0}
    body = produce_body(a, {0: t.batch(1, **bits)})
    t.call("transactional batch, no id", "produce", v, body)
    end_offset(t, "end", a)


@scenario("produce", VERSIONS)
def min_insync(t: Talk, v: int) -> None:
    a = t.topic("a", min_insync_replicas="2")
    send(t, "acks all", v, a, t.batch(1))
    send(t, "acks 1", v, a, t.batch(1), acks=1)
    end_offset(t, "end", a)


@scenario("produce", (3, 9, 13))
def internal_topic(t: Talk, v: int) -> None:
    """Producing to a topic of Kafka's own is refused to all but itself, where the broker checks it."""
    send(t, "cluster metadata", v, Topic("__cluster_metadata", "00000000000000000000000000000001"), t.batch(1))


@scenario("produce", (9,))
def segments_of_a_small_topic(t: Talk, v: int) -> None:
    a = t.topic("a", segment_bytes="1048576", max_message_bytes="2000000")
    send(t, "batch larger than a segment", v, a, t.batch([record(b"x" * 1_100_000)]))
    send(t, "small batch", v, a, t.batch(1))
    end_offset(t, "end", a)


@scenario("produce", (3, 9, 13))
def null_records(t: Talk, v: int) -> None:
    """Kafka throws on its way to an answer and never gives one."""
    a = t.topic("a")
    send(t, "null records", v, a, None, timeout=500)


@scenario("produce", (3, 9, 12, 13))
def deleted_and_made_again(t: Talk, v: int) -> None:
    old = t.topic("a")
    pid = {"pid": 5005, "epoch": 0}
    send(t, "first life", v, old, t.batch(1, **pid, sequence=0))
    t.main.call("delete_topics", 6, {"topics": [{"name": old.name}], "timeout": 5000})
    t.gone(old.name)
    send(t, "while it is gone", v, old, t.batch(1))
    new = t.topic("a")
    send(t, "by the old id", v, Topic(new.name, old.id), t.batch(1))
    send(t, "by the new id", v, new, t.batch(1, **pid, sequence=1))
    end_offset(t, "end", new)


@scenario("produce", (9, 13))
def many_topics(t: Talk, v: int) -> None:
    topics = [t.topic(n, 2) for n in "abc"]
    entries = [produce_body(topic, {1: t.batch(1), 0: t.batch(2), 5: t.batch(1)})["topic_data"][0] for topic in topics]
    t.call("all", "produce", v, {"acks": -1, "timeout": 1000, "topic_data": entries})
    t.call("all, acks 1", "produce", v, {"acks": 1, "timeout": 1000, "topic_data": entries})


@scenario("produce", VERSIONS)
def one_bad_beside_a_good_one(t: Talk, v: int) -> None:
    """Some faults are noticed before any partition is looked at, and fail the whole request."""
    a = t.topic("a", 2)
    bits = {"attributes": batches.TRANSACTIONAL, "pid": 8001, "epoch": 0, "sequence": 0}
    bad = {
        "magic 3": t.batch(1, magic=3),
        "zeros": b"\x00" * 80,
        "transactional without an id": t.batch(1, **bits),
        "nothing": b"",
        "two batches": t.batch(1) * 2,
        "second batch of magic 3": t.batch(1) + t.batch(1, magic=3),
        "second batch of length 0": t.batch(1) + b"\x00" * 80,
        "second batch transactional": t.batch(1) + t.batch(1, **bits),
        "bad crc": t.batch(1, crc=5),
        "magic 1": legacy(1, timestamp=t.t0),
    }
    for name, data in bad.items():
        t.call(f"{name} last", "produce", v, produce_body(a, {0: t.batch(1), 1: data}))
        t.call(f"{name} first", "produce", v, produce_body(a, {0: data, 1: t.batch(1)}))
    ghost = Topic(t.name("ghost"), "12345678123456781234567812345678")
    send(t, "unknown topic, magic 3", v, ghost, t.batch(1, magic=3))
    send(t, "unknown topic, transactional", v, ghost, t.batch(1, **bits))
    send(t, "unknown topic, acks 2", v, ghost, t.batch(1), acks=2)
    send(t, "acks 2, magic 3", v, a, t.batch(1, magic=3), acks=2)
    send(t, "acks 2, nothing", v, a, b"", acks=2)
    end_offset(t, "end of 0", a, 0)
    end_offset(t, "end of 1", a, 1)


@scenario("produce", (3, 9))
def bytes_behind_a_batch(t: Talk, v: int) -> None:
    a = t.topic("a")
    send(t, "five zeros", v, a, t.batch(1) + b"\x00" * 5)
    send(t, "half a batch", v, a, t.batch(1) + t.batch(1)[:40])
    send(t, "then a good one", v, a, t.batch(1))
    _read(t, "what is in the log", a)


def _set(t: Talk, topic: Topic, key: str, value: str) -> None:
    """Changes one setting of the topic and waits until the broker tells it; then its log has it too, or soon."""
    change = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": 2, "resource_name": topic.name, "configs": [change]}
    t.main.call("incremental_alter_configs", 1, {"resources": [resource], "validate_only": False})
    asked = {"resource_type": 2, "resource_name": topic.name, "configuration_keys": [key]}

    def told() -> bool:
        answer = t.main.call("describe_configs", 4, {"resources": [asked]})
        return bool(answer["results"][0]["configs"][0]["value"] == value)

    t.until(f"{key}={value}", told)
    time.sleep(0.1)


@scenario("produce", (3, 9, 13))
def settings_changed_in_between(t: Talk, v: int) -> None:
    a = t.topic("a")
    large = t.batch([record(b"x" * 3000)])
    send(t, "as created", v, a, large)
    _set(t, a, "max.message.bytes", "1000")
    send(t, "max.message.bytes lowered", v, a, large)
    _set(t, a, "max.message.bytes", "100000")
    send(t, "and raised", v, a, large)
    _set(t, a, "message.timestamp.type", "LogAppendTime")
    send(t, "now with the broker's time", v, a, t.batch(1))
    _set(t, a, "message.timestamp.type", "CreateTime")
    send(t, "and with the producer's again", v, a, t.batch(1))
    _set(t, a, "message.timestamp.before.max.ms", "1000")
    send(t, "too old now", v, a, t.batch(1))
    _set(t, a, "message.timestamp.before.max.ms", "9223372036854775807")
    _set(t, a, "compression.type", "gzip")
    send(t, "now in gzip", v, a, t.batch(2))
    _set(t, a, "cleanup.policy", "compact")
    send(t, "a key is needed now", v, a, t.batch([record(b"v", None)]))
    _set(t, a, "min.insync.replicas", "2")
    send(t, "min.insync.replicas of 2", v, a, t.batch(1))
    _read(t, "what is in the log", a, "size", "crc")


@scenario("produce", (3, 7, 9, 13))
def many_records(t: Talk, v: int) -> None:
    """A thousand records with headers in each compression, and back."""
    a = t.topic("a", 5)
    headers = [(b"trace", b"0123456789"), (b"empty", b""), (b"null", None)]
    records = [
        record(
            b"value %d" % i,
            None if i % 7 == 0 else b"key %d" % (i % 10),
            offset_delta=i,
            timestamp_delta=i,
            headers=headers,
        )
        for i in range(1000)
    ]
    for codec in (batches.NONE, GZIP, SNAPPY, LZ4) + ((ZSTD,) if v >= 7 else ()):
        send(t, f"codec {codec}", v, a, t.batch(records, attributes=codec), partition=codec)
        body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1}
        partition = {"partition": codec, "fetch_offset": 500, "partition_max_bytes": 1 << 20}
        topics = [{"topic": a.name, "partitions": [partition]}]
        t.call(f"codec {codec}: read back", "fetch", 11, body | {"topics": topics}, ignore=("size",))


@scenario("produce", (3, 9, 13))
def flushed_with_every_message(t: Talk, v: int) -> None:
    """The setting moves nothing that a client sees."""
    a = t.topic("a", 2, flush_messages="1")
    for ack in (-1, 1):
        send(t, f"acks {ack}", v, a, t.batch(2), acks=ack)
        _read(t, f"read after acks {ack}", a)
    pid = {"pid": 6001, "epoch": 0, "sequence": 0}
    send(t, "idempotent", v, a, t.batch(1, **pid))
    send(t, "idempotent, again", v, a, t.batch(1, **pid))
    send(t, "refused", v, a, t.batch(1, crc=9))
    t.call("one good, one refused", "produce", v, produce_body(a, {0: t.batch(1), 1: t.batch(1, crc=9)}))
    t.call("one good, one unknown", "produce", v, produce_body(a, {1: t.batch(1), 7: t.batch(1)}))
    _read(t, "what is in the log", a)
    end_offset(t, "end of 0", a)
    end_offset(t, "end of 1", a, 1)


@scenario("produce", (3, 9, 13))
def pipelined(t: Talk, v: int) -> None:
    """Ten requests before the first answer, with and without flushing: answers and offsets in their order."""
    for settings in ({}, {"flush_messages": "1"}):
        name = "flushed" if settings else "plain"
        topic = t.topic(name, **settings)
        wire = t.connect(5)
        ids = []
        for i in range(10):
            body = produce_body(topic, {0: t.batch(1 + i % 3)}, acks=-1 if i % 2 else 1)
            ids.append(wire.send(schema.encode_request("produce", v, body)))
        offsets = []
        for correlation_id in ids:
            outcome = wire.receive()
            if isinstance(outcome, Frame):
                answer = decode(outcome, "produce", v, correlation_id)
                offsets.append(answer["responses"][0]["partition_responses"][0]["base_offset"])
        t.keep(f"{name}: base offsets", offsets)


@scenario("produce", (9,))
def odd_log_settings(t: Talk, v: int) -> None:
    for step, settings in (
        ("an index entry for every batch", {"index_interval_bytes": "0"}),
        ("a tiny index", {"segment_index_bytes": "24", "index_interval_bytes": "0"}),
        ("preallocated", {"preallocate": "true"}),
        ("rolled by time", {"segment_ms": "1000"}),
    ):
        topic = t.topic(step.replace(" ", "-"), **settings)
        for i in range(8):
            send(t, f"{step}: append {i}", v, topic, t.batch(2, base_timestamp=t.t0 + i * 700))
        _read(t, f"{step}: read", topic)
        for offset in (3, 9, 15):
            partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100}
            body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1}
            topics = [{"topic": topic.name, "partitions": [partition]}]
            t.call(f"{step}: read from {offset}", "fetch", 11, body | {"topics": topics})
        for shift in (0, 701, 2800, 4901, 4902):
            asked = [{"partition_index": 0, "timestamp": t.t0 + shift}]
            body = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": asked}]}
            t.call(f"{step}: offset at t0 + {shift}", "list_offsets", 7, body)

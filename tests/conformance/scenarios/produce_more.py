"""Produce 3-13, continued: times, compacted topics, producers, settings, and what the log then holds."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance import batches, schema
from tests.conformance.batches import GZIP, LOG_APPEND, LZ4, SNAPPY, ZSTD, legacy, record
from tests.conformance.runner import Talk, Topic, produce_body, scenario
from tests.conformance.scenarios.produce import VERSIONS, end_offset, read, send
from tests.conformance.wire import Frame, decode


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
    read(t, "what is in the log", a)
    b = t.topic("b", retention_ms="-1")  # else a retention check may come between the old records and the next answer
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
    read(t, "what is in the log", a)


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
    read(t, "what is in partition 0", a)


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
    """Producing to one of Kafka's internal topics is refused, where the broker checks it, to all but its own client."""
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
    read(t, "what is in the log", a)


def _set(t: Talk, topic: Topic, key: str, value: str) -> None:
    """Change one setting of the topic and wait until the broker tells it; then its log has it too, or soon."""
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
    read(t, "what is in the log", a, "size", "crc")


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
        read(t, f"read after acks {ack}", a)
    pid = {"pid": 6001, "epoch": 0, "sequence": 0}
    send(t, "idempotent", v, a, t.batch(1, **pid))
    send(t, "idempotent, again", v, a, t.batch(1, **pid))
    send(t, "refused", v, a, t.batch(1, crc=9))
    t.call("one good, one refused", "produce", v, produce_body(a, {0: t.batch(1), 1: t.batch(1, crc=9)}))
    t.call("one good, one unknown", "produce", v, produce_body(a, {1: t.batch(1), 7: t.batch(1)}))
    read(t, "what is in the log", a)
    end_offset(t, "end of 0", a)
    end_offset(t, "end of 1", a, 1)


@scenario("produce", (3, 9, 13))
def pipelined(t: Talk, v: int) -> None:
    """Ten requests before the first answer, with and without flushing: answers and offsets in their order."""
    for settings in ({}, {"flush_messages": "1"}):
        name = "flushed" if settings else "plain"
        topic = t.topic(name, 1, **settings)
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
        topic = t.topic(step.replace(" ", "-"), 1, **settings)
        for i in range(8):
            send(t, f"{step}: append {i}", v, topic, t.batch(2, base_timestamp=t.t0 + i * 700))
        read(t, f"{step}: read", topic)
        for offset in (3, 9, 15):
            partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 100}
            body: dict[str, Any] = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1}
            topics = [{"topic": topic.name, "partitions": [partition]}]
            t.call(f"{step}: read from {offset}", "fetch", 11, body | {"topics": topics})
        for shift in (0, 701, 2800, 4901, 4902):
            asked = [{"partition_index": 0, "timestamp": t.t0 + shift}]
            body = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": asked}]}
            t.call(f"{step}: offset at t0 + {shift}", "list_offsets", 7, body)

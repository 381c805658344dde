"""CreateTopics 2-7, DeleteTopics 1-6, CreatePartitions 0-3."""

from __future__ import annotations

from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk, Topic, scenario

CREATE = range(2, 8)
DELETE = range(1, 7)
GROW = range(0, 4)
GHOST_ID = "0123456789abcdef0123456789abcdef"


def new(name: str | None, partitions: int = 1, factor: int = 1, **more: Any) -> dict[str, Any]:
    """A topic to create; `assignments` as lists of broker ids by partition, `configs` as a dict."""
    configs = [{"name": k, "value": v} for k, v in more.get("configs", {}).items()]
    assigned = more.get("assignments", {})
    assignments = [
        {"partition_index": p, "broker_ids": b}
        for p, b in (assigned.items() if isinstance(assigned, dict) else assigned)
    ]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "configs": configs,
        "assignments": assignments,
    }


def create(t: Talk, step: str, v: int, *topics: dict[str, Any], **fields: Any) -> Any:
    return t.call(step, "create_topics", v, {"topics": list(topics), "timeout": 3000} | fields)


def exists(t: Talk, step: str, *names: str) -> None:
    """How many partitions each has, once the broker knows all that the controller does."""
    barrier = t.name(f"barrier-{len(t.steps)}")
    body = {"topics": [new(barrier)], "timeout": 3000}
    t.main.call("create_topics", 5, body)
    t.ready(barrier)
    asked = {"topics": [{"name": n} for n in names], "allow_auto_topic_creation": False}
    t.call(step, "metadata", 9, asked, pick=_counts)


def _counts(answer: dict[str, Any]) -> Any:
    return sorted([topic["name"], len(topic["partitions"])] for topic in answer["topics"])


@scenario("create_topics", CREATE)
def creates(t: Talk, v: int) -> None:
    names = [t.name(n) for n in ("a", "b", "c", "d", "e", "f")]
    create(t, "one", v, new(names[0]))
    create(t, "exists", v, new(names[0]))
    create(t, "exists, with other numbers", v, new(names[0], 5, 3))
    create(t, "two", v, new(names[1], 3), new(names[2], 2))
    create(t, "one of two exists", v, new(names[1]), new(names[3]))
    create(t, "default partitions and factor", v, new(names[4], -1, -1))
    create(t, "default factor", v, new(names[5], 2, -1))
    create(t, "none", v)
    exists(t, "are there", *names)


@scenario("create_topics", CREATE)
def validates_only(t: Talk, v: int) -> None:
    a = t.name("a")
    create(t, "good", v, new(a, 3), validate_only=True)
    create(t, "good with configs", v, new(a, 3, configs={"retention.ms": "5"}), validate_only=True)
    create(t, "bad factor", v, new(a, 1, 2), validate_only=True)
    create(t, "bad config", v, new(a, 1, 1, configs={"retention.ms": "x"}), validate_only=True)
    exists(t, "is not there", a)
    create(t, "then for real", v, new(a))
    create(t, "exists", v, new(a), validate_only=True)


@scenario("create_topics", CREATE)
def invalid_names(t: Talk, v: int) -> None:
    for name in ("", ".", "..", "a b", "a/b", "é", "x" * 249 + "y", "a\x00b", "a,b", "a:b", "a\nb"):
        create(t, f"{name[:10]!r} of {len(name)}", v, new(name))
    longest = t.name("x" * (249 - len(t.prefix)))
    create(t, "249 characters", v, new(longest))
    create(t, "dot", v, new(t.name("x.y_z")))
    create(t, "collides", v, new(t.name("x_y.z")))
    create(t, "collide with each other", v, new(t.name("p.q")), new(t.name("p_q")))
    create(t, "a reserved name", v, new("__cluster_metadata"))


@scenario("create_topics", CREATE)
def impossible_numbers(t: Talk, v: int) -> None:
    for partitions in (0, -2, -5):
        create(t, f"{partitions} partitions", v, new(t.name(f"p{partitions}"), partitions))
    for factor in (0, -2, 2, 32767):
        create(t, f"factor {factor}", v, new(t.name(f"f{factor}"), 1, factor))
    create(t, "both wrong", v, new(t.name("both"), 0, 0))
    create(t, "too many partitions", v, new(t.name("many"), 10_001))
    create(t, "far too many", v, new(t.name("many"), 2147483647))
    create(t, "too many in all", v, new(t.name("m1"), 6000), new(t.name("m2"), 6000), validate_only=True)


@scenario("create_topics", CREATE)
def duplicates(t: Talk, v: int) -> None:
    a, b = t.name("a"), t.name("b")
    create(t, "twice", v, new(a), new(a))
    create(t, "twice beside another", v, new(a), new(b), new(a))
    create(t, "three times", v, new(a), new(a), new(a))
    exists(t, "are there", a, b)


@scenario("create_topics", CREATE)
def manual_assignment(t: Talk, v: int) -> None:
    def made(step: str, assignments: Any, partitions: int = -1, factor: int = -1) -> None:
        create(
            t,
            step,
            v,
            new(t.name(step.replace(" ", "-").replace(",", "")), partitions, factor, assignments=assignments),
        )

    made("one", {0: [1]})
    made("three", {0: [1], 1: [1], 2: [1]})
    made("not in order", {2: [1], 0: [1], 1: [1]})
    made("with partitions given", {0: [1]}, partitions=1)
    made("with factor given", {0: [1]}, factor=1)
    made("with both given", {0: [1]}, 1, 1)
    made("unknown broker", {0: [7]})
    made("negative broker", {0: [-1]})
    made("known and unknown broker", {0: [1, 7]})
    made("broker twice", {0: [1, 1]})
    made("no brokers", {0: []})
    made("a gap", {0: [1], 2: [1]})
    made("not from 0", {1: [1]})
    made("negative partition", {-1: [1]})
    made("partition twice", [(0, [1]), (0, [1])])
    made("different factors", {0: [1], 1: []})


@scenario("create_topics", CREATE)
def configs(t: Talk, v: int) -> None:
    def made(step: str, **values: str | None) -> None:
        configs = {k.replace("_", ".").replace("..", "_"): value for k, value in values.items()}
        create(t, step, v, new(t.name(f"c{len(t.steps)}"), configs=configs))

    made("good", cleanup_policy="compact", retention_ms="1000", segment_bytes="1048576")
    made("cleanup both", cleanup_policy="compact,delete")
    made("unknown name", no_such_config="1")
    made("a broker's name", log_retention_ms="1")
    made("null value", retention_ms=None)
    for step, key, value in (
        ("not a number", "retention_ms", "x"),
        ("empty number", "retention_ms", ""),
        ("below the range", "retention_ms", "-2"),
        ("above the range", "max_message_bytes", "2147483648"),
        ("negative", "max_message_bytes", "-1"),
        ("float", "max_message_bytes", "1.5"),
        ("spaces", "max_message_bytes", " 1000 "),
        ("not in the list", "cleanup_policy", "shred"),
        ("empty list", "cleanup_policy", ""),
        ("list with a wrong one", "cleanup_policy", "compact,shred"),
        ("list with spaces", "cleanup_policy", "compact, delete"),
        ("same twice in a list", "cleanup_policy", "delete,delete"),
        ("not a boolean", "preallocate", "yes"),
        ("boolean in capitals", "preallocate", "TRUE"),
        ("compression unknown", "compression_type", "brotli"),
        ("compression in capitals", "compression_type", "GZIP"),
        ("timestamp type unknown", "message_timestamp_type", "Now"),
        ("timestamp type in small", "message_timestamp_type", "logappendtime"),
        ("ratio above 1", "min_cleanable_dirty_ratio", "1.1"),
        ("ratio not a number", "min_cleanable_dirty_ratio", "half"),
        ("segment too small", "segment_bytes", "13"),
        ("segment below a megabyte", "segment_bytes", "1000"),
        ("segment of a megabyte", "segment_bytes", "1048576"),
        ("segment.ms zero", "segment_ms", "0"),
        ("min isr 0", "min_insync_replicas", "0"),
        ("min isr 2", "min_insync_replicas", "2"),
        ("retention above any log", "retention_bytes", "9223372036854775808"),
        ("gzip level 0", "compression_gzip_level", "0"),
        ("gzip level 10", "compression_gzip_level", "10"),
        ("gzip level -1", "compression_gzip_level", "-1"),
        ("lz4 level 18", "compression_lz4_level", "18"),
        ("zstd level 23", "compression_zstd_level", "23"),
        ("remote storage", "remote_storage_enable", "true"),
        ("local retention above retention", "local_retention_ms", "999999999999"),
        ("local retention -3", "local_retention_ms", "-3"),
        ("unclean election", "unclean_leader_election_enable", "true"),
        ("throttled replicas", "leader_replication_throttled_replicas", "0:1"),
        ("throttled replicas, all", "leader_replication_throttled_replicas", "*"),
        ("throttled replicas, nonsense", "leader_replication_throttled_replicas", "x"),
        ("downconversion", "message_downconversion_enable", "true"),
        ("message format", "message_format_version", "3.0"),
        ("difference max", "message_timestamp_difference_max_ms", "1000"),
        ("max compaction lag", "max_compaction_lag_ms", "0"),
        ("index interval negative", "index_interval_bytes", "-1"),
        ("internal segment bytes", "internal_segment_bytes", "1000"),
        ("errors deadletterqueue", "errors_deadletterqueue_topic_name", "x"),
    ):
        made(step, **{key: value})
    made("two wrong", retention_ms="x", max_message_bytes="y")
    made("compaction lags crossed", min_compaction_lag_ms="10", max_compaction_lag_ms="5")
    name = t.name("twice")
    entry = new(name)
    entry["configs"] = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    create(t, "same name twice", v, entry)


@scenario("delete_topics", DELETE)
def deletes(t: Talk, v: int) -> None:
    a, b, c = (t.topic(n) for n in "abc")

    def drop(step: str, *names: str) -> None:
        body = {"topic_names": list(names), "topics": [{"name": n} for n in names], "timeout": 3000}
        t.call(step, "delete_topics", v, body)

    drop("one", a.name)
    drop("again", a.name)
    drop("unknown", t.prefix + "ghost")
    drop("one of two known", b.name, t.prefix + "ghost")
    drop("twice", c.name, c.name)
    drop("twice beside another", c.name, c.name, t.prefix + "ghost")
    drop("empty name", "")
    drop("invalid name", "a b")
    drop("none")
    exists(t, "left", a.name, b.name, c.name)
    d = t.topic("d")
    t.call("timeout 0", "delete_topics", v, {"topic_names": [d.name], "topics": [{"name": d.name}], "timeout": 0})
    t.call("timeout -1", "delete_topics", v, {"topic_names": [c.name], "topics": [{"name": c.name}], "timeout": -1})


@scenario("delete_topics", (6,))
def deletes_by_id(t: Talk, v: int) -> None:
    a, b, c, d = (t.topic(n) for n in "abcd")

    def drop(step: str, *entries: tuple[str | None, str]) -> None:
        body = {"topics": [{"name": n, "topic_id": i} for n, i in entries], "timeout": 3000}
        t.call(step, "delete_topics", v, body)

    drop("one", (None, a.id))
    drop("again", (None, a.id))
    drop("unknown", (None, GHOST_ID))
    drop("id and name", (b.name, b.id))
    drop("neither", (None, schema.NO_ID))
    drop("twice", (None, b.id), (None, b.id))
    drop("by id and by name", (None, b.id), (b.name, schema.NO_ID))
    drop("unknown and known", (None, GHOST_ID), (None, c.id))
    drop("unknown twice", (None, GHOST_ID), (None, GHOST_ID))
    drop("one by id, one by name", (None, b.id), (d.name, schema.NO_ID))
    exists(t, "left", a.name, b.name, c.name, d.name)


@scenario("delete_topics", (1, 6))
def deletes_internal(t: Talk, v: int) -> None:
    name = "__cluster_metadata"
    t.call("cluster metadata", "delete_topics", v, {"topic_names": [name], "topics": [{"name": name}], "timeout": 3000})


@scenario("create_partitions", GROW)
def grows(t: Talk, v: int) -> None:
    a, b = t.topic("a"), t.topic("b", 2)

    def grow(step: str, *topics: tuple[str, int, list[list[int]] | None], **fields: Any) -> None:
        entries = [
            {"name": n, "count": c, "assignments": None if s is None else [{"broker_ids": ids} for ids in s]}
            for n, c, s in topics
        ]
        t.call(step, "create_partitions", v, {"topics": entries, "timeout": 3000, "validate_only": False} | fields)

    grow("to 3", (a.name, 3, None))
    grow("to 3 again", (a.name, 3, None))
    grow("to 2", (a.name, 2, None))
    for count in (0, -1, -7):
        grow(f"to {count}", (a.name, count, None))
    grow("validate only", (a.name, 9, None), validate_only=True)
    grow("validate only, wrong", (a.name, 1, None), validate_only=True)
    grow("unknown", (t.name("ghost"), 3, None))
    grow("empty name", ("", 3, None))
    grow("twice", (a.name, 4, None), (a.name, 5, None))
    grow("twice beside another", (a.name, 4, None), (a.name, 5, None), (b.name, 3, None))
    grow("one known", (t.name("ghost"), 3, None), (b.name, 4, None))
    grow("none")
    grow("assigned", (a.name, 5, [[1], [1]]))
    grow("too few assignments", (a.name, 8, [[1]]))
    grow("too many assignments", (a.name, 6, [[1], [1]]))
    grow("no assignments", (a.name, 6, []))
    grow("unknown broker", (a.name, 6, [[9]]))
    grow("broker twice", (a.name, 6, [[1, 1]]))
    grow("no brokers", (a.name, 6, [[]]))
    grow("two brokers, one unknown", (a.name, 6, [[1, 2]]))
    grow("too many", (a.name, 100_000, None), validate_only=True)
    exists(t, "in the end", a.name, b.name)
    t.ready(a.name, 5)
    t.fill(Topic(a.name, a.id), 4, t.batch(1))


@scenario("create_topics", CREATE)
def timeouts(t: Talk, v: int) -> None:
    """No time at all is too little, but the topic may come to be all the same."""
    for timeout in (0, -1, 1):
        name = t.name(f"t{timeout}")
        answer = t.main.call("create_topics", v, {"topics": [new(name)], "timeout": timeout})
        t.keep(f"timeout {timeout}", answer if timeout < 1 else "either")


@scenario("create_partitions", GROW)
def grow_timeouts(t: Talk, v: int) -> None:
    a = t.topic("a")
    for timeout in (0, -1):
        entry = {"name": a.name, "count": 3, "assignments": None}
        t.call(f"timeout {timeout}", "create_partitions", v, {"topics": [entry], "timeout": timeout})


@scenario("create_topics", (2, 5, 7))
def too_many_records(t: Talk, v: int) -> None:
    """One for each topic, partition and setting of a request, and 10,000 at most."""
    a, b = t.name("a"), t.name("b")
    retention = {"retention.ms": "5"}
    create(t, "10,000 partitions", v, new(a, 10_000), validate_only=True)
    create(t, "9,999 and a setting", v, new(a, 9_999, configs=retention), new("", 1), validate_only=True)
    create(t, "two topics", v, new(a, 5_000), new(b, 4_999), validate_only=True)
    create(t, "9,999 partitions that cannot be, and a topic", v, new(a, 9_999, 2), new(b, 5), validate_only=True)

"""Metadata 0-13, DescribeCluster 0-2, DescribeTopicPartitions 0."""

from __future__ import annotations

from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk, scenario

VERSIONS = range(0, 14)
GHOST_ID = "0123456789abcdef0123456789abcdef"


def named(*names: str | None, **fields: Any) -> dict[str, Any]:
    return {"topics": [{"name": n} for n in names], "allow_auto_topic_creation": False} | fields


def mine(t: Talk) -> Any:
    """The part of an answer for all topics that is this run's own."""

    def pick(answer: dict[str, Any]) -> Any:
        return answer | {"topics": [topic for topic in answer["topics"] if topic["name"].startswith(t.prefix)]}

    return pick


def get(t: Talk, step: str, v: int, body: dict[str, Any], **how: Any) -> Any:
    return t.call(step, "metadata", v, body, **how)


@scenario("metadata", VERSIONS)
def topics(t: Talk, v: int) -> None:
    a, b = t.topic("a", 3), t.topic("b")
    get(t, "all", v, {"topics": [] if v == 0 else None}, pick=mine(t))
    get(t, "none", v, {"topics": []}, pick=mine(t))
    get(t, "one", v, named(a.name))
    get(t, "two", v, named(b.name, a.name))
    get(t, "one twice", v, named(a.name, a.name))
    # Versions below 4 create what they do not find, in Kafka's own time: no name is asked for twice.
    get(t, "unknown twice", v, named(*[t.name("x1")] * 2))
    get(t, "one and an unknown one", v, named(t.name("x2"), a.name))
    for flag in ("include_cluster_authorized_operations", "include_topic_authorized_operations"):
        get(t, flag, v, named(a.name, t.name(flag), **{flag: True}))
        get(t, f"{flag}, invalid name", v, named("a b", **{flag: True}))
    if v == 0:
        get(t, "null topics", v, {"topics": None}, pick=mine(t))


@scenario("metadata", VERSIONS)
def invalid_names(t: Talk, v: int) -> None:
    for auto in (False, True):
        for name in ("", ".", "..", "a b", "a/b", "é", "x" * 250, "a\x00b", "a,b", "a:b"):
            get(t, f"{name[:10]!r} of {len(name)}, auto {auto}", v, named(name, allow_auto_topic_creation=auto))


@scenario("metadata", VERSIONS)
def creates(t: Talk, v: int) -> None:
    name = t.name("made")
    get(t, "not allowed", v, named(t.name("no"), allow_auto_topic_creation=False))
    get(t, "first answer", v, named(name, allow_auto_topic_creation=True))
    t.until("made", lambda: t.main.call("metadata", 5, named(name))["topics"][0]["error_code"] == "0 NONE")
    t.ready(name)
    get(t, "then", v, named(name))
    two = (t.name("m2"), t.name("m3"))
    get(t, "two at once, and an invalid one", v, named(*two, "a b", allow_auto_topic_creation=True))
    t.until("made", lambda: t.main.call("metadata", 5, named(*two))["topics"][1]["error_code"] == "0 NONE")
    t.topic("x.y_z")
    clash = t.name("x_y.z")
    get(t, "collides with x.y_z", v, named(clash, allow_auto_topic_creation=True))
    get(t, "collides, asked again", v, named(clash, allow_auto_topic_creation=False))
    if v < 4:
        t.until(
            "made", lambda: t.main.call("metadata", 5, named(t.prefix + "no"))["topics"][0]["error_code"] == "0 NONE"
        )


@scenario("metadata", range(10, 14))
def by_id(t: Talk, v: int) -> None:
    a, b = t.topic("a", 2), t.topic("b")

    def ids(*entries: dict[str, Any]) -> dict[str, Any]:
        return {"topics": list(entries), "allow_auto_topic_creation": False}

    get(t, "by id", v, ids({"topic_id": a.id, "name": None}))
    get(t, "two by id", v, ids({"topic_id": b.id, "name": None}, {"topic_id": a.id, "name": None}))
    get(t, "one twice", v, ids({"topic_id": a.id, "name": None}, {"topic_id": a.id, "name": None}))
    get(t, "unknown id", v, ids({"topic_id": GHOST_ID, "name": None}))
    get(t, "unknown id and a known one", v, ids({"topic_id": GHOST_ID, "name": None}, {"topic_id": a.id, "name": None}))
    get(t, "zero id, no name", v, ids({"topic_id": schema.NO_ID, "name": None}))
    get(t, "id and name", v, ids({"topic_id": a.id, "name": a.name}))
    get(t, "id and another's name", v, ids({"topic_id": a.id, "name": b.name}))
    get(t, "id and the name of an internal topic", v, ids({"topic_id": a.id, "name": "__consumer_offsets"}))
    get(
        t,
        "one by id, one by name",
        v,
        ids({"topic_id": a.id, "name": None}, {"topic_id": schema.NO_ID, "name": b.name}),
    )
    operations = ids({"topic_id": a.id, "name": None}) | {"include_topic_authorized_operations": True}
    get(t, "operations", v, operations)
    unknown = ids({"topic_id": GHOST_ID, "name": None}) | {"include_topic_authorized_operations": True}
    get(t, "operations on an unknown id", v, unknown)
    get(
        t,
        "zero id beside a name",
        v,
        ids({"topic_id": schema.NO_ID, "name": None}, {"topic_id": schema.NO_ID, "name": a.name}),
    )


@scenario("describe_cluster", range(0, 3))
def cluster(t: Talk, v: int) -> None:
    t.call("plain", "describe_cluster", v, {})
    t.call("operations", "describe_cluster", v, {"include_cluster_authorized_operations": True})
    t.call("fenced ones too", "describe_cluster", v, {"include_fenced_brokers": True})
    for kind in (0, 1, 2, 3):
        t.call(f"endpoint type {kind}", "describe_cluster", v, {"endpoint_type": kind})


@scenario("describe_topic_partitions")
def partitions(t: Talk, v: int) -> None:
    a, b = t.topic("a", 3), t.topic("b", 2)
    c = t.topic("c")

    def ask(step: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        where = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
        body = {"topics": [{"name": n} for n in names], "response_partition_limit": limit, "cursor": where}
        return t.call(step, "describe_topic_partitions", v, body)

    ask("one", a.name)
    ask("not in order", c.name, a.name)
    ask("twice", a.name, a.name)
    ask("unknown", t.name("ghost"))
    ask("unknown between", a.name, t.name("bb"), c.name)
    for name in ("", "a b", "..", "x" * 250):
        ask(f"invalid {name[:5]!r}", name)
    for limit in (0, -1, 1, 2, 3, 4, 5, 6, 3000):
        ask(f"limit {limit}", a.name, b.name, c.name, limit=limit)
    for p in (-2, -1, 0, 1, 2, 3, 9):
        ask(f"cursor a {p}", a.name, b.name, c.name, cursor=(a.name, p))
    ask("cursor b 1", a.name, b.name, c.name, cursor=(b.name, 1))
    ask("cursor b 1, limit 1", a.name, b.name, c.name, cursor=(b.name, 1), limit=1)
    ask("cursor on the last", a.name, c.name, cursor=(c.name, 0))
    ask("cursor past the last", a.name, cursor=(c.name, 0))
    ask("cursor on one that is not asked for", a.name, c.name, cursor=(b.name, 1))
    ask("cursor on one that is not", a.name, c.name, cursor=(t.name("b-ghost"), 0))
    ask("cursor with an empty name", a.name, cursor=("", 0))
    ask("limit 1 with an unknown", t.name("a-ghost"), b.name, limit=1)

    def own(answer: dict[str, Any]) -> Any:
        return [topic for topic in answer["topics"] if (topic["name"] or "").startswith(t.prefix)]

    body = {"topics": [], "response_partition_limit": 2000, "cursor": {"topic_name": t.prefix, "partition_index": 0}}
    t.call("all, from this run's on", "describe_topic_partitions", v, body, pick=own)

"""APIs that move replicas, leaders, log folders and features, as one node answers them; producer ids; telemetry."""

from __future__ import annotations

from typing import Any

from tests.conformance import schema
from tests.conformance.runner import Talk, scenario

GHOST_ID = "0123456789abcdef0123456789abcdef"


@scenario("describe_log_dirs", range(1, 5))
def log_dirs(t: Talk, v: int) -> None:
    a, b = t.topic("a", 2), t.topic("b")
    t.fill(a, 0, t.batch(3))

    def ask(step: str, *topics: tuple[str, list[int]]) -> None:
        body = {"topics": [{"topic": n, "partitions": p} for n, p in topics]}
        t.call(step, "describe_log_dirs", v, body)

    ask("one", (a.name, [0]))
    ask("two of one", (a.name, [0, 1]))
    ask("two topics", (a.name, [1]), (b.name, [0]))
    ask("unknown partition", (a.name, [0, 9]))
    ask("unknown topic", (t.name("ghost"), [0]))
    ask("no partitions", (a.name, []))
    ask("none")
    ask("twice", (a.name, [0, 0]))

    def own(answer: dict[str, Any]) -> Any:
        for result in answer["results"]:
            result["topics"] = [x for x in result["topics"] if x["name"].startswith(t.prefix)]
        return answer

    t.call("all", "describe_log_dirs", v, {"topics": None}, pick=own)


@scenario("alter_replica_log_dirs", range(1, 3))
def moves_between_folders(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    own = t.main.call("describe_log_dirs", 4, {"topics": []})["results"][0]["log_dir"]

    def move(step: str, path: str, *topics: tuple[str, list[int]]) -> None:
        dirs = [{"path": path, "topics": [{"name": n, "partitions": p} for n, p in topics]}]
        t.call(step, "alter_replica_log_dirs", v, {"dirs": dirs})

    move("where it is", own, (a.name, [0]))
    move("unknown partition", own, (a.name, [9]))
    move("unknown topic", own, (t.name("ghost"), [0]))
    move("unknown folder", "/no/such/folder", (a.name, [0]))
    move("unknown folder and topic", "/no/such/folder", (t.prefix + "ghost", [0]))
    move("relative folder", "data", (a.name, [0, 1]))
    move("empty folder", "", (a.name, [0]))
    move("no topics", own)
    move("twice", own, (a.name, [0, 0]))
    t.call("none", "alter_replica_log_dirs", v, {"dirs": []})


@scenario("elect_leaders", range(0, 3))
def elections(t: Talk, v: int) -> None:
    a = t.topic("a", 2)

    def elect(step: str, kind: int, *topics: tuple[str, list[int]]) -> None:
        body = {
            "election_type": kind,
            "topic_partitions": [{"topic": n, "partitions": p} for n, p in topics],
            "timeout": 3000,
        }
        t.call(step, "elect_leaders", v, body)

    for kind in (0, 1):
        elect(f"kind {kind}", kind, (a.name, [0]))
        elect(f"kind {kind}, both", kind, (a.name, [1, 0]))
        elect(f"kind {kind}, unknown partition", kind, (a.name, [9]))
        elect(f"kind {kind}, partition -1", kind, (a.name, [-1]))
        elect(f"kind {kind}, unknown topic", kind, (t.name("ghost"), [0]))
        elect(f"kind {kind}, no partitions", kind, (a.name, []))
        elect(f"kind {kind}, partition twice", kind, (a.name, [0, 0]))
        elect(f"kind {kind}, none", kind)
    elect("kind 2", 2, (a.name, [0]))
    elect("kind -1", -1, (a.name, [0]))
    elect("invalid name", 0, ("a b", [0]))

    def own(answer: dict[str, Any]) -> Any:
        mine = [r for r in answer["replica_election_results"] if r["topic"] == a.name]
        return answer | {"replica_election_results": mine}

    for kind in (0, 1):
        everything = {"election_type": kind, "topic_partitions": None, "timeout": 3000}
        t.call(f"kind {kind}, all", "elect_leaders", v, everything, pick=own)


@scenario("describe_quorum", range(0, 3))
def quorum(t: Talk, v: int) -> None:
    """The offsets, epochs, times and controller's listener are each broker's own."""
    metadata = "__cluster_metadata"

    def ask(step: str, *topics: tuple[str, list[int]], pick: Any = None) -> None:
        listed = [{"topic_name": n, "partitions": [{"partition_index": p} for p in ps]} for n, ps in topics]
        t.call(step, "describe_quorum", v, {"topics": listed}, pick=pick)

    def impersonal(answer: dict[str, Any]) -> Any:
        one = answer["topics"][0]["partitions"][0]
        voter = one["current_voters"][0]
        one["leader_epoch"] = one["leader_epoch"] > 0
        one["high_watermark"], voter["log_end_offset"] = 0 < one["high_watermark"] == voter["log_end_offset"], "<n>"
        for key in ("last_fetch_timestamp", "last_caught_up_timestamp"):
            if key in voter:
                voter[key] = t.normalise.time(voter[key])
        for node in answer.get("nodes", ()):
            node["listeners"] = all(one["host"] == t.host and one["port"] > 0 for one in node["listeners"])
        return answer

    ask("metadata", (metadata, [0]), pick=impersonal)
    ask("another partition", (metadata, [1]))
    ask("partition -1", (metadata, [-1]))
    ask("partition twice", (metadata, [0, 0]))
    ask("two partitions", (metadata, [0, 1]))
    ask("no partitions", (metadata, []))
    ask("topic twice", (metadata, [0]), (metadata, [0]))
    ask("and another topic", (metadata, [0]), (t.prefix + "ghost", [0, 1]))
    ask("another topic", (t.topic("a").name, [0]))
    ask("unknown topic", (t.prefix + "ghost", [0, 1]), (t.prefix + "none", []))
    ask("empty name", ("", [0]))
    ask("none")


@scenario("alter_partition_reassignments", range(0, 2))
def reassignments(t: Talk, v: int) -> None:
    a = t.topic("a", 2)

    def assign(step: str, *topics: tuple[str, list[tuple[int, list[int] | None]]], **fields: Any) -> None:
        entries = [
            {"name": n, "partitions": [{"partition_index": p, "replicas": r} for p, r in ps]} for n, ps in topics
        ]
        body = {"topics": entries, "timeout": 3000} | fields
        t.call(step, "alter_partition_reassignments", v, body)

    assign("to where it is", (a.name, [(0, [1])]))
    assign("to an unknown broker", (a.name, [(0, [2])]))
    assign("to one known and one unknown", (a.name, [(0, [1, 2])]))
    assign("to none", (a.name, [(0, [])]))
    assign("to one twice", (a.name, [(0, [1, 1])]))
    assign("to a negative broker", (a.name, [(0, [-1])]))
    assign("cancel what is not going on", (a.name, [(0, None)]))
    assign("unknown partition", (a.name, [(9, [1])]))
    assign("cancel at an unknown partition", (a.name, [(9, None)]))
    assign("unknown topic", (t.name("ghost"), [(0, [1])]))
    assign("good and bad", (a.name, [(0, [1]), (1, [5])]))
    assign("partition twice", (a.name, [(0, [1]), (0, [1])]))
    assign("topic twice", (a.name, [(0, [1])]), (a.name, [(1, [1])]))
    assign("no partitions", (a.name, []))
    assign("none")
    assign("no change of the factor", (a.name, [(0, [1, 2])]), allow_replication_factor_change=False)


@scenario("list_partition_reassignments")
def ongoing_reassignments(t: Talk, v: int) -> None:
    a = t.topic("a")

    def ask(step: str, topics: Any) -> None:
        t.call(step, "list_partition_reassignments", v, {"topics": topics, "timeout": 3000})

    ask("all", None)
    ask("none", [])
    ask("one", [{"name": a.name, "partition_indexes": [0]}])
    ask("unknown partition", [{"name": a.name, "partition_indexes": [5]}])
    ask("unknown topic", [{"name": t.name("ghost"), "partition_indexes": [0]}])
    ask("no partitions", [{"name": a.name, "partition_indexes": []}])


@scenario("update_features", range(0, 3))
def features(t: Talk, v: int) -> None:
    """Nothing here may change the features of the judge: dry runs where the version has them, refusals otherwise."""

    def update(step: str, *features: tuple[str, int, int], **fields: Any) -> None:
        entries = [
            {"feature": n, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind > 1}
            for n, level, kind in features
        ]
        body = {"feature_updates": entries, "timeout": 3000, "validate_only": True} | fields
        t.call(step, "update_features", v, body)

    update("none")
    update("unknown feature", ("no.such", 1, 1))
    update("empty name", ("", 1, 1))
    update("metadata.version too high", ("metadata.version", 999, 1))
    update("metadata.version to 0", ("metadata.version", 0, 2))
    update("metadata.version to -1", ("metadata.version", -1, 1))
    update("metadata.version down, not allowed", ("metadata.version", 20, 1))
    update("transaction.version too high", ("transaction.version", 99, 1))
    update("twice", ("no.such", 1, 1), ("no.such", 1, 1))
    update("two, both wrong", ("no.such", 1, 1), ("metadata.version", 999, 1))
    update("two, both wrong, the second told", ("share.version", -1, 1), ("kraft.version", 27, 1))
    update("twice, wrong otherwise", ("no.such", 2, 1), ("no.such", 99, 1))
    update("twice, the last one right", ("metadata.version", 999, 1), ("metadata.version", 27, 1))
    if v == 0:
        update("metadata.version down, allowed as version 0 says it", ("metadata.version", 26, 2))
    update("kraft.version too high", ("kraft.version", 99, 1))
    if v >= 1:
        update("upgrade type 0", ("transaction.version", 2, 0))
        update("upgrade type 9", ("transaction.version", 2, 9))
        update("to what it is", ("transaction.version", 2, 1))
        update("group.version down, safe", ("group.version", 0, 2))
        update("group.version down, not allowed", ("group.version", 0, 1))
        update("transaction.version down, safe", ("transaction.version", 1, 2))
        update("transaction.version down, unsafe", ("transaction.version", 0, 3))
        update("share.version up", ("share.version", 1, 1))
        update("metadata.version unsafe down", ("metadata.version", 20, 3))
        update("metadata.version down by one, safe", ("metadata.version", 32, 2))
        update("metadata.version down by one, unsafe", ("metadata.version", 32, 3))
        update("kraft.version to what it is, safe", ("kraft.version", 0, 2))
        update("kraft.version to what it is, unsafe", ("kraft.version", 0, 3))
        update("eligible.leader.replicas.version", ("eligible.leader.replicas.version", 1, 1))


@scenario("init_producer_id", range(0, 6))
def idempotent_producers(t: Talk, v: int) -> None:
    def init(step: str, timeout: int = 60_000, **fields: Any) -> Any:
        return t.call(step, "init_producer_id", v, {"transactional_id": None, "transaction_timeout": timeout} | fields)

    first = init("new")
    init("another")
    for timeout in (0, -1, 2147483647):
        init(f"timeout {timeout}", timeout)
    init("with the first's id and epoch", producer_id=first.get("producer_id", 0), producer_epoch=0)
    init("with an id but no epoch", producer_id=first.get("producer_id", 0), producer_epoch=-1)
    init("with an epoch but no id", producer_id=-1, producer_epoch=3)
    init("with an id never given", producer_id=1 << 40, producer_epoch=3)
    init("empty transactional id", transactional_id="")


@scenario("get_telemetry_subscriptions")
def telemetry(t: Talk, v: int) -> None:
    """Nobody subscribed to metrics: the broker wants none."""
    answer = t.call("first", "get_telemetry_subscriptions", v, {"client_instance_id": schema.NO_ID})
    client = answer.get("client_instance_id", schema.NO_ID)
    t.call("too soon again", "get_telemetry_subscriptions", v, {"client_instance_id": client})
    t.call("with an id of its own", "get_telemetry_subscriptions", v, {"client_instance_id": GHOST_ID})


@scenario("push_telemetry")
def pushes(t: Talk, v: int) -> None:
    import secrets

    answer = t.main.call("get_telemetry_subscriptions", 0, {"client_instance_id": schema.NO_ID})
    good = {
        "client_instance_id": answer["client_instance_id"],
        "subscription_id": answer["subscription_id"],
        "metrics": b"",
    }
    t.call("unknown client", "push_telemetry", v, good | {"client_instance_id": secrets.token_hex(16)})
    t.call("zero id", "push_telemetry", v, good | {"client_instance_id": schema.NO_ID})
    t.call("wrong subscription", "push_telemetry", v, good | {"subscription_id": 12345})

    def fresh() -> dict[str, Any]:
        got = t.main.call("get_telemetry_subscriptions", 0, {"client_instance_id": schema.NO_ID})
        return {
            "client_instance_id": got["client_instance_id"],
            "subscription_id": got["subscription_id"],
            "metrics": b"",
        }

    good = fresh()
    t.call("empty", "push_telemetry", v, good)
    t.call("too soon again", "push_telemetry", v, good)
    t.call("terminating", "push_telemetry", v, good | {"terminating": True})
    t.call("after terminating", "push_telemetry", v, good | {"terminating": True})
    t.call("unknown compression", "push_telemetry", v, fresh() | {"compression_type": 9})
    t.call("rubbish", "push_telemetry", v, fresh() | {"metrics": b"\x01\x02\x03"})
    t.call("too large", "push_telemetry", v, fresh() | {"metrics": b"\x00" * 1_048_577})

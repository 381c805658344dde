"""What `fuzz` found: requests that no client sends, which show the order of Kafka's checks."""

from __future__ import annotations

from typing import Any

from tests.conformance import batches
from tests.conformance.runner import Talk, produce_body, scenario
from tests.conformance.scenarios.committed_offsets import Committer, partition, topic
from tests.conformance.transactor import Transactor

NO_TIME = 0
OLDER = -1
UNKNOWN_LEVEL = 2


def fetch(t: Talk, step: str, v: int, topics: list[Any], **fields: Any) -> None:
    body = {"max_wait": 0, "min_bytes": 0, "session_epoch": -1, "max_bytes": 1 << 20, "topics": topics}
    t.call(step, "fetch", v, body | fields)


@scenario("fetch", (4, 7, 12, 13, 18))
def odd(t: Talk, v: int) -> None:
    a = t.topic("a")
    t.fill(a, 0, t.batch(3))
    absent = t.name("absent")

    def of(offset: int, size: int = 1 << 20, **fields: Any) -> list[Any]:
        asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size} | fields
        return [{"topic": a.name, "topic_id": a.id, "partitions": [asked]}]

    fetch(t, "less than no bytes, beyond the end", v, of(9, -1))
    fetch(t, "less than no bytes, at the end", v, of(3, -1))
    fetch(t, "less than no bytes", v, of(0, -1))
    fetch(t, "unknown isolation level", v, of(0), isolation_level=UNKNOWN_LEVEL)
    fetch(t, "unknown isolation level, no topic", v, [], isolation_level=UNKNOWN_LEVEL)
    unknown = [{"topic": absent, "topic_id": "f" * 32, "partitions": [{"partition": 0}]}]
    fetch(t, "unknown isolation level, unknown topic", v, unknown, isolation_level=UNKNOWN_LEVEL)
    replica: dict[str, Any] = (
        {"replica_state": {"replica_id": 7, "replica_epoch": -1}} if v >= 15 else {"replica_id": 7}
    )
    fetch(t, "a replica of another epoch", v, of(0, current_leader_epoch=5), **replica)


@scenario("fetch", (4, 11))
def aborted_without_room(t: Talk, v: int) -> None:
    """Nothing can be read any more, but what was aborted is told."""
    a, b = t.topic("a"), t.topic("b")
    tx = Transactor(t).start()
    t.fill(a, 0, t.batch(3))
    tx.add("added", 3, (b.name, 0))
    tx.produce("produced", 9, b, 0)
    tx.ended("aborted", 3, False)
    asked = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": one.name, "partitions": asked} for one in (a, b)]
    for room in (1, 80, 1 << 20):
        fetch(t, f"room for {room}", v, topics, max_bytes=room, isolation_level=1)


@scenario("list_offsets", (2, 5, 10))
def unknown_isolation_level(t: Talk, v: int) -> None:
    a = t.topic("a")
    asked = [{"partition_index": index, "timestamp": -1} for index in (0, 0, 7)]
    topics = [{"name": name, "partitions": asked} for name in (a.name, t.name("absent"))]
    body = {"replica_id": -1, "isolation_level": UNKNOWN_LEVEL, "topics": topics}
    t.call("unknown level", "list_offsets", v, body)


@scenario("produce", (3, 9, 12))
def odd_transactions(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    tx = Transactor(t).start()
    if v < 12:
        tx.add("added", 3, (a.name, 0))
    tx.produce("zstd", v, a, 0, attributes=batches.TRANSACTIONAL | batches.ZSTD)
    tx.produce("produced", v, a, 0)
    tx.produce("no transactional id in words", v, a, 0, index=1, transactional_id="")
    tx.produce("nobody's", v, a, 0, pid=-1, epoch=-1)
    tx.produce("an older epoch", v, a, 0, epoch=tx.epoch + OLDER)
    tx.produce("an older epoch, no transactional id in words", v, a, 0, epoch=tx.epoch + OLDER, transactional_id="")
    wrong = produce_body(
        a,
        {index: t.batch(1, sequence=5, pid=tx.producer_id, epoch=tx.epoch, attributes=16) for index in (0, 1, 9)},
        acks=5,
    )
    t.call("unknown acks", "produce", v, wrong | {"transactional_id": tx.id})


@scenario("produce", (3, 9, 13))
def never_answered(t: Talk, v: int) -> None:
    """acks=0 is closed on over whatever fails the request as a whole, too."""
    a = t.topic("a")
    t.call("no batch at all", "produce", v, produce_body(a, {0: t.batch(1, magic=-1)}, acks=0), timeout=1)
    t.call("transactional", "produce", v, produce_body(a, {0: t.batch(1, attributes=16)}, acks=0), timeout=1)


@scenario("offset_commit", (2, 7, 9))
def without_partitions(t: Talk, v: int) -> None:
    a = t.topic("a", 2)
    c = Committer(t)
    absent = t.name("absent")
    c.commit("no partition", v, topic(a.name))
    c.commit("no partition of an unknown topic", v, topic(absent))
    c.commit("of both, and one", v, topic(absent), topic(a.name), topic(a.name, partition(1)))
    c.commit("twice", v, topic(a.name, partition(0)), topic(a.name, partition(0, 6), partition(1)))
    c.committed("committed", a.name)
    wanted = [{"name": a.name, "partitions": []}, {"name": absent, "partitions": []}]
    t.call("deletes nothing", "offset_delete", 0, {"group_id": c.group, "topics": wanted})
    c.delete()


@scenario("describe_configs", (1, 4))
def unknown_type_among_others(t: Talk, v: int) -> None:
    a = t.topic("a")
    resources = [
        {"resource_type": kind, "resource_name": a.name, "configuration_keys": ["retention.ms"]} for kind in (2, 99)
    ]
    t.call("fails them all", "describe_configs", v, {"resources": resources}, ignore=("error_message",))


@scenario("metadata", (12, 13))
def id_among_names(t: Talk, v: int) -> None:
    a, b = t.topic("a"), t.topic("b")
    both = {"topic_id": a.id, "name": b.name}
    quiet = {"allow_auto_topic_creation": False}
    t.call("id and name", "metadata", v, quiet | {"topics": [both]})
    t.call("and neither", "metadata", v, quiet | {"topics": [both, {"name": None}]})
    t.call("neither", "metadata", v, quiet | {"topics": [{"name": None}]})


@scenario("create_topics", (7,))
def no_time(t: Talk, v: int) -> None:
    """The controller needs none for requests that leave it nothing to do."""
    name = t.name("a")
    one = {"name": name, "num_partitions": 1, "replication_factor": 1}
    for step, topics in (("nothing", []), ("twice", [one, one]), ("one", [one])):
        t.call(f"create {step}", "create_topics", v, {"topics": topics, "timeout": NO_TIME})
    for step, names in (("nothing", []), ("twice", [name, name]), ("one", [name])):
        t.call(f"delete {step}", "delete_topics", 5, {"topic_names": names, "timeout": NO_TIME})
        wanted = [{"name": each, "count": 5} for each in names]
        t.call(f"grow {step}", "create_partitions", 3, {"topics": wanted, "timeout": NO_TIME})
        elected = [{"topic": each, "partitions": [0]} for each in names]
        body = {"election_type": 7, "topic_partitions": elected, "timeout": NO_TIME}
        t.call(f"elect {step}", "elect_leaders", 2, body)
        moved = [{"name": each, "partitions": [{"partition_index": 0, "replicas": None}]} for each in names]
        t.call(f"move {step}", "alter_partition_reassignments", 1, {"topics": moved, "timeout": NO_TIME})


@scenario("write_txn_markers", (1,))
def of_nobody(t: Talk, v: int) -> None:
    a = t.topic("a")
    named = [{"name": a.name, "partition_indexes": [0, 9]}]
    for producer_id, epoch in ((-1, 0), (5, -1), (5, -2), (-2, -2)):
        one = {"producer_id": producer_id, "producer_epoch": epoch, "transaction_result": False, "topics": named}
        t.call(f"{producer_id}, {epoch}", "write_txn_markers", v, {"markers": [one]})

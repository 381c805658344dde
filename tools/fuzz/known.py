"""Where `fuzz` expects the brokers to differ: the deviations of docs/compatibility.md that random requests meet.

And where Kafka would differ from itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.conformance import schema
from tests.conformance.deviations import answered, names_what_is_wrong
from tools.fuzz import share_consumers
from tools.fuzz.damage import Damage
from tools.fuzz.symbols import Named

Body = dict[str, Any]
Case = tuple[str, Callable[[Body], bool], Callable[[Any, Any], bool]]
"""An API, what its request has in it, and what (Kafka's answer, ours) may be."""
NOT_READY = (1, 2, 3)
"""Statuses of a streams group: topics are missing, or are partitioned differently."""
TASKS = ("active_tasks", "standby_tasks", "warmup_tasks", "active_partitions", "standby_partitions")


def anything(_: Any, __: Any) -> bool:
    return True


def answers_where_kafka_is_silent(expected: Any, got: Any) -> bool:
    return bool(expected == "silence" and isinstance(got, dict))


def begins_anew(expected: Any, got: Any) -> bool:
    """Kafka has forgotten a group without members, which a JoinGroup that it refused was for."""
    both = isinstance(expected, dict) and isinstance(got, dict)
    return both and expected.get("member_epoch") == 1 and got == expected | {"member_epoch": got["member_epoch"]}


def shares_by_ids(expected: Any, got: Any) -> bool:
    """Whose partitions are free already goes by ids, and those of classic members each broker makes up.

    Kafka's own answers to one conversation vary so. Where all ids are ours, partitions are told and not their number.
    """
    if not (isinstance(expected, dict) and isinstance(got, dict)):
        return False
    numbers = [*named(expected, "partitions"), *named(got, "partitions")]
    counted = bool(numbers) and all(isinstance(number, int) for number in numbers)
    return counted and got == expected | {"assignment": got["assignment"]}


def refuses_its_isolation_level(_: Any, got: Any) -> bool:
    return isinstance(got, dict) and str(got.get("error_code", "42 ")).startswith("42 ")


def has_endpoints_and_no_topics(expected: Any, got: Any) -> bool:
    """Kafka looks for the partitions of endpoints though the topology is not ready, and finds none."""
    both = isinstance(expected, dict) and isinstance(got, dict)
    return (
        both
        and str(expected.get("error_code")).startswith("-1 ")
        and any(status["status_code"] in NOT_READY for status in got["status"])
    )


def assigns_by_hashes(expected: Any, got: Any) -> bool:
    """Which of several members with equal claims gets a task goes by the order of Kafka's hash maps."""
    return isinstance(expected, dict) and _without_tasks(expected) == _without_tasks(got)


def _without_tasks(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: bool(inner is not None) if name in TASKS else _without_tasks(inner) for name, inner in value.items()
        }
    return [_without_tasks(one) for one in value] if isinstance(value, list) else value


def counts_endpoints_anew(expected: Any, got: Any) -> bool:
    """Where a streams group takes the place of an empty classic one, Kafka counts its first endpoint at once."""
    both = isinstance(expected, dict) and isinstance(got, dict)
    return both and got == expected | {"endpoint_information_epoch": got.get("endpoint_information_epoch")}


def assigns_by_ids(expected: Any, got: Any) -> bool:
    """As `shares_by_ids`; and where Kafka still counts a member that matched by an expression."""
    return isinstance(expected, dict) and without(expected, "topic_partitions") == without(got, "topic_partitions")


def without(value: Any, gone: str) -> Any:
    if isinstance(value, dict):
        return {name: without(inner, gone) for name, inner in value.items() if name != gone}
    return [without(one, gone) for one in value] if isinstance(value, list) else value


def tells_an_assignment(expected: Any, got: Any) -> bool:
    """Whether a member's partitions are others now, goes by the order of Kafka's hash maps."""
    both = isinstance(expected, dict) and isinstance(got, dict)
    return both and without(expected, "assignment") == without(got, "assignment")


def counts_later(expected: Any, got: Any) -> bool:
    """Kafka counts the partitions of internal topics a moment after they are made."""
    for topics in ("state_changelog_topics", "repartition_source_topics"):
        expected, got = without(expected, topics), without(got, topics)
    return isinstance(expected, dict) and expected == got


def ended_another_session(_: Any, got: Any) -> bool:
    """With a connection Kafka ends the session that it began last, ours every one."""
    return isinstance(got, dict) and str(got.get("error_code")).startswith("122 ")


def named(body: Any, key: str) -> Iterator[Any]:
    """Every value of that name in the body."""
    if isinstance(body, dict):
        for name, value in body.items():
            if name == key:
                yield value
            yield from named(value, key)
    elif isinstance(body, list):
        for item in body:
            yield from named(item, key)


def _resource_twice(body: Body) -> bool:
    names = [(r["resource_type"], r["resource_name"]) for r in body["resources"] or ()]
    return len(set(names)) < len(names)


def _partition_twice(body: Body) -> bool:
    """Kafka takes the last batch that is well formed."""
    places = [
        (str(topic.get("name")), str(topic.get("topic_id")), partition["index"])
        for topic in body["topic_data"] or ()
        for partition in topic["partition_data"] or ()
    ]
    return len(set(places)) < len(places)


def _transaction_twice(body: Body) -> bool:
    ids = [one["transactional_id"] for one in body.get("transactions") or ()]
    return len(set(ids)) < len(ids)


def _protocol_twice(body: Body) -> bool:
    names = [protocol["name"] for protocol in body["protocols"] or ()]
    return len(set(names)) < len(names)


def _subtopology_twice(body: Body) -> bool:
    ids = [each["subtopology_id"] for each in (body["topology"] or {}).get("subtopologies") or ()]
    return len(set(ids)) < len(ids)


def _offsets_twice(body: Body) -> bool:
    topics = [group["topics"] or () for group in body["groups"]]
    names = [[str(topic["topic_name"]) for topic in each] for each in topics]
    indexes = [topic["partitions"] for each in topics for topic in each]
    return any(len(set(each)) < len(each) for each in (*names, *indexes))


def _topic_twice(body: Body) -> bool:
    names = [str(topic["name"]) for topic in body.get("v3_and_below_topics") or ()]
    return len(set(names)) < len(names)


def _batch_backwards(body: Body) -> bool:
    return any(batch["first_offset"] > batch["last_offset"] for each in named(body, "state_batches") for batch in each)


def _alters_oddly(body: Body) -> bool:
    """Kafka makes a group though nothing is altered, and fails at a negative partition; or a topic is there twice."""
    names = [str(topic["topic_name"]) for topic in body["topics"] or ()]
    return len(set(names)) < len(names) or any(
        not topic["partitions"] or any(each["partition_index"] < 0 for each in topic["partitions"])
        for topic in body["topics"] or ()
    )


def _is_too_early(body: Body) -> bool:
    """A fetch that waits for nothing meets a share partition that is not yet loaded."""
    return bool(body["min_bytes"] == 0 and body["group_id"] != Named(share_consumers.GROUPS[0]))


def _group_without_members(body: Body) -> bool:
    """Only requests that are sent by brokers give it states."""
    return any(group["group_id"] == Named(share_consumers.GROUPS[1]) for group in body["groups"])


CASES: tuple[Case, ...] = (
    ("join_group", _protocol_twice, answered),
    ("produce", lambda body: None in named(body, "records"), anything),
    ("produce", _partition_twice, answered),
    ("alter_configs", _resource_twice, answered),
    ("add_partitions_to_txn", lambda body: not body.get("transactions", True), answered),
    ("write_txn_markers", lambda _: True, answers_where_kafka_is_silent),
    ("add_partitions_to_txn", _transaction_twice, answered),
    ("add_partitions_to_txn", _topic_twice, answered),
    ("write_share_group_state", _batch_backwards, answered),
    ("share_fetch", lambda body: body["max_bytes"] < 0 or body.get("share_acquire_mode") not in (None, 0, 1), answered),
    ("share_fetch", _is_too_early, answered),
    ("share_group_heartbeat", lambda _: True, tells_an_assignment),
    ("share_fetch", lambda _: True, ended_another_session),
    ("share_acknowledge", lambda _: True, ended_another_session),
    ("alter_share_group_offsets", _alters_oddly, answered),
    ("consumer_group_describe", lambda _: True, assigns_by_ids),
    (
        "describe_topic_partitions",
        lambda body: 2**31 - 1 in [(body.get("cursor") or {}).get("partition_index")],
        anything,
    ),
    ("fetch", lambda body: body["isolation_level"] not in (0, 1), refuses_its_isolation_level),
    ("fetch", lambda body: body["max_bytes"] < 0 or any(n < 0 for n in named(body, "partition_max_bytes")), answered),
    (
        "fetch",
        lambda body: any(i in (None, schema.NO_ID) for i in named(body, "topic_id")),
        answers_where_kafka_is_silent,
    ),
    ("describe_share_group_offsets", lambda _: True, answers_where_kafka_is_silent),
    ("describe_share_group_offsets", _offsets_twice, anything),
    ("describe_share_group_offsets", _group_without_members, anything),
    ("streams_group_heartbeat", _subtopology_twice, answered),
    ("streams_group_heartbeat", lambda _: True, has_endpoints_and_no_topics),
    ("streams_group_heartbeat", lambda _: True, assigns_by_hashes),
    ("streams_group_heartbeat", lambda body: body["member_epoch"] == 0, counts_endpoints_anew),
    ("streams_group_describe", lambda _: True, assigns_by_hashes),
    ("streams_group_describe", lambda _: True, counts_later),
    ("consumer_group_heartbeat", lambda body: body["member_epoch"] == 0, begins_anew),
    ("consumer_group_heartbeat", lambda _: True, shares_by_ids),
)


def known(api: str, body: Body, damage: Damage | None, expected: Any, got: Any) -> bool:
    """Whether a listed deviation explains it."""
    if isinstance(got, dict) and isinstance(got.get("late"), list) and got.get("answer") == expected:
        ends = (("sync_group", "25 UNKNOWN_MEMBER_ID"),) if api == "leave_group" else ()
        return all(
            code == "27 REBALANCE_IN_PROGRESS" or (waiting, code) in ends
            for waiting, code in ((waiting, answer.get("error_code")) for waiting, answer in got["late"])
        )
    return names_what_is_wrong(expected, got) or any(
        name == api and has(body) and accepts(expected, got) for name, has, accepts in CASES
    )

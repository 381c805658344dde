"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions: codes as a real Kafka gave them."""

from __future__ import annotations

import asyncio
import datetime
import uuid
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsAssignment, CreatePartitionsTopic
from kio.schema.create_topics.v7.request import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.describe_topic_partitions.v0.request import Cursor, TopicRequest

from tests.unit.broker.admin_rig import Rig

SECOND = datetime.timedelta(seconds=1)
Assignments = tuple[tuple[int, tuple[int, ...]], ...]


def wanted(
    name: str, partitions: int = 1, factor: int = 1, assignments: Assignments = (), **configs: str | None
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(CreatableReplicaAssignment(partition_index=i, broker_ids=b) for i, b in assignments),
        configs=tuple(CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()),
    )


async def create(rig: Rig, *topics: CreatableTopic, **fields: Any) -> dict[str, str]:
    answer = await rig.ask("create_topics", topics=topics, timeout=SECOND, **fields)
    return {one.name: one.error_code.name for one in answer.topics}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted("t"), "none"),
        (wanted("t", -1, -1), "none"),
        (wanted("t", 0), "invalid_partitions"),
        (wanted("t", -2), "invalid_partitions"),
        (wanted("t", 1, 0), "invalid_replication_factor"),
        (wanted("t", 1, 2), "invalid_replication_factor"),
        (wanted("t", -2, -2), "invalid_replication_factor"),
        (wanted("t", -1, -1, ((0, (1,)),)), "none"),
        (wanted("t", 1, -1, ((0, (1,)),)), "invalid_request"),
        (wanted("t", -1, 1, ((0, (1,)),)), "invalid_request"),
        (wanted("t", -1, -1, ((0, (1,)), (0, (1,)))), "invalid_replica_assignment"),
        (wanted("t", -1, -1, ((1, (1,)),)), "invalid_replica_assignment"),
        (wanted("t", -1, -1, ((0, (2,)),)), "invalid_replica_assignment"),
        (wanted("t", -1, -1, ((0, (1, 1)),)), "invalid_replica_assignment"),
        (wanted("t", -1, -1, ((0, ()),)), "invalid_replica_assignment"),
        (wanted("t", retention_ms=None), "invalid_config"),
        (wanted("t", retention_ms="x"), "invalid_config"),
        (wanted("t", no_such="1"), "invalid_config"),
        (wanted("bad/"), "invalid_topic_exception"),
        (wanted(""), "invalid_topic_exception"),
        (wanted("__cluster_metadata"), "invalid_request"),
        (wanted("t", 10_001), "policy_violation"),
    ],
)
async def test_create_topics_codes(topic: CreatableTopic, code: str) -> None:
    rig = await Rig.open()
    assert await create(rig, topic, validate_only=True) == {topic.name: code}
    assert len(rig.node.cluster.cache.image.topics) == 0
    assert await create(rig, topic) == {topic.name: code}
    assert len(rig.node.cluster.cache.image.topics) == (code == "none")


async def test_a_created_topic_is_found_by_name_and_id_and_after_a_restart() -> None:
    rig = await Rig.open()
    await create(rig, wanted("t", 3, retention_ms="5"))
    topic = rig.node.cluster.cache.topic("t")
    for cache in (rig.node.cluster.cache, (await Rig.open(rig.fs)).node.cluster.cache):
        found = cache.topic("t")
        assert (found.id, found.partition_count) == (topic.id, 3)
        assert cache.topic_by_id(topic.id) is found
        assert dict(cache.topic_configs("t")) == {"retention.ms": "5"}
        assert list(cache.image.topics) == [found]


async def test_a_topic_made_anew_is_not_deleted_by_who_knew_the_old_one() -> None:
    rig = await Rig.open()
    await create(rig, wanted("t"))
    old = rig.node.cluster.cache.topic("t").id
    assert await delete(rig, ("t", None)) == [("t", "none")]
    await create(rig, wanted("t"))
    assert await delete(rig, (None, old)) == [(None, "unknown_topic_id")]
    assert rig.node.cluster.cache.topic("t").id != old


async def test_create_topics_of_one_request_do_not_collide_but_with_existing_ones_they_do() -> None:
    rig = await Rig.open()
    assert await create(rig, wanted("a.b"), wanted("a_b")) == {"a.b": "none", "a_b": "none"}
    assert await create(rig, wanted("a.b"), wanted("b.c"), wanted("b.c")) == {
        "a.b": "topic_already_exists",
        "b.c": "invalid_request",
    }
    await rig.ask("delete_topics", topics=(DeleteTopicState(name="a.b", topic_id=None),), timeout=SECOND)
    assert await create(rig, wanted("a.b")) == {"a.b": "invalid_topic_exception"}


async def test_of_requests_at_once_the_later_one_is_refused_what_the_earlier_one_made_and_gets_the_rest() -> None:
    rig = await Rig.open()
    answers = await asyncio.gather(
        create(rig, wanted("t"), wanted("a.b")), create(rig, wanted("t"), wanted("a_b"), wanted("u"))
    )
    assert answers == [
        {"t": "none", "a.b": "none"},
        {"t": "topic_already_exists", "a_b": "invalid_topic_exception", "u": "none"},
    ]


async def test_create_topics_tells_every_config_sorted_with_its_source_and_text_as_given() -> None:
    rig = await Rig.open(log_segment_bytes="2000000")
    answer = await rig.ask("create_topics", topics=(wanted("t", 2, retention_ms=" 5 "),), timeout=SECOND)
    (topic,) = answer.topics
    told = {config.name: (config.value, config.config_source) for config in topic.configs}
    assert list(told) == sorted(told)
    assert told["retention.ms"] == (" 5 ", 1)
    assert told["segment.bytes"] == ("2000000", 4)
    assert told["min.insync.replicas"] == ("1", 3)
    assert told["cleanup.policy"] == ("delete", 5)
    assert (topic.num_partitions, topic.replication_factor) == (2, 1)
    assert topic.topic_id == rig.node.cluster.cache.topic("t").id


async def test_create_topics_tells_of_names_that_are_never_allowed_after_the_others() -> None:
    names = ("t1", "__cluster_metadata", "comp", "t", "comp", "t1", "bad/", "u")
    answer = await create(await Rig.open(), *[wanted(name) for name in names])
    assert [*answer] == ["t", "bad/", "u", "t1", "__cluster_metadata", "comp"]


@pytest.mark.parametrize("api", ["create_topics", "delete_topics", "create_partitions"])
async def test_a_request_without_time_times_out_and_does_nothing(api: str) -> None:
    rig = await Rig.open()
    await create(rig, wanted("t"))
    topics: dict[str, Any] = {
        "create_topics": wanted("u"),
        "delete_topics": DeleteTopicState(name="t", topic_id=None),
        "create_partitions": CreatePartitionsTopic(name="t", count=3, assignments=None),
    }
    fields: dict[str, Any] = {"topics": (topics[api],), "timeout": datetime.timedelta(0)}
    if api == "create_partitions":
        fields["validate_only"] = False
    answer = await rig.ask(api, **fields)
    (result,) = getattr(answer, {"create_topics": "topics", "delete_topics": "responses"}.get(api, "results"))
    assert (result.error_code.name, result.error_message) == ("request_timed_out", None)
    assert [(topic.name, len(topic.partitions)) for topic in rig.node.cluster.cache.image.topics] == [("t", 1)]


async def delete(rig: Rig, *topics: tuple[str | None, uuid.UUID | None], version: int = 6) -> list[tuple[Any, str]]:
    states = tuple(DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics)
    answer = await rig.ask("delete_topics", version, topics=states, timeout=SECOND)
    return [(one.name, one.error_code.name) for one in answer.responses]


async def test_delete_topics_by_name_and_id() -> None:
    rig = await Rig.open()
    await create(rig, wanted("a"), wanted("b"), wanted("c"))
    a, b, c = (rig.node.cluster.cache.topic(name).id for name in "abc")
    assert await delete(rig, ("a", a)) == [("a", "invalid_request")]
    assert await delete(rig, (None, None)) == [(None, "invalid_request")]
    assert await delete(rig, ("a", None), (None, a)) == [("a", "invalid_request")]
    assert await delete(rig, (None, a), (None, a)) == [(None, "invalid_request")]
    assert await delete(rig, ("b", None), ("b", None)) == [("b", "invalid_request")]
    assert await delete(rig, ("no", None)) == [("no", "unknown_topic_or_partition")]
    assert await delete(rig, (None, uuid.UUID(int=77))) == [(None, "unknown_topic_id")]
    assert len(rig.node.cluster.cache.image.topics) == 3
    assert sorted(await delete(rig, (None, a), ("b", None))) == [("a", "none"), ("b", "none")]
    assert [topic.id for topic in rig.node.cluster.cache.image.topics] == [c]
    assert b != c


@pytest.mark.parametrize(("version", "code"), [(2, "invalid_request"), (3, "topic_deletion_disabled")])
async def test_delete_topics_switched_off(version: int, code: str) -> None:
    rig = await Rig.open(delete_topic_enable="false")
    await create(rig, wanted("a"))
    assert await delete(rig, ("a", None), version=version) == [("a", code)]
    assert rig.node.cluster.cache.topic("a") is not None


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code"),
    [
        ("t", 3, None, "none"),
        ("t", 3, ((1,),), "none"),
        ("t", 2, None, "invalid_partitions"),
        ("t", 1, None, "invalid_partitions"),
        ("t", -1, None, "invalid_partitions"),
        ("t", 4, ((1,),), "invalid_replica_assignment"),
        ("t", 3, (), "invalid_replica_assignment"),
        ("t", 3, ((),), "invalid_replica_assignment"),
        ("t", 3, ((1, 1),), "invalid_replica_assignment"),
        ("t", 3, ((5,),), "invalid_replica_assignment"),
        ("t", 20_000, None, "policy_violation"),
        ("t", 20_000, ((1,),), "invalid_replica_assignment"),
        ("no", 3, None, "unknown_topic_or_partition"),
    ],
)
async def test_create_partitions_codes(
    name: str, count: int, assignments: tuple[tuple[int, ...], ...] | None, code: str
) -> None:
    rig = await Rig.open()
    await create(rig, wanted("t", 2))
    given = None if assignments is None else tuple(CreatePartitionsAssignment(broker_ids=ids) for ids in assignments)
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given)
    for validate_only in (True, False):
        answer = await rig.ask("create_partitions", topics=(topic,), timeout=SECOND, validate_only=validate_only)
        assert [one.error_code.name for one in answer.results] == [code]
        grown = code == "none" and not validate_only
        assert len(rig.node.cluster.cache.topic("t").partitions) == (3 if grown else 2)


async def test_partitions_beyond_what_one_request_may_make_fail_their_topic_and_what_follows() -> None:
    rig = await Rig.open()
    await create(rig, *(wanted(name) for name in ("cp1", "cp2", "cp3")))
    counts = {"cp1": 6000, "cp2": 6000, "cp3": 2, "nosuch": 4}
    topics = tuple(CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items())
    answer = await rig.ask("create_partitions", topics=topics, timeout=SECOND, validate_only=True)
    codes = {one.name: one.error_code.name for one in answer.results}
    failed = "policy_violation"
    assert codes == {"cp1": "none", "cp2": failed, "cp3": failed, "nosuch": "unknown_topic_or_partition"}


@pytest.mark.parametrize("validate_only", [True, False])
async def test_an_absurd_count_of_partitions_is_refused_at_once(validate_only: bool) -> None:
    rig = await Rig.open()
    await create(rig, wanted("t"))
    topics = tuple(
        CreatePartitionsTopic(name=name, count=count, assignments=None)
        for name, count in (("nosuch", 4), ("t", 2**31 - 1))
    )
    answer = await rig.ask("create_partitions", topics=topics, timeout=SECOND, validate_only=validate_only)
    failed = [(one.name, one.error_code.name) for one in answer.results]
    assert failed == [("nosuch", "unknown_topic_or_partition"), ("t", "policy_violation")]
    assert rig.node.cluster.cache.topic("t").partition_count == 1


async def test_the_partitions_of_all_topics_of_a_request_are_counted_together() -> None:
    rig = await Rig.open()
    most, refused = 2**31 - 1, "policy_violation"
    assert await create(rig, wanted("t", most)) == {"t": refused}
    assert await create(rig, wanted("t", most), wanted("u", most), wanted("v")) == dict.fromkeys("tuv", refused)
    assert await create(rig, wanted("t", 6000), wanted("u", 4001)) == dict.fromkeys("tu", refused)
    assert await create(rig, wanted("t", most, 9), wanted("v", 2)) == dict.fromkeys("tv", refused)
    assert len(rig.node.cluster.cache.image.topics) == 0


async def test_create_partitions_named_twice() -> None:
    rig = await Rig.open()
    await create(rig, wanted("t"))
    twice = (CreatePartitionsTopic(name="t", count=2, assignments=None),) * 2
    answer = await rig.ask("create_partitions", topics=twice, timeout=SECOND, validate_only=False)
    assert [(one.name, one.error_code.name) for one in answer.results] == [("t", "invalid_request")]


async def pages(rig: Rig, names: list[str], limit: int, cursor: tuple[str, int] | None = None) -> Any:
    answer = await rig.ask(
        "describe_topic_partitions",
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=cursor and Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    after = answer.next_cursor
    return (
        [(one.name, one.error_code.name, [p.partition_index for p in one.partitions]) for one in answer.topics],
        after and (after.topic_name, after.partition_index),
    )


async def test_describe_topic_partitions_pages_through_sorted_topics() -> None:
    rig = await Rig.open()
    await create(rig, wanted("a", 3), wanted("b", 2))
    assert await pages(rig, ["b", "a"], 2) == ([("a", "none", [0, 1])], ("a", 2))
    assert await pages(rig, ["b", "a"], 2, ("a", 2)) == ([("a", "none", [2]), ("b", "none", [0])], ("b", 1))
    assert await pages(rig, ["b", "a"], 2, ("b", 1)) == ([("b", "none", [1])], None)
    assert await pages(rig, ["a", "b"], 3) == ([("a", "none", [0, 1, 2])], ("b", 0))
    assert await pages(rig, [], 9) == ([("a", "none", [0, 1, 2]), ("b", "none", [0, 1])], None)
    assert await pages(rig, [], 9, ("ab", 1)) == ([("b", "none", [0, 1])], None)
    assert await pages(rig, ["a"], -1) == ([("a", "none", [0])], ("a", 1))
    assert await pages(rig, ["a"], 9, ("a", 99)) == ([("a", "none", [])], None)


async def test_describe_topic_partitions_of_what_is_not_there() -> None:
    rig = await Rig.open()
    await create(rig, wanted("a"))
    unknown = "unknown_topic_or_partition"
    assert await pages(rig, ["n", "m"], 1) == ([("m", unknown, []), ("n", unknown, [])], None)
    assert await pages(rig, ["z", "a"], 1) == ([("a", "none", [0])], ("z", 0))
    assert await pages(rig, ["bad/"], 1) == ([("bad/", "invalid_topic_exception", [])], None)
    for cursor in ((), (("", 0),)):
        told = await pages(rig, ["a", ""], 9, *cursor)
        assert told == ([("", "invalid_topic_exception", []), ("a", "none", [0])], None)
    assert await pages(rig, ["a"], 1, ("b", 0)) == ([("a", "invalid_request", [])], None)
    assert await pages(rig, ["a"], 1, ("a", -1)) == ([("a", "invalid_request", [])], None)

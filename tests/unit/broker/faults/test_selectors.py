"""Which requests a fault strikes, and of a request with several topics, which partitions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnTopic
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource
from kio.schema.metadata.v0.request import MetadataRequestTopic as MetadataRequestTopicV0
from kio.schema.metadata.v4.request import MetadataRequestTopic as MetadataRequestTopicV4
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_commit.v8.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_commit.v10 import request as newer_commit
from kio.schema.offset_fetch.v8.request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.offset_fetch.v10 import request as newer_fetch
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from metadata.configs import ResourceType
from tests.doubles.clock import settle
from tests.unit.broker.faults.breaking import SETTINGS, Breaking, codes
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import answer, batch, fetch, produce


@pytest.fixture
async def rig() -> Any:
    async with Rig(config=SETTINGS) as rig:
        await rig.create("a", 2)
        await rig.create("b", 2)
        yield rig


def produce_to(*partitions: tuple[str, int]) -> dict[str, Any]:
    """The fields of Produce 9 to several topics."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    data = tuple(
        TopicProduceData(
            name=topic,
            partition_data=tuple(PartitionProduceData(index=index, records=batch(b"v")) for index in indexes),
        )
        for topic, indexes in topics.items()
    )
    return {"acks": -1, "timeout": timedelta(seconds=30), "topic_data": data}


def ends(rig: Rig) -> dict[tuple[str, int], int]:
    keys = [(topic, index) for topic in "ab" for index in (0, 1)]
    return {key: rig.node.replicas.get(*key).log_end_offset for key in keys}


ALL = (("a", 0), ("a", 1), ("b", 0), ("b", 1))


@pytest.mark.parametrize(
    ("given", "failed"),
    [
        ({"topic": "a"}, {("a", 0), ("a", 1)}),
        ({"topic": "a", "partition": 1}, {("a", 1)}),
        ({"partition": 0}, {("a", 0), ("b", 0)}),
        ({}, set(ALL)),
        ({"topic": "c"}, set()),
    ],
)
@pytest.mark.parametrize("phase", ["before", "after_append", "before_reply"])
async def test_only_the_partitions_of_a_produce_that_match_fail(
    rig: Rig, given: dict[str, Any], failed: set[tuple[str, int]], phase: str
) -> None:
    Breaking(rig).set(api="Produce", error="NOT_LEADER_OR_FOLLOWER", phase=phase, **given)
    told = await rig.connect().ask("produce", 9, **produce_to(*ALL))
    errors = {
        (topic.name, one.index): one.error_code.name for topic in told.responses for one in topic.partition_responses
    }
    assert errors == {key: "not_leader_or_follower" if key in failed else "none" for key in ALL}
    assert ends(rig) == {key: 0 if phase == "before" and key in failed else 1 for key in ALL}


async def test_only_the_partitions_of_an_offset_commit_that_match_fail(rig: Rig) -> None:
    await rig.node.coordinators.groups.ensure_topic()
    Breaking(rig).set(api="OffsetCommit", topic="a", error="REBALANCE_IN_PROGRESS")
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    topics = tuple(OffsetCommitRequestTopic(name=name, partitions=(partition,)) for name in "ab")
    told = await rig.connect().ask(
        "offset_commit", 8, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    assert {topic.name: topic.partitions[0].error_code.name for topic in told.topics} == {
        "a": "rebalance_in_progress",
        "b": "none",
    }
    fetched = await rig.connect().ask("offset_fetch", 5, group_id="g", topics=None)
    assert [topic.name for topic in fetched.topics] == ["b"]


async def test_topics_that_are_named_by_their_ids_match_by_their_names(rig: Rig) -> None:
    await rig.node.coordinators.groups.ensure_topic()
    ids = {name: rig.node.cluster.cache.topic(name).id for name in "ab"}
    breaking = Breaking(rig)
    breaking.set(api="OffsetCommit", topic="a", error="REBALANCE_IN_PROGRESS")
    partition = newer_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    topics = tuple(
        newer_commit.OffsetCommitRequestTopic(topic_id=topic_id, partitions=(partition,)) for topic_id in ids.values()
    )
    client = rig.connect()
    told = await client.ask(
        "offset_commit", 10, group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )
    assert {topic.topic_id: topic.partitions[0].error_code.name for topic in told.topics} == {
        ids["a"]: "rebalance_in_progress",
        ids["b"]: "none",
    }
    breaking.set(api="OffsetFetch", topic="b", error="UNSTABLE_OFFSET_COMMIT")
    wanted = tuple(
        newer_fetch.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=(0,)) for topic_id in ids.values()
    )
    group = newer_fetch.OffsetFetchRequestGroup(group_id="g", member_id=None, member_epoch=-1, topics=wanted)
    fetched = await client.ask("offset_fetch", 10, groups=(group,), require_stable=False)
    assert {topic.topic_id: topic.partitions[0].error_code.name for topic in fetched.groups[0].topics} == {
        ids["a"]: "none",
        ids["b"]: "unstable_offset_commit",
    }


async def test_only_the_topics_of_a_metadata_request_that_match_fail_also_if_all_are_asked_for(rig: Rig) -> None:
    Breaking(rig).set(api="Metadata", topic="a", error="LEADER_NOT_AVAILABLE")
    client = rig.connect()
    for topics in (None, tuple(MetadataRequestTopic(name=name, topic_id=None) for name in "ab")):
        told = await client.ask(
            "metadata", 12, topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        found = {topic.name: (topic.error_code.name, len(topic.partitions)) for topic in told.topics}
        assert found == {"a": ("leader_not_available", 0), "b": ("none", 2)}
        assert len(told.brokers) == 1


METADATA = [
    pytest.param(0, MetadataRequestTopicV0, {}, id="v0"),
    pytest.param(4, MetadataRequestTopicV4, {"allow_auto_topic_creation": True}, id="v4"),
]


@pytest.mark.parametrize(("version", "topic", "fields"), METADATA)
@pytest.mark.parametrize(("names", "made"), [("n", []), ("mn", ["m"])])
async def test_a_topic_whose_metadata_fails_is_not_made(
    rig: Rig, version: int, topic: Any, fields: dict[str, Any], names: str, made: list[str]
) -> None:
    Breaking(rig).set(api="Metadata", topic="n", error="TOPIC_AUTHORIZATION_FAILED")
    told = await rig.connect().ask("metadata", version, topics=tuple(topic(name=name) for name in names), **fields)
    assert {one.name: one.error_code.name for one in told.topics} == {
        "n": "topic_authorization_failed",
        **dict.fromkeys(made, "unknown_topic_or_partition"),
    }
    await settle()
    assert [name for name in "mn" if rig.node.cluster.cache.image.topics.get(name)] == made


async def test_only_the_topic_of_a_change_of_configs_that_matches_fails(rig: Rig) -> None:
    Breaking(rig).set(api="IncrementalAlterConfigs", topic="a", error="POLICY_VIOLATION")
    change = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    wanted = [(ResourceType.TOPIC, "a", change), (ResourceType.TOPIC, "b", change)]
    wanted.append((ResourceType.BROKER, "", replace(change, name="log.retention.ms")))
    resources = tuple(
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=(one,)) for kind, name, one in wanted
    )
    told = await rig.connect().ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
    assert {(one.resource_type, one.resource_name): one.error_code.name for one in told.responses} == {
        (2, "a"): "policy_violation",
        (2, "b"): "none",
        (4, ""): "none",
    }
    images = rig.node.cluster.cache.image.configs
    assert [dict(images.of(ResourceType.TOPIC, name)) for name in "ab"] == [{}, {"retention.ms": "1000"}]


async def test_a_fetch_fails_for_what_matches_at_once_also_within_a_session(rig: Rig) -> None:
    await rig.connect().ask("produce", 9, **produce_to(("a", 0), ("b", 0)))
    client = rig.connect()
    told = await client.ask("fetch", 12, **fetch([("a", 0, 0), ("b", 0, 0)], session_id=0, session_epoch=0))
    session, breaking = told.session_id, Breaking(rig)
    fault = breaking.set(api="Fetch", topic="a", error="NOT_LEADER_OR_FOLLOWER")
    told = await client.ask(
        "fetch", 12, **fetch([("b", 0, 1)], max_wait_ms=60_000, session_id=session, session_epoch=1)
    )
    errors = {
        (topic.topic, one.partition_index): one.error_code.name for topic in told.responses for one in topic.partitions
    }
    assert errors == {("a", 0): "not_leader_or_follower"}
    breaking.faults.remove(fault)
    told = await client.ask("fetch", 12, **fetch([], session_id=session, session_epoch=2))
    assert [(topic.topic, bool(topic.partitions[0].records)) for topic in told.responses] == [("a", True)]


async def test_a_session_error_fails_a_fetch_as_a_whole(rig: Rig) -> None:
    Breaking(rig).set(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    told = await rig.connect().ask("fetch", 12, **fetch([("a", 0, 0)]))
    assert (told.error_code.name, told.responses) == ("fetch_session_id_not_found", ())


async def test_only_the_topics_that_match_are_not_created(rig: Rig) -> None:
    Breaking(rig).set(api="CreateTopics", topic="c", error="POLICY_VIOLATION")
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()) for name in "cd"
    )
    told = await rig.connect().ask(
        "create_topics", 7, topics=topics, timeout=timedelta(seconds=30), validate_only=False
    )
    assert {topic.name: topic.error_code.name for topic in told.topics} == {"c": "policy_violation", "d": "none"}
    assert rig.node.cluster.cache.image.topics.get("c") is None
    assert rig.node.cluster.cache.image.topics.get("d") is not None


@pytest.mark.parametrize("version", [5, 8])
async def test_an_offset_fetch_fails_for_a_partition_or_for_a_group(rig: Rig, version: int) -> None:
    await rig.node.coordinators.groups.ensure_topic()
    breaking = Breaking(rig)
    asked = OffsetFetchRequestTopics(name="a", partition_indexes=(0, 1))
    fields: dict[str, Any] = {"group_id": "g", "topics": (asked,)}
    if version == 8:
        fields = {"groups": (OffsetFetchRequestGroup(**fields),), "require_stable": False}
    with_partition = breaking.set(api="OffsetFetch", partition=1, error="UNSTABLE_OFFSET_COMMIT")
    assert codes(await rig.connect().ask("offset_fetch", version, **fields)).count("unstable_offset_commit") == 1
    breaking.faults.remove(with_partition)
    breaking.set(api="OffsetFetch", group="other", error="GROUP_AUTHORIZATION_FAILED")
    breaking.set(api="OffsetFetch", group="g", error="NOT_COORDINATOR")
    assert "not_coordinator" in codes(await rig.connect().ask("offset_fetch", version, **fields))


@pytest.mark.parametrize(
    ("given", "struck"),
    [
        ({"version": 9}, True),
        ({"version": 8}, False),
        ({"client_id": "test"}, True),
        ({"client_id": "other"}, False),
        ({"listener": "PLAINTEXT"}, True),
        ({"transactional_id": "tx"}, False),
    ],
)
async def test_the_header_and_the_connection_select_too(rig: Rig, given: dict[str, Any], struck: bool) -> None:
    fault = Breaking(rig).set(api="Produce", error=6, **given)
    told = await rig.connect().ask("produce", 9, **produce("a", {0: batch(b"v")}))
    assert codes(told) == ["not_leader_or_follower" if struck else "none"]
    assert fault.hits == struck


async def test_a_fault_without_an_api_strikes_all_that_name_what_it_selects(rig: Rig) -> None:
    await rig.node.coordinators.groups.ensure_topic()
    fault = Breaking(rig).set(group="g", error="COORDINATOR_NOT_AVAILABLE")
    for api, version, fields in (
        ("heartbeat", 2, {"generation_id": 1, "member_id": "m"}),
        ("leave_group", 2, {"member_id": "m"}),
    ):
        told = await rig.connect().ask(api, version, group_id="g", **fields)
        assert codes(told) == ["coordinator_not_available"]
    told = await rig.connect().ask("find_coordinator", 2, key="g", key_type=0)
    assert codes(told) == ["coordinator_not_available"]
    told = await rig.connect().ask("find_coordinator", 2, key="g", key_type=1)
    assert fault.hits == 3


async def test_skip_and_count_choose_among_the_requests_that_match(rig: Rig) -> None:
    fault = Breaking(rig).set(api="Produce", error="REQUEST_TIMED_OUT", skip=1, count=2)
    client = rig.connect()
    seen = [codes(await client.ask("produce", 9, **produce("a", {0: batch(b"v")})))[0] for _ in range(4)]
    assert seen == ["none", "request_timed_out", "request_timed_out", "none"]
    assert (fault.hits, fault.active, len(fault.requests)) == (2, False, 2)


async def test_the_first_fault_that_acts_strikes_and_all_that_observe_count(rig: Rig) -> None:
    breaking = Breaking(rig)
    first, second = (breaking.set(api="Produce", error=error) for error in ("REQUEST_TIMED_OUT", "KAFKA_STORAGE_ERROR"))
    observing = breaking.set(api="Produce", observe=True)
    told = await rig.connect().ask("produce", 9, **produce("a", {0: batch(b"v")}))
    assert codes(told) == ["request_timed_out"]
    assert (first.hits, second.hits, observing.hits) == (1, 0, 1)


async def test_produce_requests_of_a_connection_stay_in_order_while_one_is_held_up(rig: Rig) -> None:
    Breaking(rig).set(api="Produce", delay=1.0, count=1)
    client = rig.connect()
    for value in (b"first", b"second"):
        client.send("produce", 9, **produce("a", {0: batch(value)}))
    await rig.clock.run(500)
    assert ends(rig)["a", 0] == 0
    await rig.clock.run(600)
    offsets = [
        answer(reply, "produce", 9).responses[0].partition_responses[0].base_offset for reply in client.replies()
    ]
    assert offsets == [0, 1]


async def test_a_repeated_heartbeat_is_struck_too(rig: Rig) -> None:
    await rig.node.coordinators.groups.ensure_topic()
    client = rig.connect()
    fields = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert codes(await client.ask("heartbeat", 2, **fields)) == ["unknown_member_id"]
    Breaking(rig).set(api="Heartbeat", group="g", error="REBALANCE_IN_PROGRESS", count=2)
    seen = [codes(await client.ask("heartbeat", 2, **fields))[0] for _ in range(3)]
    assert seen == ["rebalance_in_progress", "rebalance_in_progress", "unknown_member_id"]


async def test_old_requests_that_add_partitions_to_a_transaction_are_known_by_topic_and_transactional_id(
    rig: Rig,
) -> None:
    await rig.node.coordinators.transactions.ensure_topic()
    fault = Breaking(rig).set(
        api="AddPartitionsToTxn", transactional_id="tx", topic="a", error="INVALID_PRODUCER_EPOCH", count=1
    )
    told = await rig.connect().ask(
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=(AddPartitionsToTxnTopic(name="a", partitions=(0,)),),
    )
    assert codes(told) == ["invalid_producer_epoch"]
    (request,) = fault.requests
    assert (request["transactional_id"], request["topics"]) == ("tx", [{"name": "a", "partitions": [0]}])

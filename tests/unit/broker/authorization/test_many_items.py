"""Requests of more items than are authorized in one turn of the loop: the same answers, in turns."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_share_group_offsets.v1.request import DescribeShareGroupOffsetsRequestGroup
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup
from kio.schema.produce.v9.request import PartitionProduceData, TopicProduceData

from broker.api import acls as describe_acls
from broker.api import users as describe_client_quotas
from broker.authorization import guard as checks
from broker.network.request import ANONYMOUS
from broker.request_context import RequestContext
from broker.security.authorizer import Authorizer
from metadata.acls import AclOperation
from tests.doubles.clock import settle
from tests.unit.broker.authorization.test_guard import DESCRIBE, READ, WRITE, allow, client_of, node
from tests.unit.broker.quotas.limits import set_quota
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch

NAMES = ["a", "t", "b", "c", "t2", "d", "e"]
"""Of which the client may do everything to `t` and `t2`; the second is no topic."""

SECOND = timedelta(seconds=1)
ALWAYS_NEW = re.compile(r"base_offset=\d+|topic_id=UUID\('[0-9a-f-]+'\)")


def produced(acks: int = 1, names: list[str] = NAMES, data: bytes = b"x") -> dict[str, Any]:
    partitions = (PartitionProduceData(index=0, records=batch(data)),)
    topics = tuple(TopicProduceData(name=name, partition_data=partitions) for name in names)
    return {"transactional_id": None, "acks": acks, "timeout": SECOND, "topic_data": topics}


def metadata(*names: str) -> dict[str, Any]:
    return {
        "topics": tuple(MetadataRequestTopic(topic_id=None, name=name) for name in names),
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }


def list_offsets() -> dict[str, Any]:
    partitions = (ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1),)
    topics = tuple(ListOffsetsTopic(name=name, partitions=partitions) for name in NAMES)
    return {"replica_id": -1, "isolation_level": 0, "topics": topics}


def describe_configs() -> dict[str, Any]:
    resources = tuple(
        DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=()) for name in NAMES
    )
    return {"resources": resources, "include_synonyms": False, "include_documentation": False}


def create_topics() -> dict[str, Any]:
    topics = tuple(
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        for name in (*NAMES, "e")
    )
    return {"topics": topics, "timeout": SECOND, "validate_only": True}


REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    ("produce", 9, produced()),
    ("metadata", 12, metadata(*NAMES)),
    ("metadata", 12, metadata(*NAMES, *NAMES[:3])),
    ("list_offsets", 7, list_offsets()),
    ("describe_configs", 4, describe_configs()),
    ("create_topics", 7, create_topics()),
    ("find_coordinator", 6, {"key_type": 0, "coordinator_keys": tuple(NAMES)}),
    ("describe_groups", 5, {"groups": tuple(NAMES), "include_authorized_operations": False}),
    (
        "delete_topics",
        6,
        {"topics": tuple(DeleteTopicState(name=name, topic_id=None) for name in (*NAMES, "e")), "timeout": SECOND},
    ),
    (
        "offset_fetch",
        9,
        {
            "groups": tuple(
                OffsetFetchRequestGroup(group_id=name, member_id=None, member_epoch=-1, topics=None) for name in NAMES
            ),
            "require_stable": False,
        },
    ),
    (
        "describe_share_group_offsets",
        1,
        {"groups": tuple(DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in NAMES)},
    ),
]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with node() as made:
        for name in ("t", "t2"):
            for operation in (READ, WRITE, DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.CREATE):
                await allow(made, operation, name)
        yield made


@pytest.mark.parametrize(("api", "version", "fields"), REQUESTS, ids=[f"{each[0]}" for each in REQUESTS])
async def test_the_answer_to_many_items_is_the_same_in_turns(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: str, version: int, fields: dict[str, Any]
) -> None:
    at_once, at_once_errors = await asked(rig, api, version, fields)
    monkeypatch.setattr(checks, "IN_A_TURN", 2)
    in_turns, errors = await asked(rig, api, version, fields)
    assert in_turns == at_once
    assert errors == at_once_errors


async def asked(rig: Rig, api: str, version: int, fields: dict[str, Any]) -> tuple[str, dict[Any, int]]:
    """The answer, and the errors that the metrics counted for it."""
    counted: Counter[Any] = Counter()
    metrics = rig.node.local.metrics
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(metrics), "request_error", lambda _self, name, code: counted.update([(name, code)]))
        found = await client_of(rig).ask(api, version, **fields)
    return ALWAYS_NEW.sub("", repr(found)), dict(counted)


@pytest.mark.parametrize("api", ["produce", "metadata", "delete_topics", "describe_configs", "offset_fetch"])
async def test_few_items_are_authorized_in_one_turn_of_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    monkeypatch.setattr(checks, "IN_A_TURN", 2)
    decided: list[int] = []
    allows = Authorizer.allows

    def counting(*given: Any) -> bool:
        decided.append(turn[0])
        return allows(*given)

    monkeypatch.setattr(Authorizer, "allows", counting)
    turn = [0]
    version, fields = next(each[1:] for each in REQUESTS if each[0] == api)
    client = client_of(rig)
    client.send(api, version, **fields)
    for _ in range(100):
        turn[0] += 1
        await asyncio.sleep(0)
    assert len(client.replies()) == 1
    assert len(decided) >= len(NAMES)
    assert max(Counter(decided).values()) <= 4  # two items, each with one right or two


@pytest.mark.parametrize(("api", "version"), [("metadata", 12), ("describe_groups", 5), ("list_offsets", 7)])
async def test_the_time_of_all_turns_counts_for_the_request_quota(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: str, version: int
) -> None:
    allows = Authorizer.allows
    for name in ("one", "other"):
        await set_quota(rig, "request_percentage", 1.0, client_id=name)

    def slow(*given: Any) -> bool:
        rig.clock.advance(20)
        return allows(*given)

    monkeypatch.setattr(Authorizer, "allows", slow)
    fields = next(each[2] for each in REQUESTS if each[0] == api)
    at_once = await client_of(rig).ask(api, version, **fields, client_id="one")
    monkeypatch.setattr(checks, "IN_A_TURN", 2)
    in_turns = await client_of(rig).ask(api, version, **fields, client_id="other")
    assert in_turns.throttle_time == at_once.throttle_time > timedelta(0)


async def test_a_small_produce_does_not_overtake_one_of_many_topics(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "IN_A_TURN", 2)
    client = client_of(rig)
    client.send("produce", 9, **produced())
    client.send("produce", 9, **produced(names=["t"]))
    await settle()
    assert offsets_of_t(client) == [0, 1]


async def test_without_acks_what_is_allowed_is_appended_before_the_connection_is_closed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "IN_A_TURN", 2)
    client = client_of(rig)
    client.send("produce", 9, **produced(acks=0))
    assert await client.closed()
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    assert partition.log_end_offset == 1


def offsets_of_t(client: Client) -> list[int]:
    """The base offsets of the appends to `t`, in the order of the answers."""
    return [
        topic.partition_responses[0].base_offset
        for reply in client.replies()
        for topic in answer(reply, "produce", 9).responses
        if topic.name == "t"
    ]


ALL_ACLS: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.mark.parametrize(
    ("api", "version", "fields", "handler", "turns"),
    [
        ("describe_acls", 3, ALL_ACLS, describe_acls, 10),  # ten ACLs are compared, then told
        ("describe_client_quotas", 1, {"components": (), "strict": False}, describe_client_quotas, 2),
    ],
)
async def test_many_acls_and_quotas_are_told_in_turns(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: str, version: int, fields: dict[str, Any], handler: Any, turns: int
) -> None:
    for name in "edcba":
        await set_quota(rig, "request_percentage", 1.0, client_id=name)
    at_once = await client_of(rig, ANONYMOUS).ask(api, version, **fields)
    taken: list[None] = []
    turn = RequestContext.turn

    async def counting(self: RequestContext) -> None:
        taken.append(None)
        await turn(self)

    monkeypatch.setattr(RequestContext, "turn", counting)
    monkeypatch.setattr(handler, "IN_A_TURN", 2)
    assert await client_of(rig, ANONYMOUS).ask(api, version, **fields) == at_once
    assert len(taken) == turns

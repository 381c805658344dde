"""Answers have the order of the request; where it names nothing, that of names and numbers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.join_group.v2.request import JoinGroupRequestProtocol
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponseTopic

from tests.unit.broker.rig import Client, Rig, answer

NAMES = ("t4", "Aa", "q1", "other.topic")
MINUTE = timedelta(minutes=1)


async def ask(
    rig: Rig, topics: list[MetadataRequestTopic] | None, *, creating: bool = False
) -> tuple[MetadataResponseTopic, ...]:
    found = await rig.connect().ask(
        "metadata",
        12,
        topics=None if topics is None else tuple(topics),
        allow_auto_topic_creation=creating,
        include_topic_authorized_operations=False,
    )
    return tuple(found.topics)


@pytest.mark.parametrize("creating", [False, True])
async def test_topics_come_as_asked_each_once(creating: bool) -> None:
    asked = ["zz", "q1", "", "Aa", "nope", "bad name", "q1"]
    async with Rig() as rig:
        for name in NAMES:
            await rig.create(name)
        topics = [MetadataRequestTopic(topic_id=None, name=name) for name in asked]
        assert [topic.name for topic in await ask(rig, topics, creating=creating)] == asked[:-1]


async def test_topics_come_as_their_ids_are_asked() -> None:
    async with Rig() as rig:
        for name in NAMES:
            await rig.create(name)
        ids = [UUID(int=7), *(topic.id for topic in rig.node.cluster.cache.image.topics), UUID(int=3)]
        topics = [MetadataRequestTopic(topic_id=one, name=None) for one in ids]
        assert [topic.topic_id for topic in await ask(rig, topics)] == ids


async def test_all_topics_come_by_name_and_partitions_by_number() -> None:
    async with Rig() as rig:
        for name in NAMES:
            await rig.create(name, 20)
        topics = await ask(rig, None)
        assert [topic.name for topic in topics] == sorted(NAMES)
        assert [partition.partition_index for partition in topics[0].partitions] == [*range(20)]
        (told,) = (await rig.connect().ask("describe_log_dirs", 4, topics=None)).results
        logs = [(one.name, [log.partition_index for log in one.partitions]) for one in told.topics]
        assert logs == [(name, [*range(20)]) for name in sorted(NAMES)]


async def test_partitions_come_as_asked() -> None:
    indexes = {"zz": [0, 5, 1, 33, 7], "q": [3, 2], "<d>": [0, 5]}
    asked = tuple(
        DeleteRecordsTopic(name=name, partitions=tuple(DeleteRecordsPartition(partition_index=p, offset=0) for p in ps))
        for name, ps in indexes.items()
    )
    async with Rig() as rig:
        told = await rig.connect().ask("delete_records", 2, topics=asked, timeout=timedelta(seconds=1))
    found = {topic.name: [one.partition_index for one in topic.partitions] for topic in told.topics}
    assert list(found.items()) == list(indexes.items())


@pytest.mark.parametrize(
    ("api", "version", "field"),
    [
        ("describe_groups", 6, "groups"),
        ("consumer_group_describe", 1, "group_ids"),
        ("delete_groups", 2, "groups_names"),
    ],
)
async def test_groups_come_as_asked(api: str, version: int, field: str) -> None:
    asked = ["g3", "", "g1", "g2", "g3"]
    fields: dict[str, Any] = {field: tuple(asked)}
    if api != "delete_groups":
        fields["include_authorized_operations"] = False
    async with Rig() as rig:
        await rig.node.coordinators.groups.ensure_topic()
        found = await rig.connect().ask(api, version, **fields)
    groups = [one.group_id for one in (found.results if api == "delete_groups" else found.groups)]
    assert groups == (asked[:-1] if api == "delete_groups" else asked)


async def join(client: Client, group: str) -> None:
    client.send(
        "join_group",
        2,
        group_id=group,
        session_timeout=MINUTE,
        rebalance_timeout=MINUTE,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    await client.rig.clock.run(1)
    (reply,) = client.replies()
    assert answer(reply, "join_group", 2).error_code.name == "none"


async def test_groups_and_transactions_are_listed_by_name() -> None:
    async with Rig(config={"group.initial.rebalance.delay.ms": "0"}) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        await rig.node.coordinators.transactions.ensure_topic()
        client = rig.connect()
        for name in NAMES:
            await join(client, name)
            await client.ask("init_producer_id", 1, transactional_id=name, transaction_timeout=MINUTE)
        groups = (await client.ask("list_groups", 0)).groups
        transactions = await client.ask("list_transactions", 0, state_filters=(), producer_id_filters=())
        assert [one.group_id for one in groups] == sorted(NAMES)
        assert [one.transactional_id for one in transactions.transaction_states] == sorted(NAMES)

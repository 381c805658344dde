"""The order of topics and partitions in answers; the expected ones are Apache Kafka 4.1's."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponseTopic

from broker.metadata.resource_configs import ResourceType
from tests.unit.broker.rig import Rig

MADE = ("Aa", "BB", "t4", "t5", "CaBB", "CaAa", "Dt", "q1", "q2", "q3", "q4", "other.topic")
ALL = [
    "Aa",
    "q1",
    "t4",
    "xx",
    "zz",
    "q2",
    "t5",
    "CaAa",
    "CaBB",
    "other.topic",
    "q3",
    "n1",
    "q4",
    "n2",
    "n3",
    "nope",
    "Dt",
]
UNKNOWN = (
    "c6d2b60c737f2d510ca3aba3f662ef5b",
    "c500556bdf0bad766c02f3f305caba6b",
    "b794940255c9620f8f7ee228ad58243c",
    "69730bb82f37ea9755e9b70a9e12371c",
    "2042b0962e2886959252c736477f5edb",
    "45bbf6e50fb9ce662bb3bf6f37326fbc",
)


async def ask(rig: Rig, topics: list[MetadataRequestTopic], *, creating: bool) -> tuple[MetadataResponseTopic, ...]:
    answer = await rig.connect().ask(
        "metadata",
        12,
        topics=tuple(topics),
        allow_auto_topic_creation=creating,
        include_topic_authorized_operations=False,
    )
    return tuple(answer.topics)


async def names_answered(asked: list[str], *, creating: bool = False) -> list[str | None]:
    async with Rig() as rig:
        for name in MADE:
            await rig.create(name)
        topics = [MetadataRequestTopic(topic_id=None, name=name) for name in asked]
        return [topic.name for topic in await ask(rig, topics, creating=creating)]


async def ids_answered(asked: list[str | UUID]) -> list[str | UUID | None]:
    """Ids asked for, known ones by their topics' names; the same of the answer."""
    async with Rig() as rig:
        ids = {}
        for name in MADE:
            await rig.create(name)
            topic = rig.node.topics.get(name)
            assert topic is not None
            ids[name] = topic.id
        topics = [MetadataRequestTopic(topic_id=ids[one] if isinstance(one, str) else one, name=None) for one in asked]
        return [topic.name or topic.topic_id for topic in await ask(rig, topics, creating=False)]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (["nope", "t5", "q1"], ["t5", "q1", "nope"]),
        (["zz", "Dt", "nope", "n2", "Aa", "", "n1", "q3"], ["Aa", "Dt", "q3", "", "n2", "n1", "nope", "zz"]),
    ],
)
async def test_topics_that_exist_come_before_those_that_do_not(asked: list[str], answered: list[str]) -> None:
    assert await names_answered(asked) == answered


async def test_topics_that_will_be_made_come_after_names_that_no_topic_may_have() -> None:
    asked = ["M5-dcbdc", "M5-hecgefdf", "M5-hgagadc", "bad name", "M5-cdhdaaffc", "M5-egchdddfcb"]
    answered = ["bad name", "M5-dcbdc", "M5-hecgefdf", "M5-egchdddfcb", "M5-hgagadc", "M5-cdhdaaffc"]
    assert await names_answered(asked, creating=True) == answered


async def test_unknown_ids_come_before_known_ones_and_those_by_their_names() -> None:
    unknown = [UUID(one) for one in UNKNOWN]
    in_order: list[str | UUID] = [unknown[at] for at in (4, 5, 2, 0, 3, 1)]
    asked: list[str | UUID] = [*unknown[:3], "BB", "t5", "CaBB", *unknown[3:]]
    assert await ids_answered(asked) == [*in_order, "t5", "CaBB", "BB"]


async def test_up_to_four_ids_stay_as_asked() -> None:
    unknown = UUID(UNKNOWN[0])
    assert await ids_answered(["t5", "BB", unknown, "Aa"]) == [unknown, "t5", "BB", "Aa"]


async def test_all_topics_come_in_the_order_of_a_hash_map() -> None:
    async with Rig() as rig:
        for name in sorted(ALL):
            await rig.create(name)
        answer = await rig.connect().ask(
            "metadata",
            12,
            topics=None,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        assert [topic.name for topic in answer.topics] == ALL


SQUARES = [f"topic-{number * number}" for number in range(12)]


async def all_topics(rig: Rig) -> list[str | None]:
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    return [topic.name for topic in (await rig.connect().ask("metadata", 12, topics=None, **fields)).topics]


async def to_elect(rig: Rig) -> list[str]:
    fields = {"election_type": 0, "topic_partitions": None, "timeout": timedelta(seconds=1)}
    return [one.topic for one in (await rig.connect().ask("elect_leaders", 2, **fields)).replica_election_results]


async def with_configurations(rig: Rig) -> list[str]:
    found = await rig.connect().ask("list_config_resources", 1, resource_types=(ResourceType.TOPIC,))
    return [one.resource_name for one in found.config_resources]


@pytest.mark.parametrize(
    ("partitions", "answered"),
    [
        (2, [1, 0]),
        (3, [1, 2, 0]),
        (8, [1, 3, 6, 2, 5, 7, 0, 4]),
        (12, [1, 11, 10, 5, 0, 8, 3, 9, 6, 2, 7, 4]),
        (13, [1, 11, 10, 5, 0, 8, 3, 9, 6, 2, 7, 12, 4]),
    ],
)
async def test_partitions_come_in_the_order_of_a_set_of_all_they_say(partitions: int, answered: list[int]) -> None:
    async with Rig() as rig:
        await rig.create("t", partitions)
        (topic,) = await ask(rig, [MetadataRequestTopic(topic_id=None, name="t")], creating=False)
        assert [partition.partition_index for partition in topic.partitions] == answered


async def test_topics_that_fill_three_quarters_of_a_map_have_one_twice_as_large() -> None:
    answered = (100, 121, 9, 81, 0, 1, 64, 4, 36, 25, 49, 16)
    async with Rig() as rig:
        for name in SQUARES:
            await rig.create(name)
        assert await all_topics(rig) == [f"topic-{number}" for number in answered]


async def test_maps_of_topics_and_logs_never_shrink() -> None:
    async with Rig() as rig:
        for name in SQUARES:
            await rig.create(name)
        squares = (121, 100, 49, 36, 25, 4, 64, 9, 1, 81, 16, 0)
        assert await to_elect(rig) == [f"topic-{number}" for number in squares]
        gone = [f"gone{number}" for number in range(4)]
        for name in gone:
            await rig.create(name)
        await rig.create("many", 5)
        for name in gone + SQUARES[:8]:
            await rig.delete(name)
        assert await to_elect(rig) == ["topic-121", "topic-100", "many", "topic-64", "topic-81"]
        assert await with_configurations(rig) == ["topic-64", "topic-81", "many", "topic-100", "topic-121"]
        (told,) = (await rig.connect().ask("describe_log_dirs", 4, topics=None)).results
        logs = [(one.name, [log.partition_index for log in one.partitions]) for one in told.topics]
        single = [(name, [0]) for name in ("topic-121", "topic-64", "topic-81", "topic-100")]
        assert logs == [*single, ("many", [1, 2, 3, 4, 0])]


async def test_records_of_partitions_that_are_all_unknown() -> None:
    indexes = {"zz": (0, 5, 1, 33, 7), "q": (3, 2), "<d>": (0, 5)}
    asked = tuple(
        DeleteRecordsTopic(name=name, partitions=tuple(DeleteRecordsPartition(partition_index=p, offset=0) for p in ps))
        for name, ps in indexes.items()
    )
    async with Rig() as rig:
        told = await rig.connect().ask("delete_records", 2, topics=asked, timeout=timedelta(seconds=1))
    found = [(topic.name, [one.partition_index for one in topic.partitions]) for topic in told.topics]
    assert found == [("<d>", [0, 5]), ("q", [2, 3]), ("zz", [1, 5, 33, 7, 0])]

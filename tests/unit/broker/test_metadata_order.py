"""The order of the topics in an answer to Metadata; the expected ones are Apache Kafka 4.1's."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponseTopic

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

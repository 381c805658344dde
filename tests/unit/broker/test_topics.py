"""Topics: what is created, changed and deleted is seen at once, reported to listeners, and found after a restart."""

from __future__ import annotations

import asyncio
import base64
import random
import uuid

import pytest
from broker.metadata.store import VersionConflictError
from broker.metadata.topics import Topic, assign
from hypothesis import given
from hypothesis import strategies as st

from metadata import topic_names
from protocol import uuids
from protocol.errors import UnknownTopicOrPartition
from tests.unit.broker.admin_rig import Rig

ONE = uuid.UUID(int=1 << 100)


def topic(name: str, partitions: int = 1, topic_id: uuid.UUID = ONE) -> Topic:
    return Topic(name, topic_id, (assign([1]),) * partitions, {"retention.ms": "5"})


async def test_a_created_topic_is_found_by_name_and_id_and_after_a_restart() -> None:
    rig = await Rig.open()
    await rig.node.topics.create([topic("t", 3)])
    for topics in (rig.node.topics, (await Rig.open(rig.fs)).node.topics):
        found = topics.get("t")
        assert found == topic("t", 3)
        assert topics.by_id(ONE) == found
        assert list(topics.all()) == [found]
        assert topics.by_id(None) is None


async def test_listeners_hear_of_every_change_with_what_was_before() -> None:
    rig = await Rig.open()
    heard: list[tuple[Topic | None, Topic | None]] = []
    rig.node.topics.subscribe(lambda old, new: heard.append((old, new)))
    await rig.node.topics.create([topic("t")])
    await rig.node.topics.create_partitions({"t": [assign([1]), assign([1])]})
    await rig.node.topics.set_configs({"t": {}})
    await rig.node.topics.delete([rig.node.cache.topic("t")])
    seen = [(old and len(old.partitions), new and (len(new.partitions), dict(new.configs))) for old, new in heard]
    given = {"retention.ms": "5"}
    assert seen == [(None, (1, given)), (1, (3, given)), (3, (3, {})), (3, None)]
    assert rig.node.cache.topic_by_id(ONE) is None


async def test_a_set_of_topics_is_created_whole_or_not_at_all() -> None:
    rig = await Rig.open()
    await rig.node.topics.create([topic("t")])
    with pytest.raises(VersionConflictError):
        await rig.node.topics.create([topic("u", topic_id=uuid.UUID(int=2)), topic("t")])
    assert rig.node.cache.topic("u") is None


@pytest.mark.parametrize(("first", "second"), [("t", "t"), ("a.b", "a_b")])
async def test_of_two_creations_at_once_one_loses(first: str, second: str) -> None:
    rig = await Rig.open()
    results = await asyncio.gather(
        rig.node.topics.create([topic(first, topic_id=uuid.UUID(int=2))]),
        rig.node.topics.create([topic(second, topic_id=uuid.UUID(int=3))]),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), VersionConflictError]
    assert [one.id.int for one in rig.node.topics.all()] == [2]


async def test_a_topic_made_anew_is_not_deleted_by_who_knew_the_old_one() -> None:
    rig = await Rig.open()
    await rig.node.topics.create([topic("t")])
    old = rig.node.cache.topic("t")
    await rig.node.topics.delete([old])
    await rig.node.topics.create([topic("t", topic_id=uuid.UUID(int=5))])
    with pytest.raises(UnknownTopicOrPartition):
        await rig.node.topics.delete([old])
    assert rig.node.cache.topic("t").id == uuid.UUID(int=5)


async def test_unchanged_configs_write_nothing() -> None:
    rig = await Rig.open()
    await rig.node.topics.create([topic("t")])
    before = rig.node.cache.image.offset
    await rig.node.topics.set_configs({"t": {"retention.ms": "5"}})
    assert rig.node.cache.image.offset == before


async def test_collisions_are_among_existing_names_with_dots_or_underscores() -> None:
    rig = await Rig.open()
    await rig.node.topics.create([topic("a.b")])
    assert rig.node.topics.colliding_with("a_b") == "a.b"
    assert rig.node.topics.colliding_with("a-b") is None
    await rig.node.topics.delete([rig.node.cache.topic("a.b")])
    assert rig.node.topics.colliding_with("a_b") is None
    assert not rig.node.topics._collisions


@given(st.text(max_size=260))
def test_legal_names_are_kafkas(name: str) -> None:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    legal = 0 < len(name) <= 249 and name not in {".", ".."} and set(name) <= allowed
    assert (topic_names.invalid_reason(name) is None) == legal


def test_a_name_with_a_line_end_is_not_legal() -> None:
    assert topic_names.invalid_reason("topic\n") is not None


def test_random_ids_differ_and_never_start_with_a_dash() -> None:
    rng = random.Random(3)
    ids = {uuids.random_uuid(rng) for _ in range(2000)}
    assert len(ids) == 2000
    assert not [one for one in ids if base64.urlsafe_b64encode(one.bytes).startswith(b"-")]
    assert {one.version for one in ids} == {4}

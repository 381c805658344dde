"""The group coordinator's view of the topics."""

from __future__ import annotations

import asyncio
from uuid import UUID

from broker.metadata.local_store import LocalMetadataStore
from broker.metadata.topics import Topic, Topics, assign

from broker.coordinators.group_topics import GroupTopics
from tests.doubles.files import MemoryFileSystem
from tests.doubles.workers import LoopWorkers


async def viewed() -> tuple[Topics, GroupTopics, LocalMetadataStore]:
    store = await LocalMetadataStore.open(MemoryFileSystem(), "/", LoopWorkers())
    topics = await Topics.open(store)
    return topics, GroupTopics(topics, {1: "rack"}), store


async def test_a_version_is_told_no_earlier_than_what_changed_in_it() -> None:
    topics, view, _ = await viewed()
    seen: dict[tuple[int, bool, int], None] = {}

    async def look() -> None:
        while True:
            seen[view.version, view.by_name("a") is not None, view.newest] = None
            await asyncio.sleep(0)

    task = asyncio.create_task(look())
    await topics.create([Topic("a", UUID(int=1), (assign([1, 2]),))])
    await asyncio.sleep(0)
    task.cancel()
    assert list(seen) == [(0, False, 0), (1, True, 1)]


async def test_growth_is_a_new_version_and_no_new_topic() -> None:
    topics, view, store = await viewed()
    await topics.create([Topic("a", UUID(int=1), (assign([1, 2]),))])
    await store.commit({}, {"/other": b""})
    assert (view.version, view.newest) == (1, 1)
    before = view.by_id(UUID(int=1))
    assert before is not None and before.partition_count == 1
    await topics.create_partitions({"a": [assign([2])]})
    assert (view.version, view.newest) == (3, 1)
    image = view.by_id(UUID(int=1))
    assert image is not None
    assert (image.name, image.racks) == ("a", [["rack"], []])
    await topics.delete(list(topics.all()))
    assert (view.version, view.newest, view.by_name("a"), list(view.names())) == (4, 1, None, [])

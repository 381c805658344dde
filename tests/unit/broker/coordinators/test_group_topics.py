"""The group coordinator's view of the topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from broker.coordinators.group_coordinator import GroupTopics
from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower, MetadataPublisher
from controller.decision import Decision
from controller.local import LocalController
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from protocol.metadata.topics import RemoveTopicRecord
from tests.doubles.metadata_log import MemoryMetadataLog
from tests.unit.controller.images import around, broker, config, partition, topic


class Topics:
    """The view, and what changes it. Broker 1 has a rack, broker 2 has none."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.view = GroupTopics(self.cache)
        publisher = MetadataPublisher(self.cache)
        publisher.start(
            [
                Follower("before", lambda *_: self.look("before")),
                Follower("view", self._follow),
                Follower("after", lambda *_: self.look("after")),
            ]
        )
        self.controller = LocalController(MemoryMetadataLog(), EMPTY, publisher.publish, around())
        self.seen: list[tuple[str, bool, bool]] = []

    @classmethod
    async def open(cls) -> Topics:
        topics = cls()
        await topics.change([broker(1, rack="r1"), broker(2)])
        topics.seen.clear()
        return topics

    async def change(self, records: Sequence[Any]) -> int:
        """Write records; return the offset of the last one."""
        await self.controller.submit(lambda _image: Decision(records, None))
        return self.cache.image.offset

    def _follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("topics"):
            self.view.follow(delta, image)

    def look(self, when: str) -> None:
        self.seen.append((when, self.view.by_name("a") is not None, self.view.version == self.cache.image.offset))


async def test_a_version_is_told_no_earlier_than_what_changed_in_it() -> None:
    topics = await Topics.open()
    assert topics.view.by_name("a") is None
    await topics.change(topic("a", 1, [1, 2]))
    assert topics.seen == [("before", True, False), ("after", True, True)]


async def test_versions_are_the_offsets_of_images_in_which_topics_changed() -> None:
    topics = await Topics.open()
    view = topics.view
    created = await topics.change(topic("a", 1, [1, 2]))
    assert (view.version, view.newest) == (created, created)
    assert await topics.change([config(ResourceType.TOPIC, "a", "retention.ms", "5")]) > created
    assert (view.version, view.newest) == (created, created)


async def test_growth_is_a_new_version_and_no_new_topic() -> None:
    topics = await Topics.open()
    view = topics.view
    created = await topics.change(topic("a", 1, [1, 2]))
    before = view.by_id(UUID(int=1))
    assert before is not None and before.partition_count == 1
    assert view.by_name("a") is before  # made once, however often it is asked for
    grown = await topics.change([partition(1, 1, [2])])
    assert (view.version, view.newest) == (grown, created)
    after = view.by_id(UUID(int=1))
    assert after is not None
    assert (after.name, after.racks) == ("a", [["r1"], []])
    deleted = await topics.change([RemoveTopicRecord(topic_id=UUID(int=1))])
    assert (view.version, view.newest, view.by_name("a"), list(view.names())) == (deleted, created, None, [])

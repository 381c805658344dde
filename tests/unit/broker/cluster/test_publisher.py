"""The order in which a node's parts are told of a new image, and what a part that fails costs the others."""

from __future__ import annotations

from uuid import UUID

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.publisher import Follower, MetadataPublisher
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol.metadata.topics import TopicRecord


class Told:
    """What followers saw: who, whether it was prepared or followed, and whether the cache had the topic by then."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.publisher = MetadataPublisher(self.cache)
        self.seen: list[tuple[str, str, bool]] = []

    def follower(self, name: str, *, prepares: bool = False, fails: bool = False) -> Follower:
        def note(step: str, delta: MetadataDelta, image: MetadataImage) -> None:
            assert delta.touched("topics")
            assert image.topics.get("t") is not None
            self.seen.append((name, step, self.cache.topic("t") is not None))
            if fails:
                raise RuntimeError(name)

        async def prepare(delta: MetadataDelta, image: MetadataImage) -> None:
            note("prepare", delta, image)

        return Follower(name, lambda *args: note("follow", *args), prepare if prepares else None)

    async def publish(self) -> None:
        delta = MetadataDelta(self.cache.image)
        delta.replay(TopicRecord(name="t", topic_id=UUID(int=1)))
        await self.publisher.publish(delta, delta.apply(1, 1, 0))


async def test_what_takes_time_is_done_before_the_image_changes_and_the_order_is_that_of_the_followers() -> None:
    told = Told()
    told.publisher.start([told.follower("a", prepares=True), told.follower("b"), told.follower("c", prepares=True)])
    await told.publish()
    assert told.seen == [
        ("a", "prepare", False),
        ("c", "prepare", False),
        ("a", "follow", True),
        ("b", "follow", True),
        ("c", "follow", True),
    ]


async def test_one_that_fails_keeps_no_other_from_the_change() -> None:
    told = Told()
    told.publisher.start([told.follower("a", prepares=True, fails=True), told.follower("b", prepares=True)])
    await told.publish()
    assert [(name, step) for name, step, _ in told.seen] == [
        ("a", "prepare"),
        ("b", "prepare"),
        ("a", "follow"),
        ("b", "follow"),
    ]
    assert told.cache.topic("t") is not None


async def test_without_followers_the_image_changes_all_the_same() -> None:
    told = Told()
    await told.publish()
    assert told.cache.topic("t") is not None

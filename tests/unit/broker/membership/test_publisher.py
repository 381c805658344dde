"""MetadataPublisher: followers prepare before the image changes and follow after it, in their order, without a gap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structlog.testing import capture_logs

from broker.membership.metadata_cache import MetadataCache
from broker.membership.publisher import Follower, MetadataPublisher
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from tests.unit.controller.images import topic

Told = tuple[str, str, bool]
"""A follower's name, what it was told, and whether the new image was there already."""


class Followers:
    """Of a change that creates the topic t."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.publisher = MetadataPublisher(self.cache)
        self.told: list[Told] = []
        self.delta = MetadataDelta(EMPTY)
        self.delta.replay_all(topic("t", 1, [1]))
        self.image = self.delta.apply(1, 1, 0)

    def follower(self, name: str, *, error: Exception | None = None, prepares: bool = False) -> Follower:
        def follow(delta: MetadataDelta, image: MetadataImage) -> None:
            assert (delta, image) == (self.delta, self.image)
            self.note(name, "follow")
            if error is not None:
                raise error

        async def prepare(delta: MetadataDelta, image: MetadataImage) -> None:
            assert (delta, image) == (self.delta, self.image)
            await asyncio.sleep(0)
            self.note(name, "prepare")
            if error is not None:
                raise error

        return Follower(name, follow, prepare if prepares else None)

    def note(self, name: str, what: str) -> None:
        self.told.append((name, what, self.cache.topic("t") is not None))

    async def publish(self, *followers: Follower, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.publisher.start(followers)
        publishing = asyncio.ensure_future(self.publisher.publish(self.delta, self.image))
        while not publishing.done():
            meanwhile()
            await asyncio.sleep(0)
        await publishing
        assert self.cache.image is self.image


async def test_all_prepare_before_the_image_changes_and_follow_in_one_go_after_it() -> None:
    followers = Followers()
    a, b = followers.follower("a", prepares=True), followers.follower("b")
    c = followers.follower("c", prepares=True)
    await followers.publish(a, b, c, meanwhile=lambda: followers.note("others", "look"))
    before = [("a", "prepare", False), ("c", "prepare", False)]
    assert [each for each in followers.told if each[0] != "others"] == [
        *before,
        ("a", "follow", True),
        ("b", "follow", True),
        ("c", "follow", True),
    ]
    looks = [number for number, each in enumerate(followers.told) if each[0] == "others"]
    follows = [number for number, each in enumerate(followers.told) if each[1] == "follow"]
    assert not [number for number in looks if follows[0] < number < follows[-1]]
    assert len(looks) > 1


async def test_a_follower_that_fails_is_logged_and_the_others_are_told_all_the_same() -> None:
    followers = Followers()
    a, b = followers.follower("a", error=ValueError("no"), prepares=True), followers.follower("b", prepares=True)
    with capture_logs() as lines:
        await followers.publish(a, b)
    assert followers.told == [
        ("a", "prepare", False),
        ("b", "prepare", False),
        ("a", "follow", True),
        ("b", "follow", True),
    ]
    assert [(line["log_level"], line["part"]) for line in lines] == [("error", "a")] * 2


async def test_before_anybody_follows_and_after_the_last_one_the_image_changes_all_the_same() -> None:
    followers = Followers()
    await followers.publish()
    assert not followers.told

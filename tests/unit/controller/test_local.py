"""LocalController: decisions on the newest state, responses once durable and published, refusals together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from controller.decision import Decision
from controller.local import LocalController
from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from metadata.delta import MetadataDelta
from metadata.image import EMPTY, MetadataImage
from protocol.errors import InvalidRequest
from protocol.metadata.topics import ConfigRecord
from tests.doubles.clock import settle
from tests.doubles.metadata_log import MemoryMetadataLog


def put(name: str, value: str) -> Any:
    """Set a config; the response is its value before."""

    def decide(image: MetadataImage) -> Decision[str | None]:
        record = ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)
        return Decision([record], image.configs.of(2, "t").get(name))

    return decide


def read(name: str) -> Any:
    return lambda image: Decision([], image.configs.of(2, "t").get(name))


class Follower:
    """Sees each published image; `hold` keeps a publication under way."""

    def __init__(self) -> None:
        self.seen: list[MetadataImage] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def publish(self, _delta: MetadataDelta, image: MetadataImage) -> None:
        await self.go_on.wait()
        self.seen.append(image)


def controller(*, waits: bool = False) -> tuple[LocalController, MemoryMetadataLog, Follower]:
    log, follower = MemoryMetadataLog(waits=waits), Follower()
    return LocalController(log, EMPTY, follower.publish, cast(Any, None)), log, follower


async def test_a_response_comes_once_its_records_are_durable_and_published() -> None:
    local, log, follower = controller(waits=True)
    answer = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    assert not answer.done()
    assert not follower.seen
    follower.go_on.clear()
    log.sync()
    await settle()
    assert not answer.done()
    follower.go_on.set()
    assert await answer is None
    assert local.image is follower.seen[-1]
    assert local.image.configs.of(2, "t")["a"] == "1"


async def test_each_decision_sees_those_before_it_though_they_are_not_durable() -> None:
    local, log, follower = controller(waits=True)
    answers = [asyncio.ensure_future(local.submit(put("a", str(number)))) for number in range(3)]
    await settle()
    log.sync()
    await settle()
    log.sync()
    assert await asyncio.gather(*answers) == [None, "0", "1"]
    assert len(follower.seen) <= 2  # those durable together are published together


async def test_a_decision_without_records_waits_for_those_before_it() -> None:
    local, log, _ = controller(waits=True)
    asked = asyncio.ensure_future(local.submit(put("a", "1")))
    told = asyncio.ensure_future(local.submit(read("a")))
    await settle()
    assert not told.done()
    log.sync()
    assert await told == "1"
    await asked
    assert await local.submit(read("a")) == "1"


async def test_a_refusal_fails_everything_that_is_not_durable_and_the_next_decision_does_not_see_it() -> None:
    local, log, _ = controller(waits=True)
    answers = [asyncio.ensure_future(local.submit(each)) for each in (put("a", "1"), read("a"), put("b", "2"))]
    await settle()
    log.refuse()
    for answer in answers:
        with pytest.raises(NoRoomError):
            await answer
    after = asyncio.ensure_future(local.submit(put("a", "3")))
    await settle()
    log.sync()
    assert await after is None
    assert dict(local.image.configs.of(2, "t")) == {"a": "3"}


async def test_a_refusal_during_a_publication_leaves_what_is_published_alone() -> None:
    local, log, follower = controller(waits=True)
    first = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    follower.go_on.clear()
    log.sync()
    await settle()
    second = asyncio.ensure_future(local.submit(put("a", "2")))
    await settle()
    log.refuse()
    follower.go_on.set()
    assert await first is None
    with pytest.raises(NoRoomError):
        await second
    third = asyncio.ensure_future(local.submit(put("a", "3")))
    await settle()
    log.sync()
    assert await third == "1"


async def test_a_refusal_right_after_a_sync_leaves_what_was_synced() -> None:
    local, log, follower = controller(waits=True)
    first = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    second = asyncio.ensure_future(local.submit(put("a", "2")))
    await settle()
    log.sync(1)
    log.refuse()  # before the controller had a turn
    third = asyncio.ensure_future(local.submit(put("a", "3")))
    assert await first is None
    with pytest.raises(NoRoomError):
        await second
    await settle()
    log.sync()
    assert await third == "1"
    assert [image.configs.of(2, "t")["a"] for image in follower.seen] == ["1", "3"]


async def test_a_failure_right_after_a_sync_leaves_what_was_synced() -> None:
    local, log, _ = controller(waits=True)
    first = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    second = asyncio.ensure_future(local.submit(put("a", "2")))
    await settle()
    log.sync(1)
    log.fail()
    assert await first is None
    with pytest.raises(MetadataLogError):
        await second
    assert await local.submit(read("a")) == "1"


async def test_what_is_read_after_a_refusal_waits_until_it_is_published() -> None:
    local, log, follower = controller(waits=True)
    first = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    follower.go_on.clear()
    log.sync()
    await settle()
    second = asyncio.ensure_future(local.submit(put("a", "2")))
    await settle()
    log.refuse()
    told = asyncio.ensure_future(local.submit(read("a")))
    await settle()
    assert not told.done()
    follower.go_on.set()
    assert (await first, await told) == (None, "1")
    with pytest.raises(NoRoomError):
        await second


async def test_while_decisions_are_refused_only_what_begins_is_decided() -> None:
    local, log, _ = controller()
    local.refusal = NoRoomError("no room")
    with pytest.raises(NoRoomError):
        await local.submit(read("a"))
    assert await local.begin(put("a", "1")) is None
    local.refusal = None
    assert await local.submit(read("a")) == "1"
    assert len(log.batches) == 1


async def test_after_a_failure_every_change_is_refused() -> None:
    local, log, _ = controller(waits=True)
    answer = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    log.fail()
    with pytest.raises(MetadataLogError):
        await answer
    with pytest.raises(MetadataLogError):
        await local.submit(put("a", "2"))
    assert await local.submit(read("a")) is None


async def test_a_decision_that_raises_changes_nothing() -> None:
    local, log, _ = controller()

    def decide(_image: MetadataImage) -> Decision[None]:
        raise InvalidRequest

    with pytest.raises(InvalidRequest):
        await local.submit(decide)
    assert not log.batches


async def test_a_client_that_goes_away_holds_up_nobody() -> None:
    local, log, _ = controller(waits=True)
    other = asyncio.ensure_future(local.submit(put("b", "2")))
    gone = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    gone.cancel()
    await settle()
    told = asyncio.ensure_future(local.submit(read("a")))
    await settle()
    assert not told.done()
    log.sync()
    assert await other is None
    assert await told == "1"
    await local.close()
    assert dict(local.image.configs.of(2, "t")) == {"a": "1", "b": "2"}


async def test_a_publication_that_fails_leaves_nobody_without_an_answer() -> None:
    async def publish(_delta: MetadataDelta, _image: MetadataImage) -> None:
        raise ValueError("nobody foresaw this")

    local = LocalController(MemoryMetadataLog(), EMPTY, publish, cast(Any, None))
    with capture_logs() as lines:
        assert await local.submit(put("a", "1")) is None
    assert [line["log_level"] for line in lines] == ["error"]
    assert await local.submit(read("a")) == "1"


async def test_closing_waits_for_what_is_under_way() -> None:
    local, log, follower = controller(waits=True)
    asked = asyncio.ensure_future(local.submit(put("a", "1")))
    await settle()
    closing = asyncio.ensure_future(local.close())
    follower.go_on.clear()
    log.sync()
    await settle()
    assert not closing.done()
    follower.go_on.set()
    await closing
    assert asked.done()
    await local.close()


async def test_what_a_decision_wrote_is_followed_by_what_it_may_do_then() -> None:
    """Such as a snapshot."""
    local, log, _ = controller(waits=True)
    offsets: list[int] = []
    local.on_published = lambda: offsets.append(local.image.offset)
    answers = [asyncio.ensure_future(local.submit(put("a", str(number)))) for number in range(3)]
    await settle()
    log.sync()
    await asyncio.gather(*answers)
    await settle()
    assert offsets[-1] == local.image.offset == 2

"""The start of a node that waits for the metadata of its cluster; the controller is made up."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchRequest

from broker.config.controllers import ControllerAddress
from broker.membership.controller_channel import ControllerQuorum, NoControllerError
from broker.membership.metadata_copy import Copied, MetadataCopy, ObserverIdentity
from broker.membership.metadata_observer import MetadataObserver
from broker.peers.call import PeerError
from broker.peers.client import PeerClients
from metadata.image import MetadataImage
from protocol.api.table import API_BY_NAME
from protocol.reader import entity_reader
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.membership.test_fetched_log import batch
from tests.unit.controller.quorum.support import ROOT, made_root, services

TIMEOUT_MS = 60_000
PAUSE_MS = 25_000
"""A controller so slow that three answers take longer than the timeout."""


class Controllers:
    """Answers each fetch after a pause with what `answer` gives."""

    def __init__(self, clock: ManualClock, answer: Callable[[], tuple[int, bytes]]) -> None:
        self._clock = clock
        self._answer = answer
        self.calls: list[Any] = []

    def of(self, _host: str, _port: int) -> Controllers:
        return self

    async def send(self, call: Any) -> Any:
        self.calls.append(call)
        await self._clock.sleep(PAUSE_MS)
        high_watermark, records = self._answer()
        partition = SimpleNamespace(
            error_code=ErrorCode.none,
            current_leader=SimpleNamespace(leader_id=3000, leader_epoch=1),
            snapshot_id=SimpleNamespace(end_offset=-1, epoch=-1),
            diverging_epoch=SimpleNamespace(epoch=-1, end_offset=-1),
            records=records,
            high_watermark=high_watermark,
        )
        endpoint = SimpleNamespace(node_id=3000, host="controller", port=9093)
        topic = SimpleNamespace(partitions=[partition])
        return SimpleNamespace(error_code=ErrorCode.none, node_endpoints=[endpoint], responses=[topic])


def observer(clock: ManualClock, controllers: Controllers) -> MetadataObserver:
    async def publish(_delta: Any, _image: Any) -> None:
        """Nothing follows the image yet."""

    copy = MetadataCopy(services(made_root(MemoryFileSystem()), clock), ROOT)
    clients = cast(PeerClients, controllers)
    quorum = ControllerQuorum([ControllerAddress("controller", 9093)])
    who = ObserverIdentity(4, "cluster", uuid.uuid4())
    return MetadataObserver(who, quorum, clients, clock, copy, publish, retry_ms=20)


async def outcome(clock: ManualClock, node: MetadataObserver) -> Exception | None:
    """How `catch_up` ends within ten timeouts."""
    waiting = asyncio.ensure_future(node.catch_up(timeout_ms=TIMEOUT_MS))
    await clock.run(10 * TIMEOUT_MS)
    assert waiting.done()
    return cast("Exception | None", waiting.exception())


async def test_a_start_ends_when_no_controller_answers() -> None:
    clock = ManualClock()

    def answer() -> tuple[int, bytes]:
        raise PeerError("connection refused")

    error = await outcome(clock, observer(clock, Controllers(clock, answer)))
    assert isinstance(error, NoControllerError)
    assert str(error) == "no controller has answered within 60000 ms: connection refused"


async def test_a_start_ends_when_the_controllers_die_while_it_catches_up() -> None:
    clock = ManualClock()
    answers = [(3, batch(0, 1, "a"))]

    def answer() -> tuple[int, bytes]:
        if not answers:
            raise PeerError("connection refused")
        return answers.pop()

    error = await outcome(clock, observer(clock, Controllers(clock, answer)))
    assert isinstance(error, NoControllerError)
    assert str(error) == (
        "the metadata of the cluster are known up to offset 1, and no controller has sent more within 60000 ms: "
        "connection refused"
    )


async def test_a_start_goes_on_as_long_as_something_comes() -> None:
    clock = ManualClock()
    answers = [(6, batch(offset, 1, "a")) for offset in range(6)]
    controllers = Controllers(clock, lambda: answers.pop(0))
    node = observer(clock, controllers)
    assert await outcome(clock, node) is None
    assert (node.image.offset, len(controllers.calls)) == (5, 6)


@pytest.mark.parametrize("records", [b"", batch(0, 1, "a")])
async def test_an_answer_without_anything_new_is_no_reason_to_wait_for_ever(records: bytes) -> None:
    clock = ManualClock()
    error = await outcome(clock, observer(clock, Controllers(clock, lambda: (3, records))))
    assert isinstance(error, NoControllerError)


async def test_after_a_start_the_first_fetch_has_the_leader_epoch_of_the_copy_in_it() -> None:
    """With an older one than that of the last record Kafka's controllers answer INVALID_REQUEST."""
    clock = ManualClock()
    controllers = Controllers(clock, lambda: (7, b""))
    node = observer(clock, controllers)
    node.begin_with(Copied(MetadataImage(offset=6, epoch=4)))
    assert await outcome(clock, node) is None
    call, out = controllers.calls[0], bytearray()
    call.encode(out, call.highest)
    request, _ = entity_reader(FetchRequest, FetchRequest)(bytes(out), 0)
    ((asked,),) = (topic.partitions for topic in request.topics)
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (7, 4, 4)


class EndlessSnapshot(Controllers):
    """Has nothing but a snapshot: of which it sends the first byte, and no more, or what `part` gives.

    `part` tells, from the position, the bytes and the size that it says the snapshot has.
    """

    def __init__(
        self,
        clock: ManualClock,
        answer: Callable[[], tuple[int, bytes]],
        part: Callable[[int], tuple[bytes, int]] = lambda position: (b"" if position else b"?", 1000),
    ) -> None:
        super().__init__(clock, answer)
        self._part = part
        self.positions: list[int] = []

    async def send(self, call: Any) -> Any:
        answer = await super().send(call)
        if call.api_key == API_BY_NAME["fetch"].key:
            answer.responses[0].partitions[0].snapshot_id = SimpleNamespace(end_offset=7, epoch=1)
            self._position = 0
            return answer
        self.positions.append(self._position)
        data, size = self._part(self._position)
        part = SimpleNamespace(error_code=ErrorCode.none, position=self._position, size=size, unaligned_records=data)
        self._position += len(data)
        return SimpleNamespace(error_code=ErrorCode.none, topics=[SimpleNamespace(partitions=[part])])


async def test_a_snapshot_of_which_nothing_more_comes_is_not_waited_for_for_ever() -> None:
    clock = ManualClock()
    error = await outcome(clock, observer(clock, EndlessSnapshot(clock, lambda: (7, b""))))
    assert isinstance(error, NoControllerError)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (lambda position: (b"?", position + 2), "has 2 bytes, and now says 3"),
        (lambda _position: (b"???", 2), "has 2 bytes, and now says 2, of which 3 came"),
        (lambda _position: (b"?", 2**62), "the most is 1073741824"),
        (lambda _position: (b"?", 1000), "100 are free in"),
    ],
)
async def test_a_snapshot_that_grows_or_does_not_fit_is_not_fetched_to_an_end(
    monkeypatch: pytest.MonkeyPatch, part: Callable[[int], tuple[bytes, int]], reason: str
) -> None:
    if "are free" in reason:
        monkeypatch.setattr(MemoryFileSystem, "space", lambda _self, _path: (1000, 100))
    clock = ManualClock()
    controller = EndlessSnapshot(clock, lambda: (7, b""), part)
    error = await outcome(clock, observer(clock, controller))
    assert isinstance(error, NoControllerError)
    assert reason in str(error)
    assert max(controller.positions) <= 1

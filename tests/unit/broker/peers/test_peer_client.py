"""The client of another node, over a network in memory and in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
from kio.schema.allocate_producer_ids.v0 import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kio.schema.api_versions.v3 import ApiVersionsResponse
from kio.schema.api_versions.v3.response import ApiVersion
from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest
from kio.schema.errors import ErrorCode

from broker.peers.call import (
    PeerDisconnectedError,
    PeerError,
    PeerTimeoutError,
    PeerUnreachableError,
    PeerVersionError,
    entity_call,
)
from broker.peers.client import PeerClient, PeerNetwork, PeerSettings, Prepare, ask_versions
from broker.peers.connection import PeerConnection
from protocol.api.messages import request_class
from protocol.reader import entity_reader
from protocol.schema import default_entity
from protocol.writer import frame_writer
from tests.doubles.clock import ManualClock, settle
from tests.doubles.network import VirtualNetwork

HOST, PORT = "two.example", 9092
ASK = AllocateProducerIdsRequest(broker_id=1, broker_epoch=2)
HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=2, current_metadata_offset=3, want_fence=False, want_shut_down=False
)


class Node(asyncio.Protocol):
    """Answers AllocateProducerIds with the number of the request, and others as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, int, bytes]] = []
        self.transports: list[Any] = []
        self.answers: Callable[[int, int, int], bytes | None] = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        while data:
            size = int.from_bytes(data[:4], "big")
            frame, data = data[4 : 4 + size], data[4 + size :]
            key, version, correlation_id = (
                int.from_bytes(frame[:2], "big"),
                int.from_bytes(frame[2:4], "big"),
                int.from_bytes(frame[4:8], "big"),
            )
            self.requests.append((key, version, correlation_id, frame))
            reply = self.answers(key, version, correlation_id)
            if reply is not None:
                self.transports[-1].write(reply)


def answer(key: int, version: int, correlation_id: int) -> bytes | None:
    if key != AllocateProducerIdsRequest.__api_key__:
        return None
    response = default_entity(AllocateProducerIdsResponse, producer_id_start=correlation_id)
    cls = AllocateProducerIdsResponse
    return bytes(frame_writer(cls, cls, 1)(response, correlation_id))


class Rig:
    def __init__(self, prepare: Prepare | None = None) -> None:
        self.clock = ManualClock()
        self.network = VirtualNetwork(self.clock)
        self.node = Node()
        self.network.listen(HOST, PORT, lambda: self.node)
        settings = PeerSettings("broker-1", request_timeout_ms=1000)
        around = PeerNetwork(self.clock, random.Random(1), self.network.connect)
        self.client = PeerClient(HOST, PORT, settings, around, prepare)

    def ask(self, timeout_ms: float | None = None) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.client.send(entity_call(ASK), timeout_ms))


async def test_requests_carry_the_header_and_answers_come_in_their_order() -> None:
    rig = Rig()
    first, second = await asyncio.gather(rig.ask(), rig.ask())
    assert (first.producer_id_start, second.producer_id_start) == (1, 2)
    assert len(rig.network.connections) == 1
    key, version, _, frame = rig.node.requests[0]
    assert (key, version) == (67, 0)
    assert frame[8:19] == b"\x00\x08broker-1\x00"
    request, end = entity_reader(request_class(67, 0), request_class(67, 0))(frame, 19)
    assert (request, end) == (ASK, len(frame))


async def test_an_answer_may_come_in_pieces_of_any_size() -> None:
    rig = Rig()
    frame = answer(67, 0, 1) or b""
    rig.node.answers = lambda *_: None
    asked = rig.ask()
    await settle()
    for at in range(len(frame)):
        rig.node.transports[0].write(frame[at : at + 1])
        await settle()
    assert (await asked).producer_id_start == 1


async def test_what_is_in_flight_fails_with_the_connection_and_the_next_request_opens_another() -> None:
    rig = Rig()
    rig.node.answers = lambda *_: None
    asked = rig.ask()
    await settle()
    rig.network.cut()
    with pytest.raises(PeerDisconnectedError, match=r"two\.example:9092"):
        await asked
    rig.node.answers = answer
    again = rig.ask()
    await rig.clock.run(39)
    assert not again.done(), "the back-off of 50 ms, less or more by a fifth, is not over"
    await rig.clock.run(22)
    assert (await again).producer_id_start == 1
    assert len(rig.node.requests) == 2, "nothing is sent twice by itself"


async def test_a_request_without_an_answer_times_out_and_ends_the_connection() -> None:
    rig = Rig()
    rig.node.answers = lambda *_: None
    first, second = rig.ask(), rig.ask()
    await rig.clock.run(999)
    assert not first.done()
    await rig.clock.run(1)
    for asked in (first, second):
        with pytest.raises(PeerTimeoutError, match="1000 ms"):
            await asked
    await settle()
    assert not rig.client.is_connected


async def test_an_unreachable_node_is_tried_at_growing_intervals() -> None:
    rig = Rig()
    rig.network.stop_listening(HOST, PORT)
    failed_at = []
    for _ in range(8):
        asked = rig.ask(5_000)
        while not asked.done():
            await rig.clock.run(1)
        assert isinstance(asked.exception(), PeerUnreachableError)
        failed_at.append(rig.clock.monotonic_ms())
    pauses = [later - earlier for earlier, later in pairwise(failed_at)]
    expected = [50, 100, 200, 400, 800, 1000, 1000]
    assert all(0.79 * ms <= pause <= 1.21 * ms + 2 for pause, ms in zip(pauses, expected, strict=True)), pauses


async def test_an_attempt_that_hangs_is_given_up() -> None:
    rig = Rig()
    rig.network.hangs.add((HOST, PORT))
    impatient, patient = rig.ask(), rig.ask(20_000)
    await rig.clock.run(1_000)
    with pytest.raises(PeerTimeoutError, match=r"no connection to two\.example:9092 within 1000 ms"):
        await impatient
    await rig.clock.run(9_000)
    with pytest.raises(PeerUnreachableError, match="within 10000 ms"):
        await patient


@pytest.mark.parametrize("begun", [False, True])
async def test_closing_fails_what_waits_and_what_comes_later(begun: bool) -> None:
    rig = Rig()
    rig.node.answers = lambda *_: None
    if not begun:
        rig.network.hangs.add((HOST, PORT))
    asked = rig.ask()
    await settle()
    rig.client.close()
    for each in (asked, rig.ask()):
        with pytest.raises(PeerDisconnectedError, match="closed by this node"):
            await each
    assert rig.clock.next_deadline_ms() is None, "no timer is left"


async def test_a_caller_that_gives_up_takes_nothing_from_the_others() -> None:
    rig = Rig()
    first, second = rig.ask(), rig.ask()
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).producer_id_start == 1
    rig.node.answers = lambda *_: None
    third = rig.ask()
    await settle()
    third.cancel()
    await settle()
    rig.node.answers = answer
    fourth = rig.ask()
    rig.node.transports[-1].write(answer(67, 0, 2) or b"")
    assert (await fourth).producer_id_start == 3, "the late answer went to nobody"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"HTTP/1.1 400 Bad Request", "an answer of 1213486160 bytes"),
        (answer(67, 0, 7) or b"", "correlation id 7, when 1 was due"),
        (b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", "malformed answer to API 67 v0"),
        (b"\x00\x00\x00\x01\x00", "no correlation id"),
    ],
)
async def test_what_is_no_answer_ends_the_connection(sent: bytes, why: str) -> None:
    rig = Rig()
    rig.node.answers = lambda *_: sent
    with pytest.raises(PeerDisconnectedError, match=why):
        await rig.ask()
    await settle()
    assert not rig.client.is_connected


def serves(*apis: tuple[int, int, int]) -> Callable[[int, int, int], bytes | None]:
    def versions(key: int, version: int, correlation_id: int) -> bytes | None:
        if key != 18:
            return answer(key, version, correlation_id)
        keys = tuple(ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in apis)
        response = default_entity(ApiVersionsResponse, error_code=ErrorCode.none, api_keys=keys)
        return bytes(frame_writer(ApiVersionsResponse, ApiVersionsResponse, 0)(response, correlation_id))

    return versions


async def test_an_answer_that_is_not_read_for_an_unforeseen_reason_is_not_waited_for_for_ever() -> None:
    """It is not in flight any more, and has no deadline, when it is read."""

    def fail(_frame: bytes, _position: int, _version: int) -> Any:
        raise RuntimeError("a bug")

    connection = PeerConnection(HOST, "broker-1", ManualClock(), lambda _: None)
    connection.connection_made(Mock())
    asked = connection.send(replace(entity_call(ASK), decode=fail), 0, 1000)
    with pytest.raises(RuntimeError):
        connection.data_received(answer(67, 0, 1) or b"")
    assert isinstance(asked.exception(), PeerDisconnectedError)


async def test_the_highest_version_that_both_speak_is_sent() -> None:
    rig = Rig(ask_versions)
    rig.node.answers = serves((63, 0, 1), (67, 0, 0))
    await rig.ask()
    heartbeat = asyncio.ensure_future(rig.client.send(entity_call(HEARTBEAT, lowest=0)))
    await settle()
    assert [(key, version) for key, version, _, _ in rig.node.requests] == [(18, 3), (67, 0), (63, 1)]
    heartbeat.cancel()


async def test_a_version_that_the_other_node_lacks_is_not_sent() -> None:
    rig = Rig(ask_versions)
    rig.node.answers = serves((63, 0, 1))
    with pytest.raises(PeerVersionError, match="versions 0 to 1 of API 63, but versions 2 to 2 are needed"):
        await rig.client.send(entity_call(HEARTBEAT))
    with pytest.raises(PeerVersionError, match="no version of API 67"):
        await rig.ask()
    assert [key for key, _, _, _ in rig.node.requests] == [18]


async def test_a_connection_that_cannot_be_prepared_is_closed_and_tried_again_later() -> None:
    async def refuse(connection: Any) -> None:
        raise PeerError("not today")

    rig = Rig(refuse)
    with pytest.raises(PeerError, match="not today"):
        await rig.ask()
    await settle()
    assert rig.network.connections[0].is_closing()
    again = rig.ask()
    await settle()
    assert not again.done()
    again.cancel()

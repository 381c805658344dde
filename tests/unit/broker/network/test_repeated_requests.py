"""What a connection keeps of its last heartbeat changes no answer: only the very same bytes are taken for it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.heartbeat.v4 import HeartbeatResponse
from kio.schema.join_group.v0.request import JoinGroupRequestProtocol

from broker.network.repeated import LONGEST_REPEATED_BYTES
from protocol.api import messages
from protocol.api.row import Api
from protocol.api.table import API_TABLE
from protocol.errors import UnknownMemberId
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, correlation_of, entity_frame, sized
from tests.unit.protocol.conftest import Generator

REPEATING = ("heartbeat", "consumer_group_heartbeat")

every_repeating = pytest.mark.parametrize(
    ("api", "version"),
    [(api, version) for api in API_TABLE if api.name in REPEATING for version in range(api.lowest, api.highest + 1)],
    ids=lambda one: one.name if isinstance(one, Api) else f"v{one}",
)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as one:
        yield one


def record(monkeypatch: pytest.MonkeyPatch, rig: Rig, api: Api) -> list[Any]:
    """Have the API's handler note what it is given, and refuse."""
    seen: list[Any] = []

    def handle(ctx: Any, request: Any) -> Any:
        seen.append((ctx.api_key, ctx.version, ctx.client_id, ctx.body, request))
        raise UnknownMemberId

    route = rig.route(api.key)
    monkeypatch.setattr(route, "handle", handle)
    return seen


async def outcome(client: Client, frame: bytes) -> tuple[list[bytes], bool]:
    client.transport.feed(frame)
    await settle()
    return client.replies(), client.transport.lost


def some_request(api: Api, version: int) -> bytes:
    """One that is small enough to be kept."""
    cls = messages.request_class(api.key, version)
    frames = (entity_frame(Generator((api.name, version, seed)).entity(cls), 7) for seed in range(100))
    return next(frame for frame in frames if len(frame) < LONGEST_REPEATED_BYTES)


async def test_these_are_all_that_repeat(rig: Rig) -> None:
    routes = [rig.route(api.key) for api in API_TABLE]
    assert tuple(route.api.name for route in routes if route.repeats) == REPEATING


@every_repeating
async def test_a_request_sent_again_is_the_same_with_a_correlation_id_of_its_own(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: Api, version: int
) -> None:
    seen = record(monkeypatch, rig, api)
    frame, client = some_request(api, version), rig.connect()
    (first,), _ = await outcome(client, frame)
    again = frame[:8] + (2**31 - 1).to_bytes(4, "big") + frame[12:]
    (second,), _ = await outcome(client, again)
    assert seen[0] == seen[1]
    assert seen[0][-1] is seen[1][-1]
    assert correlation_of(second) == 2**31 - 1
    assert second[4:] == first[4:]


@every_repeating
async def test_a_request_that_differs_anywhere_is_read_anew(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, api: Api, version: int
) -> None:
    seen = record(monkeypatch, rig, api)
    body = some_request(api, version)[4:]
    changed = [body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :] for at in range(len(body))]
    for other in (*changed, body[:-1], body + b"\0", body[:8], body[:3], b""):
        fresh, warm = rig.connect(), rig.connect()
        await outcome(warm, sized(body))
        seen.clear()
        expected = await outcome(fresh, sized(other))
        wanted = seen.copy()
        seen.clear()
        assert await outcome(warm, sized(other)) == expected
        assert seen == wanted


async def test_a_repeated_heartbeat_is_answered_by_how_things_are_now() -> None:
    async with Rig(config={"group.initial.rebalance.delay.ms": "0"}) as rig:
        await rig.node.coordinators.groups.ensure_topic()
        client, first, second = rig.connect(), rig.connect(), rig.connect()
        first.send("join_group", 0, **joining(""))
        await rig.clock.run(1)
        (told,) = (answer(reply, "join_group", 0) for reply in first.replies())
        heartbeat = {"group_id": "g", "generation_id": 1, "member_id": told.member_id}

        async def code(**fields: Any) -> ErrorCode:
            error: ErrorCode = (await client.ask("heartbeat", 2, **heartbeat | fields)).error_code
            return error

        assert await code() is ErrorCode.none
        assert await code() is ErrorCode.none
        assert await code(member_id="x") is ErrorCode.unknown_member_id
        assert await code() is ErrorCode.none
        second.send("join_group", 0, **joining(""))
        await settle()
        assert await code() is ErrorCode.rebalance_in_progress
        assert (await join(first, 0, told.member_id)).generation_id == 2
        assert await code() is ErrorCode.illegal_generation
        await first.ask("leave_group", 0, group_id="g", member_id=told.member_id)
        assert await code() is ErrorCode.unknown_member_id
        assert rig.node.local.metrics.requests["heartbeat"].by_version[2] == 7


def joining(member_id: str) -> dict[str, Any]:
    return {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b""),),
    }


async def join(client: Client, version: int, member_id: str = "") -> Any:
    return await client.ask("join_group", version, **joining(member_id))


async def test_a_large_request_is_not_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    (api,) = (one for one in API_TABLE if one.name == "heartbeat")
    record(monkeypatch, rig, api)
    client = rig.connect()
    client.send("heartbeat", 2, group_id="g", generation_id=1, member_id="m" * LONGEST_REPEATED_BYTES)
    await settle()
    assert client.connection.repeated is None
    client.send("heartbeat", 2, group_id="g", generation_id=1, member_id="m" * 100)
    await settle()
    assert client.connection.repeated is not None


async def test_a_lost_connection_is_freed_at_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    route = rig.route(12)
    good = HeartbeatResponse(throttle_time=timedelta(0), error_code=ErrorCode.none)
    monkeypatch.setattr(route, "handle", lambda _ctx, _request: good)
    client = rig.connect()
    client.send("heartbeat", 2, group_id="g", generation_id=1, member_id="m")
    await settle()
    assert client.connection.repeated is not None
    client.transport.reset()
    await settle()
    left = weakref.ref(client.connection)
    gc.disable()
    try:
        del client
        assert left() is None
    finally:
        gc.enable()

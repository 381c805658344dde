"""The limits on connections of an HTTP port, in virtual time, over transports made of two byte buffers."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from broker.config.broker_config import BrokerConfig
from broker.http.connections import IDLE_MS, MOST_WAITING, HttpPort
from tests.doubles.clock import ManualClock, settle
from tests.unit.broker.rig import FakeTransport

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire(FakeTransport):
    """A client's connection to the port."""

    def __init__(self, port: HttpPort, host: str) -> None:
        super().__init__(port(), host)  # type: ignore[arg-type]
        self.protocol.connection_made(self)

    def _deliver(self) -> None:
        data = bytes(self.arrived)
        self.arrived.clear()
        self.protocol.data_received(data)  # type: ignore[attr-defined]

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    async def ask(self, request: bytes = HEALTH) -> bytes:
        """What comes for the request, as far as it comes at once."""
        self.sent.clear()
        self.feed(request)
        await settle()
        return bytes(self.sent)


class Site:
    def __init__(self, clock: ManualClock, **settings: Any) -> None:
        app = web.Application()
        app.add_routes(
            [web.get("/healthz", self._health), web.get("/large", self._large), web.get("/tail", self._tail)]
        )
        config = {f"odradek.http.max.connections{name}": str(value) for name, value in settings.items()}
        self.clock = clock
        self.over = False
        self.port = HttpPort(app, "odradek.http.port", BrokerConfig.of(config), clock)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _large(self, _request: web.Request) -> web.Response:
        return web.Response(body=bytes(1 << 20))

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while not self.over:
            await answer.write(b"more" * 4096)
            await self.clock.sleep(IDLE_MS / 3)
        return answer


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Site]:
    site = Site(ManualClock(), **settings)
    await site.port.begin()
    yield site
    site.over = True
    await site.clock.run(IDLE_MS)
    await site.port.stop()


async def lost(wires: list[Wire]) -> list[int]:
    """Which of them are closed."""
    await settle()
    return [index for index, wire in enumerate(wires) if wire.lost]


async def test_half_requests_of_one_address_close_only_its_own() -> None:
    async with opened(**{"": 4}) as site:
        other = Wire(site.port, "10.0.0.2")
        flood = []
        for _ in range(20):
            flood.append(Wire(site.port, "10.0.0.1"))
            flood[-1].feed(b"GET /healthz HTTP/1.1\r\nHost:")
        assert await lost(flood) == [*range(17)]
        assert b"200 OK" in await other.ask()
        assert b"200 OK" in await Wire(site.port, "10.0.0.3").ask()
        assert len(site.port) == 4


async def test_health_is_answered_although_every_place_is_taken_by_answers_that_never_end() -> None:
    async with opened(**{"": 3}) as site:
        tails = [Wire(site.port, "10.0.0.1") for _ in range(3)]
        for tail in tails:
            assert b"more" in await tail.ask(b"GET /tail HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200 OK" in await Wire(site.port, "10.0.0.1").ask()
        assert await lost(tails) == [0]


async def test_one_that_waits_for_no_answer_is_closed_before_one_that_does() -> None:
    async with opened(**{".per.ip": 2}) as site:
        wires = [Wire(site.port, "10.0.0.1") for _ in range(2)]
        await wires[0].ask(b"GET /tail HTTP/1.1\r\nHost: x\r\n\r\n")
        await wires[1].ask()
        wires += [Wire(site.port, "10.0.0.1"), Wire(site.port, "10.0.0.2")]
        assert await lost(wires) == [1]


async def test_connections_take_an_eighth_of_the_descriptors_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 64))
    async with opened() as site:
        wires = [Wire(site.port, f"10.0.0.{number}") for number in range(20)]
        assert len(await lost(wires)) == 12


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost:", HEALTH, HEALTH + b"GET /he"])
async def test_a_connection_without_a_whole_request_ends_after_a_while(sent: bytes) -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        await wire.ask(sent)
        await site.clock.run(IDLE_MS - 1)
        assert not wire.lost
        await site.clock.run(1)
        assert wire.lost
        await settle()
        assert len(site.port) == 0


async def test_a_head_that_comes_byte_by_byte_ends_as_one_that_does_not_come() -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        for _ in range(20):
            await site.clock.run(IDLE_MS / 10)
            if not wire.lost:
                wire.feed(b"G")
        assert wire.lost


async def test_a_client_that_asks_now_and_then_stays() -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        for _ in range(10):
            assert b"200 OK" in await wire.ask()
            await site.clock.run(IDLE_MS - 1)
        assert not wire.lost


async def test_a_client_that_reads_nothing_of_its_answer_loses_it() -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        wire.stalled = True
        await wire.ask(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert len(wire.unsent) > 1 << 20
        for _ in range(10):  # a slow one keeps it
            del wire.unsent[:1000]
            await site.clock.run(IDLE_MS)
        assert not wire.lost
        await site.clock.run(2 * IDLE_MS)
        assert wire.lost


async def test_an_answer_that_goes_on_for_hours_stays_while_its_client_reads() -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        await wire.ask(b"GET /tail HTTP/1.1\r\nHost: x\r\n\r\n")
        await site.clock.run(100 * IDLE_MS)
        assert not wire.lost
        wire.stalled = True
        await site.clock.run(10 * IDLE_MS)
        assert wire.lost


async def test_more_requests_at_once_than_any_browser_sends_end_the_connection() -> None:
    async with opened() as site:
        wire = Wire(site.port, "10.0.0.1")
        assert (await wire.ask(HEALTH * MOST_WAITING)).count(b"200 OK") == MOST_WAITING
        await wire.ask(HEALTH * (MOST_WAITING + 1))
        assert wire.lost


@pytest.mark.parametrize(
    "request_of_none",
    [
        b"\x16\x03\x01\x00\xa5\x01\x00\x00",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 1000 + b"\r\n",
        b"POST /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /healthz HTTP/1.1\r\nContent-Length: a\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_refused_without_a_traceback(
    request_of_none: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened() as site:
        answer = await Wire(site.port, "10.0.0.1").ask(request_of_none)
        assert b" 400 " in answer or b" 405 " in answer
        assert caplog.records == []


@pytest.mark.parametrize("path", [b"healthz", b"none", b"tail", b"\xff"])
async def test_no_answer_names_a_version_or_lets_a_browser_guess_its_type_or_keep_it(path: bytes) -> None:
    async with opened() as site:
        answer = await Wire(site.port, "10.0.0.1").ask(b"GET /" + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"\r\nServer: odradek\r\n" in answer
        assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
        assert b"\r\nCache-Control: no-store\r\n" in answer
        assert b"aiohttp" not in answer.lower()
        assert b"python" not in answer.lower()


async def test_a_stop_ends_every_connection() -> None:
    async with opened() as site:
        wires = [Wire(site.port, "10.0.0.1") for _ in range(3)]
        await wires[0].ask()
        wires[1].feed(b"GET /")
        await asyncio.wait_for(site.port.stop(), 30)
        assert await lost(wires) == [0, 1, 2]

"""The HTTP server: readiness, health and metrics, and what a stop leaves open."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from broker.config.broker_config import BrokerConfig
from broker.network.server import ListenError
from broker.observe.http import HttpServer
from broker.observe.metrics import Metrics
from timing.clock import SystemClock


class State:
    def __init__(self) -> None:
        self.reason: str | None = "the log is being recovered"

    def __call__(self) -> str | None:
        return self.reason


def server_of(state: State, metrics: Metrics | None = None, port: int = 0) -> HttpServer:
    return HttpServer(BrokerConfig.of({"odradek.http.port": str(port)}), metrics or Metrics(), state, SystemClock())


@asynccontextmanager
async def serving(metrics: Metrics, state: State) -> AsyncIterator[aiohttp.ClientSession]:
    server = server_of(state, metrics)
    port = await server.bind()
    await server.serve()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            yield session
    finally:
        await server.stop()


async def ask(session: aiohttp.ClientSession, path: str, accept: str | None = None) -> tuple[int, str, str]:
    async with session.get(path, headers={"Accept": accept} if accept else None) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.text()


async def test_ready_follows_the_node_and_health_does_not() -> None:
    state = State()
    async with serving(Metrics(), state) as session:
        assert (await ask(session, "/v1/status/ready"))[::2] == (503, "the log is being recovered")
        assert (await ask(session, "/healthz"))[::2] == (200, "ok")
        state.reason = None
        assert (await ask(session, "/v1/status/ready"))[::2] == (200, "ready")
        state.reason = "shutting down"
        assert (await ask(session, "/v1/status/ready"))[::2] == (503, "shutting down")
        assert (await ask(session, "/healthz"))[::2] == (200, "ok")


@pytest.mark.parametrize(
    ("accept", "content_type", "ending"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8", ""),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8", ""),
        (
            "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "# EOF\n",
        ),
    ],
)
async def test_metrics_come_in_the_form_asked_for(accept: str | None, content_type: str, ending: str) -> None:
    metrics = Metrics()
    metrics.produced("a", messages=3, size=100)
    async with serving(metrics, State()) as session:
        status, found, text = await ask(session, "/metrics", accept)
        assert status == 200
        assert found.startswith(content_type)
        assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="a"} 3.0\n' in text
        assert text.endswith(ending)
        metrics.produced("a", messages=1, size=100)
        assert 'messagesin_total{topic="a"} 4.0\n' in (await ask(session, "/metrics", accept))[2]


async def test_the_nodes_state_is_read_on_the_loop_alone() -> None:
    metrics = Metrics()
    threads: list[int] = []

    def read() -> float:
        threads.append(threading.get_ident())
        metrics.gauge(f"odradek_late_{len(threads)}", "Registered while a scrape reads.", (), lambda: 1)
        return 1

    metrics.gauge("odradek_thread", "Where it is read.", (), read)
    async with serving(metrics, State()) as session:
        assert (await ask(session, "/metrics"))[0] == 200
        assert "odradek_late_1 1.0" in (await ask(session, "/metrics"))[2]
    assert threads == [threading.get_ident()] * 2


async def test_other_paths_and_methods_are_refused() -> None:
    async with serving(Metrics(), State()) as session:
        assert (await ask(session, "/"))[0] == 404
        async with session.post("/metrics") as answer:
            assert answer.status == 405


async def test_a_taken_port_is_an_error_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = server_of(State(), port=other.getsockname()[1])
        with pytest.raises(ListenError, match="address already in use"):
            await server.bind()
        await server.stop()


async def test_a_port_is_taken_before_it_is_served() -> None:
    server = server_of(State())
    port = await server.bind()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    with socket.socket() as other, pytest.raises(OSError, match="already in use"):
        other.bind(("127.0.0.1", port))
    await server.stop()


async def test_stop_closes_idle_connections_and_the_port() -> None:
    server = server_of(State())
    port = await server.bind()
    await server.serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"ok")
    await server.stop()
    await server.stop()
    assert await reader.read() == b""
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_connections_are_accepted_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without descriptors asyncio tries as often as that, and sets a timer for each attempt that fails."""
    asked: list[int] = []
    bind = asyncio.get_running_loop().create_server

    async def create_server(*args: Any, backlog: int, **kwargs: Any) -> Any:
        asked.append(backlog)
        return await bind(*args, backlog=backlog, **kwargs)

    monkeypatch.setattr(asyncio.get_running_loop(), "create_server", create_server)
    async with serving(Metrics(), State()):
        assert asked == [1]


async def test_a_request_ends_with_its_client() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def page(_request: web.Request) -> web.StreamResponse:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        raise AssertionError("nothing ends this wait")

    server = server_of(State())
    port = await server.bind()
    await server.serve(page)
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
        async with asyncio.timeout(60):
            await begun.wait()
            writer.close()
            await ended.wait()
    finally:
        await server.stop()

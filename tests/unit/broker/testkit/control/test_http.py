"""The control interface over HTTP, as the kit asks it: names that are odd in an address, bodies that are odd JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.http.connections import HttpPort
from broker.testkit.control.app import make_app
from broker.testkit.control.endpoint import Endpoint, Kind, Parameter
from odradek.control import ControlClient, ControlError, segment
from odradek.schemas.json_text import MOST_NESTED
from tests.unit.broker.rig import Rig

GROUP = Parameter("group", Kind.STRING, "the group's id", required=True)
ECHO = tuple(
    Endpoint(method, f"/groups/{{group}}{rest}", "", lambda _node, values: values, (GROUP,))
    for method, rest in (("GET", ""), ("GET", "/lag"), ("POST", "/wait"), ("DELETE", ""))
)
NAMES = (
    "",
    ".",
    "..",
    "...",
    "/",
    "//",
    "a/b",
    "%2F",
    "%",
    "{x}",
    "a b",
    "?x=1",
    "#",
    "\n",
    "ä",
    "\U0001f600" * 800,
    "n" * 32_767,
)


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[ControlClient]:
    async with TestServer(app) as server:
        client = ControlClient(f"http://127.0.0.1:{server.port}")
        yield client
        client.close()


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:10]))
async def test_any_name_can_be_in_an_address(name: str) -> None:
    async with Rig() as rig:
        port = HttpPort(make_app(rig.node, None, ECHO), "test", rig.node.local.config, rig.clock)
        await port.begin()
        async with await asyncio.get_running_loop().create_server(port, "127.0.0.1", 0) as server:
            client = ControlClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            for endpoint in ECHO:
                path = endpoint.path.replace("{group}", segment(name))
                assert await asyncio.to_thread(client.send, endpoint.method, path, {}) == {"group": name}
            client.close()
            await port.stop()


async def test_the_group_without_a_name_is_one_that_does_not_exist() -> None:
    async with Rig() as rig, serving(make_app(rig.node, None)) as client:
        found = await asyncio.to_thread(client.get, f"/groups/{segment('')}")
        assert (found["group"], found["state"]) == ("", "Dead")


@pytest.mark.parametrize("levels", [MOST_NESTED + 1, 1_000, 100_000])
async def test_a_body_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    async with Rig() as rig, serving(make_app(rig.node, None)) as client:
        deep = '{"json": ' + '{"a":' * levels + "1" + "}" * levels + "}"
        status, answer = await asyncio.to_thread(client._exchange, "POST", "/control/topics/t/wait", deep, 10.0)
        assert status == 400
        assert b"nested more than 200 levels" in answer or b"too many brackets" in answer


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, "Bad Request"), (200, "<html>"), (404, "[]"), (500, '{"message": "x"}'), (408, '{"error": 1}'), (502, "")],
)
async def test_an_answer_that_is_not_the_control_interfaces_is_told_as_such(status: int, body: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with serving(app) as client:
        with pytest.raises(ControlError, match=f"http://127.* has answered with status {status} and ") as caught:
            await asyncio.to_thread(client.get, "/status")
        assert caught.value.status == status


@pytest.mark.parametrize("deep", [{}, []])
def test_a_value_that_cannot_be_written_as_json_names_the_parameter(deep: Any) -> None:
    for _ in range(2_000):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="json is nested too deeply"):
        ControlClient("http://127.0.0.1:1").post("/topics/t/wait", json=deep)

"""How the bodies of requests are read, wherever one is taken: the console, the control interface, log levels."""

from __future__ import annotations

import ast
import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker.console.actions import LARGEST_FORM_BYTES
from broker.console.app import LARGEST_LOGIN_BYTES, App
from broker.console.history import History
from broker.http import bodies
from broker.http.connections import HttpPort
from broker.logging import Tracebacks
from broker.observe import http_app as loggers_http
from broker.testkit.control.app import make_app
from tests.doubles.clock import settle
from tests.unit.broker.console.test_login import SASL
from tests.unit.broker.rig import Rig

ROOT = Path(__file__).parents[4]
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
WRITABLE = {"odradek.console.write": "true"}

PLACES = [
    ("POST", "/login", FORM),
    ("POST", "/create-topic", FORM),
    ("PUT", "/admin/loggers/root", JSON),
    ("POST", "/control/topics", JSON),
]
"""One of each kind."""


@asynccontextmanager
async def serving(rig: Rig) -> AsyncIterator[aiohttp.ClientSession]:
    """All that takes bodies, on one port."""
    app = make_app(rig.node, None)
    app.add_routes(loggers_http.routes())
    app.router.add_route("*", "/{path:.*}", App(rig.node, History(rig.node)).answer)
    port = HttpPort(app, "test", rig.node.local.config, rig.clock)
    await port.begin()
    async with await asyncio.get_running_loop().create_server(port, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with aiohttp.ClientSession(address) as session:
            yield session
        while len(port):  # until the port has seen that its clients are gone
            await settle()
        await port.stop()


async def sent(
    session: aiohttp.ClientSession, place: tuple[str, str, str], body: Any, **headers: str
) -> tuple[int, str]:
    method, path, content_type = place
    headers = {"Content-Type": content_type} | {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.request(method, path, data=body, headers=headers, allow_redirects=False) as answer:
        return answer.status, await answer.text()


async def test_a_body_is_utf_8_whatever_charset_it_names(tracebacks: Tracebacks) -> None:
    body = b"topic=" + b"a" * 3000 + b"-" + b"b9" * 150_000
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        for method, path, content_type in PLACES:
            for charset in ("punycode", "unicode_escape", "utf-7", "utf-16", "latin-1", "rot13", "none-such"):
                used = time.process_time()
                status, text = await sent(session, (method, path, f"{content_type}; charset={charset}"), body)
                assert (status, "UTF-8" in text) == (400, True)
                assert time.process_time() - used < 0.5  # 0.02 s; with Python's punycode it was 1.5 s
    assert tracebacks.count == 0


async def test_a_header_about_the_body_costs_nothing(tracebacks: Tracebacks) -> None:
    headers = (";" * 8000, "(" * 8000, "a=b;" * 2000, "charset*=punycode''a%2d" + "b9" * 3500, "charset=" * 1000)
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        for method, path, content_type in PLACES:
            for more in headers:
                used = time.process_time()
                status, _ = await sent(session, (method, path, f"{content_type};{more}"), b"\xff")
                assert status == 400
                assert time.process_time() - used < 0.2  # 0.005 s; with the e-mail library's parser it was 0.45 s
    assert tracebacks.count == 0


async def test_bytes_that_are_no_utf_8_are_refused(tracebacks: Tracebacks) -> None:
    bytes_of_none = (
        b"topic=\xed\xa0\x80",
        b"topic=%ED%A0%80",
        b"topic=\xff",
        b"%FF=a",
        b'{"a": "\xed\xa0\x80"}',
        b"\xff\xfe{}",
    )
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        for place in PLACES:
            assert {(await sent(session, place, body))[0] for body in bytes_of_none} == {400}
    assert tracebacks.count == 0


@pytest.mark.long
async def test_json_that_is_no_text_or_no_json_is_refused(
    tracebacks: Tracebacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loggers_http, "LARGEST_BODY_BYTES", 1 << 21)
    halves = ('{"level": "\\ud800"}', '{"\\uDC00": 1}', '{"level": ["\\ud83d-\\ude00"]}')
    texts = (*halves, "[" * 200_000, '{"a":' * 200_000, "9" * 5000, "[", "nothing")
    async with Rig() as rig, serving(rig) as session:
        for place in (place for place in PLACES if place[2] == JSON):
            assert {(await sent(session, place, text))[0] for text in texts} == {400}
    assert tracebacks.count == 0


async def test_characters_beyond_the_basic_plane_are_taken() -> None:
    async with Rig() as rig, serving(rig) as session:
        status, text = await sent(session, ("PUT", "/admin/loggers/root", JSON), '{"level": "\\ud83d\\ude00"}')
        assert (status, "\U0001f600" in text or "\\ud83d\\ude00" in text) == (400, True)


async def test_a_compressed_body_is_not_unpacked() -> None:
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        for place in PLACES:
            status, text = await sent(session, place, gzip.compress(bytes(1 << 20)), Content_Encoding="gzip")
            assert (status, "Content-Encoding" in text) == (415, True)


async def test_parts_of_a_multipart_form_are_not_read() -> None:
    parts = aiohttp.FormData({"topic": "t"}, default_to_multipart=True)
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        async with session.post("/create-topic", data=parts) as answer:
            assert (answer.status, "must be a form" in await answer.text()) == (415, True)
        assert rig.node.cluster.cache.topic("t") is None


@pytest.mark.parametrize("count", [bodies.MOST_FIELDS, bodies.MOST_FIELDS + 1])
async def test_a_form_has_so_many_fields_at_most(count: int) -> None:
    async with Rig(config=WRITABLE) as rig, serving(rig) as session:
        status, text = await sent(session, ("POST", "/create-topic", FORM), "&".join(["a=b"] * count))
        assert (status, "the form has more than" in text) == (400, count > bodies.MOST_FIELDS)


# -- what is not read


class Raw:
    """A client that says how long its body is, and sends as much of it as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def begin(self, place: tuple[str, str, str], length: str) -> str:
        """The head of the answer to the head of a request, whose body never comes."""
        method, path, content_type = place
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n{length}\r\n\r\n".encode()
        )
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()


@asynccontextmanager
async def raw(session: aiohttp.ClientSession) -> AsyncIterator[Raw]:
    base = session._base_url
    assert base is not None
    reader, writer = await asyncio.open_connection(base.host, base.port)
    yield Raw(reader, writer)
    writer.close()


async def test_nothing_is_read_from_somebody_who_is_not_logged_in() -> None:
    async with Rig(config=SASL | WRITABLE) as rig:
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with serving(rig) as session:
            for path in ("/logout", "/create-topic", "/delete-topic", "/none", "/"):
                for length in ("Content-Length: 1000", "Transfer-Encoding: chunked"):
                    async with raw(session) as client:
                        head = await client.begin(("POST", path, FORM), length)
                        known = path not in ("/none", "/")
                        assert head.startswith("HTTP/1.1 303" if known else "HTTP/1.1 404")
                        assert ("\r\nLocation: login\r\n" in head) == known


@pytest.mark.parametrize(
    ("place", "most"),
    [
        (("POST", "/login", FORM), LARGEST_LOGIN_BYTES),
        (("POST", "/create-topic", FORM), LARGEST_FORM_BYTES),
        (("PUT", "/admin/loggers/root", JSON), loggers_http.LARGEST_BODY_BYTES),
        (("POST", "/control/topics", JSON), 64 << 20),
    ],
)
async def test_a_body_that_says_it_is_too_large_is_not_read(place: tuple[str, str, str], most: int) -> None:
    async with Rig(config=WRITABLE) as rig, serving(rig) as session, raw(session) as client:
        assert (await client.begin(place, f"Content-Length: {most + 1}")).startswith("HTTP/1.1 413")


async def test_a_body_of_unknown_length_is_read_up_to_the_limit() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(LARGEST_LOGIN_BYTES // 16 + 1):
            yield b"a" * 16

    async with Rig() as rig, serving(rig) as session:
        assert (await sent(session, ("POST", "/login", FORM), chunks()))[0] == 413


@pytest.mark.parametrize("place", PLACES)
async def test_a_body_that_does_not_come_in_time_is_given_up(
    place: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "TIME_S", 0.0)
    async with Rig(config=WRITABLE) as rig, serving(rig) as session, raw(session) as client:
        assert (await client.begin(place, "Content-Length: 20")).startswith("HTTP/1.1 408")


@pytest.mark.parametrize("place", PLACES)
async def test_a_client_that_goes_while_it_sends_is_no_bug_of_ours(
    place: tuple[str, str, str], tracebacks: Tracebacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = asyncio.Event()
    read = bodies.read_text

    async def noted(*given: Any) -> str:
        try:
            return await read(*given)
        finally:
            gone.set()

    monkeypatch.setattr(bodies, "read_text", noted)
    async with Rig(config=WRITABLE) as rig, serving(rig) as session, raw(session) as client:
        method, path, content_type = place
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: 9\r\n\r\n"
        )
        client.writer.write(head.encode() + b"abc")
        await client.writer.drain()
        client.writer.close()
        await asyncio.wait_for(gone.wait(), 30)
    assert tracebacks.count == 0


# -- the only reader


READING = frozenset(("post", "text", "json", "read", "content", "multipart", "release", "charset", "content_type"))


def readings(path: Path) -> Iterator[str]:
    """The lines that read the body of a request in some other way."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="request" | "_request"), attr=name) if name in READING:
                yield f"{path.relative_to(ROOT)}:{node.lineno} request.{name}"


@pytest.mark.parametrize("package", ["console", "http", "observe", "testkit"])
def test_bodies_are_read_in_one_place_alone(package: str) -> None:
    files = [*(ROOT / "broker" / package).rglob("*.py")]
    found = [line for path in files for line in readings(path)]
    assert files
    assert bool(found) == (package == "http")
    assert [line for line in found if not line.startswith("broker/http/bodies.py:")] == []

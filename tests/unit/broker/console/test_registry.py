"""Values of a schema registry: Avro and JSON are shown by their schemas, and what cannot be is shown as bytes."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.console.ask import MOST
from broker.console.formats import LONGEST_JSON, Shown
from broker.console.registry import Registry, RegistryError, Schema
from broker.testkit.control.budget import Budget
from odradek.schemas.codecs import codec_of
from odradek.schemas.framing import Framed
from odradek.schemas.framing import with_prefix as framed
from odradek.schemas.lookup import Source
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.rig import Rig

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
ENDLESS = {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": [{"name": "n", "type": "null"}]}}


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


class Served:
    """A registry with these answers by id, and how often it was asked for each."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answers: dict[int, dict[str, str]] = {
            1: {"schema": json.dumps(ORDER)},
            2: {"schema": "{}", "schemaType": "JSON"},
            3: {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"},  # it has no message
            4: {"schema": json.dumps(ENDLESS)},
            6: {"schema": json.dumps({"type": "enum", "name": "E", "symbols": ["a"], "doc": "d" * (1 << 20)})},
            5: {"schema": '{"type": "record", "name": "A", "fields": [{"name": "b", "type": "Elsewhere"}]}'},
        }

    async def answer(self, request: web.Request) -> web.Response:
        schema_id = int(request.match_info["id"])
        self.asked.append(schema_id)
        found = self.answers.get(schema_id)
        return web.json_response(found or {"error_code": 40403}, status=200 if found else 404)


@asynccontextmanager
async def registry(served: Served) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/schemas/ids/{id}", served.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@pytest.mark.long
async def test_avro_and_json_are_shown_by_their_schemas_and_each_is_asked_for_once() -> None:
    served = Served()
    async with registry(served) as url, Rig(config={"odradek.console.schema.registry": url}) as rig:
        await rig.create("t")
        append(
            rig, "t", (b"k", framed(1, written(ORDER, {"id": 7, "who": "<b>anna</b>"}))), (None, framed(2, b'{"a": 1}'))
        )
        async with browsing(rig) as browser:
            for _ in range(2):
                page = await browser.get("/messages?topic=t")
                assert '{"id": 7, "who": "<b>anna</b>"}' in page.text
                assert '{"a": 1}' in page.text
                assert not page.all("b")
            assert "Avro, schema 1" in (await browser.get("/message?topic=t&offset=0")).text
            assert "00 00 00 00 01" in (await browser.get("/message?topic=t&offset=0&format=hex")).text
    assert sorted(served.asked) == [1, 2]


async def test_what_cannot_be_decoded_is_shown_as_bytes() -> None:
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # a list of a great many items that take no bytes
    contents = [
        framed(1, b"\xff"),
        framed(3, b"\1"),
        framed(4, endless),
        framed(5, b"\1"),
        framed(6, b"\0"),
        framed(9, b"\1"),
        b"\0",
    ]
    async with registry(Served()) as url, Rig(config={"odradek.console.schema.registry": url}) as rig:
        await rig.create("t")
        append(rig, "t", *((None, content) for content in contents))
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t")
    for content in contents:
        assert f"00000000 {content.hex(' ')}" in page.text


ITEMS = {"type": "array", "items": {"type": "enum", "name": "Long", "symbols": ["s" * 10_000]}}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def shown(schema: Any, content: bytes, most: int = LONGEST_JSON, *, indented: bool = True) -> Shown | None:
    codec = codec_of(Source("AVRO", json.dumps(schema)))
    return Schema(1, codec).shown(Framed(1, content), most, Budget(MOST), indented=indented)


def test_a_list_of_long_symbols_is_cut_while_it_is_written() -> None:
    """Attack: 100 kB of an enum whose symbols are long became 200 MB."""
    found = shown(ITEMS, written(ITEMS, ["s" * 10_000] * 50_000))
    assert found is not None
    assert (len(found.text or ""), found.cut) == (LONGEST_JSON, None)
    short = shown(ITEMS, written(ITEMS, ["s" * 10_000]), 500, indented=False)
    assert short == ('["' + "s" * 498, "Avro, schema 1", None)


def test_a_decimal_is_written_as_a_number_only_if_it_is_short() -> None:
    """Attack: a decimal of 200 kB took five seconds."""
    small = shown(DECIMAL, written(DECIMAL, Decimal("-12.34")))
    large = shown(DECIMAL, written("bytes", b"\x7f" * 200_000))
    fixed = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": {**DECIMAL, "type": "fixed", "name": "F"}}],
    }
    fixed["fields"][0]["type"]["size"] = 100_000  # type: ignore[index]
    assert small is not None
    assert small.text == '"-12.34"'
    assert large is not None
    assert large.text == '"a decimal of 200000 bytes"'
    in_record = shown(fixed, b"\x7f" * 100_000)
    assert in_record is not None
    assert "a decimal of 100000 bytes" in (in_record.text or "")


async def test_a_registry_that_does_not_answer_is_said_once_on_the_page() -> None:
    async with Rig(config={"odradek.console.schema.registry": "http://127.0.0.1:9/"}) as rig:
        await rig.create("t")
        append(rig, "t", (None, framed(1, b"\1")), (None, b"plain"))
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t")
    assert "the schema registry cannot be asked: ClientConnectorError" in page.text
    assert "plain" in page.text


async def test_a_name_and_a_password_in_the_url_are_not_shown() -> None:
    with pytest.raises(RegistryError) as raised:
        await Registry("http://anna:secret@127.0.0.1:9").schemas_of([1])
    assert "secret" not in str(raised.value)


async def test_a_redirect_of_the_registry_is_not_followed() -> None:
    """Attack (SSRF): the registry sends this node to an address that only the node can reach."""
    inner = Served()

    async def elsewhere(request: web.Request) -> web.Response:
        return web.Response(status=int(request.match_info["id"]), headers={"Location": f"{inside}schemas/ids/1"})

    app = web.Application()
    app.router.add_get("/schemas/ids/{id}", elsewhere)
    async with registry(inner) as inside, TestServer(app) as server:
        for status in (301, 302, 303, 307, 308):
            with pytest.raises(RegistryError, match="leads elsewhere"):
                await Registry(str(server.make_url("/"))).schemas_of([status])
        config = {"odradek.console.schema.registry": str(server.make_url("/"))}
        async with Rig(config=config) as rig:
            await rig.create("t")
            append(rig, "t", (None, framed(302, written(ORDER, {"id": 7, "who": "anna"}))))
            async with browsing(rig) as browser:
                page = await browser.get("/messages?topic=t")
    assert "the schema registry leads elsewhere" in page.text
    assert "00000000 00 00 00 01 2e" in page.text
    assert inner.asked == []


EVIL = "<script>alert(1)</script>\u202eoN\ud800\x9b31m\x07'\"&{{7*7}}"
NAMES = {
    "type": "record",
    "name": "R",
    "doc": EVIL,
    "fields": [
        {"name": EVIL, "type": "double", "doc": EVIL, "aliases": [EVIL]},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["S"], "doc": EVIL}},
        {"name": "m", "type": {"type": "map", "values": "float"}},
    ],
}


async def test_hostile_names_and_numbers_of_a_schema_are_text_on_each_page() -> None:
    served = Served()
    served.answers[7] = {"schema": json.dumps(NAMES), "subject": EVIL}
    served.answers[8] = {"schema": json.dumps(NAMES), "schemaType": EVIL}
    value = struct.pack("<d", math.nan) + b"\0" + b"\2\x0c<i>\xc2\x9b\7" + struct.pack("<f", -math.inf) + b"\0"
    texts = (b'{"\\ud800<b>": "\\u202e\\u009b", "n": NaN, "i": [-Infinity, 1e999]}', b"[" * 99_999, b"9" * 5000)
    contents = [framed(7, value), framed(8, value), *(framed(2, text) for text in texts)]
    async with registry(served) as url, Rig(config={"odradek.console.schema.registry": url}) as rig:
        await rig.create("t")
        append(rig, "t", *((content, content) for content in contents))
        async with browsing(rig) as browser:
            pages = [await browser.get("/messages?topic=t")]
            pages += [await browser.get(f"/message?topic=t&offset={number}") for number in range(len(contents))]
    for page in pages:
        assert not [*page.all("b"), *page.all("i")]
        assert "alert(1)" not in str(page.elements)
        assert not re.search("[\u202e\x07\x80-\x9f]", page.text)
    assert "<script>alert(1)</script>\\u202eoN\\ud800" in pages[1].text
    assert "NaN" in pages[1].text and "-Infinity" in pages[1].text
    assert '"\\ud800<b>": "\\u202e\\u009b"' in pages[3].text


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"Content-Type": "text/html; charset=punycode"}, None),
        ({"Content-Type": "image/png"}, None),
        ({"Content-Encoding": "gzip"}, None),
        ({"Content-Length": "99999999999"}, "cannot be asked"),
        ({"X": "y" * 20_000}, "cannot be asked"),
    ],
    ids=str,
)
async def test_heads_of_a_registrys_answer_are_not_believed(head: dict[str, str], told: str | None) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        writer.write(f"HTTP/1.1 200 OK\r\n{lines}Connection: close\r\n\r\n".encode())
        writer.write(json.dumps({"schema": json.dumps(ORDER)}).encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        asked = Registry(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").schemas_of([1])
        if told is None:
            assert [*await asked] == [1]
        else:
            with pytest.raises(RegistryError, match=told):
                await asked

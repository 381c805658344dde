"""Values of a schema registry: Avro and JSON are shown by their schemas, and what cannot be is shown as bytes."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import fastavro
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.console.registry import Registry, RegistryError
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.rig import Rig

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}
ENDLESS = {"type": "array", "items": {"type": "record", "name": "Nothing", "fields": [{"name": "n", "type": "null"}]}}


def framed(schema_id: int, content: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + content


def avro(schema: Any, value: Any) -> bytes:
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
            3: {"schema": "syntax = 'proto3';", "schemaType": "PROTOBUF"},
            4: {"schema": json.dumps(ENDLESS)},
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


async def test_avro_and_json_are_shown_by_their_schemas_and_each_is_asked_for_once() -> None:
    served = Served()
    async with registry(served) as url, Rig(config={"odradek.console.schema.registry": url}) as rig:
        await rig.create("t")
        append(
            rig, "t", (b"k", framed(1, avro(ORDER, {"id": 7, "who": "<b>anna</b>"}))), (None, framed(2, b'{"a": 1}'))
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
    contents = [framed(1, b"\xff"), framed(3, b"\1"), framed(4, endless), framed(5, b"\1"), framed(9, b"\1"), b"\0"]
    async with registry(Served()) as url, Rig(config={"odradek.console.schema.registry": url}) as rig:
        await rig.create("t")
        append(rig, "t", *((None, content) for content in contents))
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t")
    for content in contents:
        assert f"00000000 {content.hex(' ')}" in page.text


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
        await Registry("http://anna:secret@127.0.0.1:9").schemas_of([framed(1, b"")])
    assert "secret" not in str(raised.value)

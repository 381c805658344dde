"""The console's schemas: subjects, versions, what differs, who uses which; what is registered, checked and deleted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from broker.console.schemas import differences
from broker.registry.host import RegistryHost
from broker.testkit.control.endpoint import ControlError
from metadata.acls import AclOperation, ResourceType
from odradek.schemas.framing import with_prefix
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.rights import SETTINGS, set_acls
from tests.unit.broker.console.test_hostile_names import HOSTILE, check
from tests.unit.broker.console.test_login import log_in
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.registry.rig import body, record
from tests.unit.broker.rig import Rig

A, B, WRONG = record("a:int"), record("a:int", 'b:string="x"'), record("c:int")
PROTO = 'syntax = "proto3";\nmessage M { string name = 1; }\n'
REGISTRY = {"schema.registry.listeners": "http://127.0.0.1:0"}


async def ask(rig: Rig, method: str, path: str, content: Any = None) -> Any:
    assert rig.node.registry is not None
    status, value = await rig.node.registry.ask(method, path, content)
    assert status == 200, value
    return value


async def register(rig: Rig, subject: str, schema: Any, **more: Any) -> int:
    path = f"/subjects/{quote(subject, safe='')}/versions"
    return int((await ask(rig, "POST", path, body(schema, **more)))["id"])


def host_of(rig: Rig) -> None:
    """Let the node have a registry, which is asked without sockets."""
    rig.node.registry = RegistryHost(rig.node)


@asynccontextmanager
async def browsed(**config: str) -> AsyncIterator[tuple[Rig, Browser]]:
    async with Rig(config={"odradek.console.write": "true", **config}) as rig, browsing(rig) as browser:
        host_of(rig)
        yield rig, browser


async def test_subjects_their_versions_and_who_uses_which() -> None:
    async with browsed() as (rig, browser):
        assert "has no schema registry" in (await browser.get("/schemas")).text, "nobody has asked for one yet"
        await rig.create("orders")
        await register(rig, "orders-value", A)
        await register(rig, "orders-value", B)
        refers = [{"name": "R", "subject": "orders-value", "version": 1}]
        await register(rig, "bills-value", record("by:R", name="Bill"), references=refers)
        await register(rig, ":.x:gone", A)
        await ask(rig, "DELETE", "/subjects/%3A.x%3Agone")

        page = await browser.get("/schemas")
        assert "bills-value AVRO 1 3" in page.text and "orders-value AVRO 2 2" in page.text
        assert ":.x:gone" not in page.text and "messages?topic=orders" in page.links()
        assert "bills" not in (await browser.get("/schemas?q=ord")).text
        assert ":.x:gone soft-deleted" in (await browser.get("/schemas?deleted=yes")).text
        assert [place for place, _ in (await browser.get("/schemas?sort=-id")).headings()].count("descending") == 1

        latest = await browser.get("/schema?subject=orders-value")
        assert '"name": "b"' in latest.text and "Version 2 Id 2" in latest.text
        first = await browser.get("/schema?subject=orders-value&version=1&against=2")
        assert "schema?subject=bills-value&version=1" in first.links(), "it is used by"
        assert "schema?subject=orders-value&version=1" in (await browser.get("/schema?subject=bills-value")).links()
        assert first.all("del") and not first.all("ins"), "version 2 has a field more"
        assert "Id 2" in (await browser.get("/schema?id=2")).text
        guid = (await ask(rig, "GET", "/subjects/orders-value/versions/2"))["guid"]
        assert "Id 2" in (await browser.get(f"/schema?guid={guid}")).text
        assert "no subject has the schema 9" in (await browser.get("/schema?id=9", 404)).text
        assert "no version 7" in (await browser.get("/schema?subject=orders-value&version=7", 404)).text
        assert "There is no such subject" in (await browser.get("/schema?subject=none")).text


async def test_schemas_are_checked_registered_and_deleted() -> None:
    async with browsed() as (rig, browser):
        assert await ask(rig, "GET", "/subjects") == [], "it is in use from now on"
        form = {"subject": "s-value", "type": "AVRO", "do": "register"}
        place = await browser.post("/register-schema", text=json.dumps(A), **form)
        assert place == "schema?subject=s-value&version=1&done=The+schema+is+registered."
        refused = await browser.post("/register-schema", 409, text=json.dumps(WRONG), **form)
        assert "it does not fit: READER_FIELD_MISSING_DEFAULT_VALUE: " in refused
        assert "compared with version 1; the level is BACKWARD" in refused
        checked = await browser.post("/register-schema", **{**form, "text": json.dumps(B), "do": "check"})
        page = await browser.get(f"/{checked}")
        assert "it was not registered" in page.text and json.loads(page.areas["text"]) == B
        assert await ask(rig, "GET", "/subjects/s-value/versions") == [1]
        proto = {"subject": "p-value", "type": "PROTOBUF", "do": "register", "text": PROTO.replace("\n", "\r\n")}
        await browser.post("/register-schema", **proto)
        assert await ask(rig, "GET", "/subjects/p-value/versions/1/schema") == PROTO
        await browser.post(
            "/register-schema", **{**form, "subject": "o", "text": '["R", "int"]', "references": "R = s-value:1"}
        )
        assert "referred to by" in await browser.post("/delete-schema", 422, subject="s-value", version="1")
        for wrong, said in (
            ({"text": " "}, "the schema is missing"),
            ({"text": "{"}, "it does not fit: The schema is no JSON"),
            ({"text": "1", "references": "R"}, "expected NAME=SUBJECT:VERSION"),
        ):
            status = 409 if "fit" in said else 400
            assert said in await browser.post("/register-schema", status, **{**form, **wrong})
        assert (await browser.post("/delete-schema", subject="o")).startswith("schemas?")
        assert (await browser.post("/delete-schema", subject="s-value", version="1")).startswith(
            "schema?subject=s-value"
        )
        page = await browser.get("/schema?subject=s-value")
        assert "1 soft-deleted" in page.text
        assert "was not deleted first" in await browser.post("/delete-schema", 404, subject="p-value", permanent="yes")


async def test_levels_and_modes_are_set_and_given_up() -> None:
    async with browsed() as (rig, browser):
        await register(rig, "s-value", A)
        page = await browser.get("/schema?subject=s-value")
        assert page.selected["level"] == "as set above it" == page.selected["mode"]
        now = {"level_now": "as set above it", "mode_now": "as set above it"}
        await browser.post("/set-schema-level", subject="s-value", level="FULL", mode="READONLY", **now)
        page = await browser.get("/schema?subject=s-value")
        assert (page.selected["level"], page.selected["mode"]) == ("FULL", "READONLY")
        given_up = {"level": "as set above it", "mode": "as set above it", "level_now": "FULL", "mode_now": "READONLY"}
        said = await browser.post("/set-schema-level", 422, subject="s-value", **given_up)
        assert "read-only mode" in said
        await browser.post("/set-schema-level", subject="s-value", mode="as set above it", mode_now="READONLY")
        await browser.post("/set-schema-level", subject="s-value", level="as set above it", level_now="FULL")
        assert await ask(rig, "GET", "/config/s-value?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
        await browser.post("/set-schema-level", subject="", level="NONE", level_now="BACKWARD")
        assert "level of all NONE" in (await browser.get("/schemas")).text


async def test_users_see_and_do_what_the_registry_lets_them() -> None:
    async with Rig(config={**SETTINGS, **REGISTRY}) as rig:
        host_of(rig)
        await rig.create("told-a")
        await register(rig, "told-a-value", A)
        await register(rig, "told-b-value", B)
        append(rig, "told-a", (None, with_prefix(1, b"\x0e")), (None, with_prefix(2, b"\x0e\x02y")))
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            set_acls(rig, ())
            assert "told" not in (await browser.get("/schemas")).text
            assert "or you may not see it" in (await browser.get("/schema?subject=told-a-value")).text
            form = {"subject": "told-a-value", "text": json.dumps(B), "type": "AVRO", "do": "register"}
            await browser.post("/register-schema", 403, **form)
            set_acls(rig, [(AclOperation.READ, ResourceType.TOPIC, "told-a")])
            page = await browser.get("/schemas")
            assert "told-a-value" in page.text and "told-b" not in page.text
            assert "WRITE on the topic told-a" in await browser.post("/register-schema", 403, **form)
            assert "DELETE on the topic told-a" in await browser.post("/delete-schema", 403, subject="told-a-value")
            level = {"subject": "told-a-value", "level": "FULL", "level_now": ""}
            assert "ALTER_CONFIGS on the topic told-a" in await browser.post("/set-schema-level", 403, **level)
            assert "ALTER_CONFIGS on the cluster" in await browser.post("/set-schema-level", 403, level="FULL")
            records = await browser.get("/messages?topic=told-a")
            assert '{"a": 7}' in records.text and '"b"' not in records.text, (
                "of another topic's schema no field is told"
            )
            set_acls(rig, [(AclOperation.WRITE, ResourceType.TOPIC, "told-a")])
            assert (await browser.post("/register-schema", **form)).startswith("schema?")


@pytest.mark.parametrize("name", HOSTILE)
async def test_names_and_texts_stay_text(name: str) -> None:
    async with browsed() as (rig, browser):
        await register(rig, name, {"type": "record", "name": "R", "fields": [], "doc": name})
        check(await browser.get("/schemas"))
        check(await browser.get(f"/schema?subject={quote(name, safe='')}"))


async def test_records_are_decoded_by_the_nodes_own_registry_all_three_kinds() -> None:
    async with browsed() as (rig, browser):
        await rig.create("t")
        ids = [
            await register(rig, "t-value", A),
            await register(rig, "p", PROTO, schemaType="PROTOBUF"),
            await register(rig, "j", {"type": "object"}, schemaType="JSON"),
        ]
        contents = (b"\x0e", b"\0\x0a\x04Anna", b'{"j": 1}')
        append(rig, "t", *((None, with_prefix(one, content)) for one, content in zip(ids, contents, strict=True)))
        page = await browser.get("/messages?topic=t")
        for told in ('{"a": 7} schema 1', '{"name": "Anna"} schema 2', '{"j": 1} schema 3'):
            assert told in page.text
        assert {"schema?id=1", "schema?id=2", "schema?id=3"} <= set(page.links())
        assert "Protobuf, schema 2" in (await browser.get("/message?topic=t&offset=1")).text


async def test_without_a_registry_the_schema_of_a_record_is_named() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        await rig.create("t")
        guid = ((b"__value_schema_id", b"\1" + bytes(15) + b"\7"),)
        contents = [with_prefix(7, b"\x0eabc"), (5).to_bytes(8, "big"), with_prefix(0, b"abc"), b"text"]
        append(rig, "t", *((None, content) for content in contents))
        found = rig.node.replicas.get("t", 0)
        assert found is not None
        batch = build_batch([Record(0, 0, None, b"\x0e", guid)])
        found.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())
        page = await browser.get("/messages?topic=t")
    assert [one["href"] for one in page.all("a") if one.get("class") == "tag"] == [
        "schema?guid=00000000-0000-0000-0000-000000000007",
        "schema?id=7",
    ]
    assert "schema 7?" in page.text and "schema 0?" not in page.text


async def test_another_registry_is_shown_and_never_changed() -> None:
    answers: dict[str, Any] = {
        "/subjects": ["t-value", "u-value"],
        "/subjects/t-value/versions": [1],
        "/subjects/t-value/versions/latest": {"subject": "t-value", "version": 1, "id": 5, "schema": '"int"'},
        "/subjects/t-value/versions/1": {"subject": "t-value", "version": 1, "id": 5, "schema": '"int"'},
        "/config": {"compatibilityLevel": "FULL"},
        "/mode": {"mode": "READWRITE"},
    }

    async def answer(request: web.Request) -> web.Response:
        found = answers.get(request.path)
        return web.json_response(found or {"error_code": 40401}, status=404 if found is None else 200)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        config = {"odradek.console.write": "true", "odradek.console.schema.registry": str(server.make_url("/"))}
        async with Rig(config=config) as rig, browsing(rig) as browser:
            page = await browser.get("/schemas?q=t")
            assert "t-value AVRO 1 5" in page.text and "u-value" not in page.text
            page = await browser.get("/schema?subject=t-value")
            assert '"int"' in page.text and "This is another registry" in page.text
            assert not [one for one in page.all("form") if one.get("method") == "post"]
            said = await browser.post("/register-schema", 409, subject="t-value", text='"int"')
            assert "the schema registry is another one" in said


def test_what_differs_is_told_line_by_line_and_long_texts_are_not_compared() -> None:
    assert [tuple(line) for line in differences("a\nb\nc", "a\nx\nc")] == [
        ("@", ""),
        (" ", "a"),
        ("-", "b"),
        ("+", "x"),
        (" ", "c"),
    ]
    with pytest.raises(ControlError, match="more than 2,000 lines"):
        differences("a\n" * 2001, "b")

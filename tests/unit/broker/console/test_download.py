"""Downloads of messages: JSON lines, CSV, Parquet; streamed, bounded, and never cut without a sign."""

from __future__ import annotations

import csv
import importlib.util
import io
import json

import aiohttp
import pytest

from broker.console import download, filters, sent
from broker.testkit.control.budget import SpentError
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.rig import Rig

needs_pyarrow = pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")


async def downloaded(browser: Browser, query: str) -> bytes:
    async with browser.session.get(f"/download?topic=orders&{query}") as answer:
        body = await answer.read()
        assert answer.status == 200, body
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return body


async def rows(browser: Browser, query: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (await downloaded(browser, query)).splitlines()]


async def test_lines_of_json_are_those_of_the_command_line() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", (b"k", b'{"a": 1}'), (None, b"\xff\x00"), ("ä".encode(), None), at_ms=7)
        async with browsing(rig) as browser:
            found = await rows(browser, "from=oldest")
            as_json = await rows(browser, "from=oldest&format=json")
            as_hex = await rows(browser, "from=oldest&format=hex")
    line = {"topic": "orders", "partition": 0, "offset": 0, "timestamp": 7, "key": "k", "headers": [["h", "1"]]}
    assert found[0] == {**line, "value": '{"a": 1}'}
    assert [one["value"] for one in found[1:]] == [{"base64": "/wA="}, None]
    assert [one["key"] for one in found[1:]] == [None, "ä"]
    assert as_json[0]["value"] == {"a": 1}
    assert as_hex[1]["value"] == "ff00"


@pytest.mark.long
async def test_a_download_goes_on_from_what_is_shown_with_the_same_filters() -> None:
    async with Rig() as rig:
        await rig.create("orders", 2)
        append(rig, "orders", *orders(700))
        append(rig, "orders", *orders(500), partition=1)
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=orders&field=user.id&value=6&from=oldest&sort=offset")
            hidden = {one["name"]: one["value"] for one in page.all("input") if one.get("type") == "hidden"}
            assert hidden["at"] == "0:0,1:0"
            everything = await rows(browser, "from=oldest&most=10000")
            assert [(one["partition"], one["offset"]) for one in everything] == [
                *((0, at) for at in range(700)),
                *((1, at) for at in range(500)),
            ]
            some = await rows(browser, "field=user.id&value=6&at=0:0,1:0&most=120")
            assert [one["offset"] for one in some] == [*range(6, 700, 7), *range(6, 140, 7)]
            assert len(await rows(browser, "at=0:650,1:490&most=50")) == 50
            assert len(await rows(browser, "at=0:690,1:490&most=50")) == 20


async def test_csv_quotes_what_has_commas_quotes_and_lines() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", (b'a,"b"\nc', b"=1+1"), (None, b"\xff"), at_ms=1_700_000_000_000)
        async with browsing(rig) as browser:
            text = (await downloaded(browser, "as=csv&from=oldest")).decode()
    first, second = csv.DictReader(io.StringIO(text, newline=""))
    assert first == {
        "topic": "orders",
        "partition": "0",
        "offset": "0",
        "timestamp": "2023-11-14 22:13:20.000",
        "key": 'a,"b"\nc',
        "value": "=1+1",
        "headers": '[["h", "1"]]',
    }
    assert second["key"] == ""
    assert second["value"] == '{"base64": "/w=="}'


@pytest.mark.long
@needs_pyarrow
async def test_parquet_has_the_same_rows_with_types() -> None:
    import pyarrow.parquet as pq

    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(450), at_ms=1_700_000_000_000)
        async with browsing(rig) as browser:
            table = pq.read_table(io.BytesIO(await downloaded(browser, "as=parquet&from=oldest&most=450")))
    assert table.column("offset").to_pylist() == list(range(450))
    assert str(table.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"
    assert table.column("headers")[0].as_py() == [{"name": "h", "value": "1"}]
    assert json.loads(table.column("value")[9].as_py()) == {"id": 9, "user": {"id": 2}}


async def test_without_pyarrow_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else found(name))
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(1))
        async with browsing(rig) as browser:
            assert "Parquet needs pip install pyarrow" in (await browser.get("/messages?topic=orders")).text
            refused = await browser.get("/download?topic=orders&as=parquet", 409)
            assert "pip install pyarrow" in refused.text


async def test_what_cannot_be_sent_whole_is_broken_off_so_that_the_browser_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sent, "MOST_BYTES", 100_000)
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(2_000))
        async with browsing(rig) as browser:
            assert len(await rows(browser, "from=oldest&most=500")) == 500
            with pytest.raises(aiohttp.ClientPayloadError):
                await downloaded(browser, "from=oldest&most=2000")
            await browser.get("/topics")  # the download has ended, and its place is free
            assert not browser.app.downloads.running


@pytest.mark.parametrize("error", [SpentError(), LookupError("a bug")])
async def test_an_error_after_the_first_rows_breaks_the_file_off(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(*_: object) -> None:
        raise error

    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(10))
        async with browsing(rig) as browser:
            await rows(browser, "from=oldest")
            monkeypatch.setattr(download, "schemas_for", fail)
            with pytest.raises(aiohttp.ClientError):
                await downloaded(browser, "from=oldest")


async def test_a_search_for_a_download_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_SEARCHED", 1_000)
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(1))
        for _ in range(25):
            append(rig, "orders", *orders(1_000))
        async with browsing(rig) as browser:
            with pytest.raises(aiohttp.ClientPayloadError):
                await downloaded(browser, "from=oldest&key=nobody")


@pytest.mark.parametrize(("query", "text"), [("most=0", "expected 1 to 10000"), ("as=xlsx", "expected one of jsonl")])
async def test_what_is_wrong_is_said_before_anything_is_sent(query: str, text: str) -> None:
    async with Rig() as rig:
        await rig.create("orders")
        async with browsing(rig) as browser:
            assert text in (await browser.get(f"/download?topic=orders&{query}", 400)).text


@pytest.mark.skipif(not filters.is_there(), reason="jq is not installed (the extra `filter`)")
async def test_a_download_takes_an_expression_too() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(600))
        async with browsing(rig) as browser:
            found = await rows(browser, "from=oldest&filter=.value.user.id%3D%3D6")
            assert [one["offset"] for one in found] == list(range(6, 600, 7))
            refused = await browser.get("/download?topic=orders&filter=.value%3D%3D", 400)
            assert "jq cannot read the expression" in refused.text


async def test_an_open_transaction_is_left_out_unless_it_is_asked_for() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", (b"k", b"v"))
        held = build_batch(
            [Record(0, 0, b"held", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        partition = rig.node.replicas.get("orders", 0)
        assert partition is not None
        partition.append(memoryview(held), AppendOrigin.CLIENT, rig.clock.wall_ms())
        async with browsing(rig) as browser:
            assert [one["key"] for one in await rows(browser, "from=oldest")] == ["k"]
            both = await rows(browser, "from=oldest&isolation=uncommitted")
            assert [one["key"] for one in both] == ["k", "held"]

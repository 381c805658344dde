"""Records on the console's pages: found by a seek, decoded, searched in bounded steps."""

from __future__ import annotations

import asyncio
import json
from functools import partial

from broker.console.ask import MOST
from broker.console.formats import FORMATS, decoded, field_of
from broker.console.tail import event_of
from broker.testkit.control.budget import Budget
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.rig import Rig

SECOND_MS = 1000


def append(
    rig: Rig, topic: str, *records: tuple[bytes | None, bytes | None], partition: int = 0, at_ms: int = 0
) -> None:
    """Append records; the time of each is a second after that of the one before it."""
    batch = build_batch(
        [Record(at, at_ms + at * SECOND_MS, key, value, ((b"h", b"1"),)) for at, (key, value) in enumerate(records)]
    )
    found = rig.node.replicas.get(topic, partition)
    assert found is not None
    found.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())


def orders(count: int) -> list[tuple[bytes, bytes]]:
    return [(b"k%d" % at, json.dumps({"id": at, "user": {"id": at % 7}}).encode()) for at in range(count)]


async def test_the_newest_records_come_first_and_lead_to_earlier_ones() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(120))
        async with browsing(rig) as browser:
            newest = await browser.get("/messages?topic=orders")
            assert "k119" in newest.text
            assert "k70" in newest.text
            assert "k69" not in newest.text
            (earlier,) = [link for link in newest.links() if "at=0%3A20" in link]
            assert "k69" in (await browser.get(f"/{earlier}")).text
            oldest = await browser.get("/messages?topic=orders&from=oldest")
            assert "k49" in oldest.text
            assert "k50" not in oldest.text


async def test_records_are_found_by_offset_and_by_time() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(120), at_ms=1_700_000_000_000)
        async with browsing(rig) as browser:
            by_offset = await browser.get("/messages?topic=orders&from=offset&offset=100")
            by_time = await browser.get("/messages?topic=orders&from=time&time=2023-11-14T22:15:00Z")
            assert "k99" not in by_offset.text
            assert "k100" in by_offset.text
            assert by_time.text.count("2023-11-14 22:15:00.000") == 1
            assert "2023-11-14 22:14:59.000" not in by_time.text
            assert "expected a time" in (await browser.get("/messages?topic=orders&from=time&time=noon", 400)).text
            assert "expected one of" in (await browser.get("/messages?topic=orders&from=there", 400)).text
            assert "expected 0 to 0" in (await browser.get("/messages?topic=orders&partition=1", 400)).text


async def test_records_are_found_by_key_and_by_a_field_of_json() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", *orders(100))
        async with browsing(rig) as browser:
            by_key = await browser.get("/messages?topic=orders&key=k7")
            by_field = await browser.get("/messages?topic=orders&field=user.id&value=6")
            by_part = await browser.get('/messages?topic=orders&value="id": 42')
        assert "1 found in 100 offsets, up to the end" in by_key.text
        assert "14 found in 100 offsets" in by_field.text
        assert "1 found in 100 offsets" in by_part.text


async def test_a_search_looks_at_so_many_records_and_then_asks_whether_to_go_on() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        for _ in range(25):
            append(rig, "orders", *orders(1000))
        async with browsing(rig) as browser:
            first = await browser.get("/messages?topic=orders&from=oldest&key=nowhere")
            assert "0 found in 20,000 offsets" in first.text
            (on,) = [link for link in first.links() if "at=0%3A20000" in link]
            assert "0 found in 5,000 offsets, up to the end" in (await browser.get(f"/{on}")).text


async def test_one_record_is_shown_whole_in_each_form() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", (b"\x00\xff", json.dumps({"a": [1, 2]}).encode()), (None, None))
        async with browsing(rig) as browser:
            page = await browser.get("/message?topic=orders&partition=0&offset=0")
            assert '{ "a": [ 1, 2 ] }' in page.text
            assert "00 ff" in page.text
            assert "7b 22 61 22" in (await browser.get("/message?topic=orders&partition=0&offset=0&format=hex")).text
            assert "null" in (await browser.get("/message?topic=orders&partition=0&offset=1")).text
            assert "no record at offset 9" in (await browser.get("/message?topic=orders&offset=9", 404)).text


async def test_a_browser_that_follows_gets_what_is_appended() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        append(rig, "orders", (b"before", b"1"))
        async with browsing(rig) as browser, browser.session.get("/tail?topic=orders") as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            append(rig, "orders", (b"after", b"<b>2</b>"))
            async with asyncio.timeout(60):
                event = (await answer.content.readuntil(b"\n\n")).decode()
        assert event.startswith("event: records\ndata: ")
        assert "after" in event
        assert "&lt;b&gt;2&lt;/b&gt;" in event
        assert "before" not in event


def test_an_event_has_a_line_of_data_for_each_line_feed_alone() -> None:
    assert event_of("records", "a\u2028b\x85c\r\nd") == "event: records\ndata: a\u2028b\x85c\ndata: d\n\n".encode()


def test_bytes_are_shown_as_what_they_are() -> None:
    shown = partial(decoded, budget=Budget(MOST))
    assert shown(None).text is None
    assert shown("zwölf".encode()).text == "zwölf"
    assert shown(b"\x00\x01").kind == "hex"
    assert shown("zwölf".encode(), most=3) == ("zw", "text", 3)
    assert shown("zwö".encode(), most=4, more=3) == ("zwö", "text", 3)
    assert shown(b"\xff", form="text").text == "\N{REPLACEMENT CHARACTER}"
    assert shown(b'{"a":1}', form="json").text == '{"a": 1}'
    assert shown(b"[" * 100_000, form="json").kind == "text"


def test_a_path_leads_through_objects_and_lists() -> None:
    value = {"items": [{"sku": "a"}], "none": None}
    assert field_of(value, "items.0.sku") == ["a"]
    assert field_of(value, "none") == [None]
    assert field_of(value, "items.1.sku") == []
    assert field_of(value, "items.0000000005.sku") == []
    assert field_of(value, "items.x") == []


async def test_half_of_a_surrogate_pair_is_shown_as_its_escape_and_deep_json_as_text() -> None:
    deep = b'{"b":' * 100_000 + b"1" + b"}" * 100_000
    async with Rig() as rig:
        await rig.create("t")
        append(rig, "t", (b'{"k": "\\udc00"}', b'{"a": "\\ud800", "\\udfff": 1}'), (None, deep))
        async with browsing(rig) as browser:
            for page in ("messages?topic=t", "message?topic=t&partition=0&offset=0"):
                for form in FORMATS:
                    await browser.get(f"/{page}&format={form}")
            assert r'"a": "\ud800"' in (await browser.get("/messages?topic=t&format=json")).text
            assert r'"\udfff": 1' in (await browser.get("/message?topic=t&partition=0&offset=0")).text
            assert '{"b":{"b":' in (await browser.get("/message?topic=t&partition=0&offset=1")).text
            assert "No record" in (await browser.get("/messages?topic=t&field=b.b&value=2")).text
            async with browser.session.get("/tail?topic=t&format=json") as answer:
                append(rig, "t", (None, b'{"a": "\\ud800"}'))
                async with asyncio.timeout(60):
                    assert rb"\ud800" in await answer.content.readuntil(b"\n\n")


async def test_an_empty_text_is_shown_as_one() -> None:
    async with Rig() as rig:
        await rig.create("t")
        record = Record(0, 0, b"", b"", ((b"", b""),))
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        partition.append(memoryview(build_batch([record])), AppendOrigin.CLIENT, rig.clock.wall_ms())
        async with browsing(rig) as browser:
            listed = await browser.get("/messages?topic=t")
            assert '"" "" "": ""' in listed.text
            whole = await browser.get("/message?topic=t&partition=0&offset=0")
            assert 'Key "" text' in whole.text
            assert 'Headers "" ""' in whole.text

"""The form that writes a record, and sends one again: every byte comes through, and null is told from empty."""

from __future__ import annotations

import base64

import pytest

from broker.console.produce import content_of, typed
from broker.testkit.control.endpoint import ControlError
from broker.testkit.control.topic_reader import TopicReader
from protocol.murmur2 import partition_of_key
from protocol.records.build import Headers, Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import Browser, Html, browsing
from tests.unit.broker.rig import Rig

WRITE = {"odradek.console.write": "true"}
CONTENTS = (None, b"", b"text", "säge €".encode(), b"two\nlines", b"\nleading", b"a\r\nb", b"\x00\xff", b"\xed\xa0\x80")


async def written(rig: Rig, partition: int = 0) -> list[Record]:
    reader = TopicReader(rig.node, "t", {partition: 0}, committed=False)
    return [one.record for one in await reader.read(10)]


def fields_of(page: Html) -> dict[str, str]:
    """What a browser would send, as it stands on the page: it changes the ends of lines, as all browsers do."""
    found = {one["name"] or "": one.get("value") or "" for one in page.all("input") if one.get("name")}
    found |= page.selected | page.areas
    return {name: value.replace("\n", "\r\n") for name, value in found.items()}


async def send(browser: Browser, **form: str) -> str:
    return await browser.post("/produce-record", 303, topic="t", **form)


@pytest.mark.parametrize("content", CONTENTS)
def test_bytes_come_back_from_a_form_as_they_went_in(content: bytes | None) -> None:
    kind, text = typed(content)
    assert content_of(kind, text.replace("\n", "\r\n"), "value") == content


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("base64", "a", "expected base64"),
        ("hex", "0", "two hexadecimal digits"),
        ("JSON", "{", "expected JSON"),
        ("JSON", "", "expected JSON"),
        ("null", "x", "null has no content"),
    ],
)
def test_what_is_no_content_of_its_kind_is_refused(kind: str, text: str, problem: str) -> None:
    with pytest.raises(ControlError, match=problem):
        content_of(kind, text, "value")


async def test_a_record_is_written_with_key_value_headers_partition_and_time() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t", partitions=3)
        place = await send(
            browser,
            key="k",
            value="a0ff",
            value_kind="hex",
            partition="2",
            timestamp="2023-11-01T12:00:00",
            header_name_0="trace",
            header_0="7",
            header_name_1="none",
            header_kind_1="null",
        )
        assert place == "message?topic=t&partition=2&offset=0&done=The+record+was+written."
        (record,) = await written(rig, partition=2)
        assert (record.key, record.value) == (b"k", b"\xa0\xff")
        assert record.headers == ((b"trace", b"7"), (b"none", None))
        assert record.timestamp == 1698840000000
        assert "The record was written." in (await browser.get(f"/{place}")).text


async def test_null_is_told_from_empty() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t")
        await send(browser, key_kind="null", value_kind="null")
        await send(browser, key_kind="text", value_kind="text")
        assert [(one.key, one.value) for one in await written(rig)] == [(None, None), (b"", b"")]


async def test_a_key_decides_on_the_partition_as_in_java() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t", partitions=16)
        for key in (b"a", b"b", b"0"):
            expected = partition_of_key(key, 16)
            assert f"partition={expected}&" in await send(browser, key=key.decode(), value="v")


@pytest.mark.parametrize("content", CONTENTS)
async def test_a_record_is_sent_again_as_it_is(content: bytes | None) -> None:
    headers: Headers = ((b"a", content), (b"a", b"twice"))
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t")
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        batch = build_batch([Record(0, 7, content, content, headers)])
        partition.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())
        page = await browser.get("/produce?topic=t&from_partition=0&from_offset=0")
        assert "As t-0 has it at offset 0" in page.text
        await browser.post("/produce-record", 303, **fields_of(page))
        first, again = await written(rig)
        assert (again.key, again.value, again.headers) == (first.key, first.value, first.headers)
        assert again.timestamp > first.timestamp


async def test_a_refused_record_is_kept_in_the_form() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t", max_message_bytes="100")
        async with browser.session.post(
            "/produce-record", data={"topic": "t", "key": "k", "value": "v" * 200}
        ) as answer:
            assert answer.status == 409
            page = Html(await answer.text())
        assert "MESSAGE_TOO_LARGE" in page.text
        assert page.areas["value"] == "v" * 200
        assert page.areas["key"] == "k"
        assert not await written(rig)
        assert "partition = '7': expected a whole number from 0 to 0" in await browser.post(
            "/produce-record", 400, topic="t", value="v", partition="7"
        )
        assert "topic is missing" in await browser.post("/produce-record", 400, value="v")
        assert "there is no topic 'u'" in await browser.post("/produce-record", 404, topic="u", value="v")


async def test_a_record_that_is_too_large_for_a_form_is_not_sent_again_cut() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t")
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        batch = build_batch([Record(0, 7, b"k", bytes(300_000), ())])
        partition.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())
        page = await browser.get("/produce?topic=t&from_partition=0&from_offset=0", 413)
        assert "too large to be edited here" in page.text


def test_base64_may_have_line_ends() -> None:
    assert content_of("base64", base64.encodebytes(bytes(100)).decode(), "value") == bytes(100)

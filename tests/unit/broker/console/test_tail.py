"""A browser that follows a topic gets records as long as its user may read them, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import aiohttp
import pytest
from kio.schema.alter_user_scram_credentials.v0.request import ScramCredentialDeletion
from kio.schema.delete_acls.v3.request import DeleteAclsFilter

from broker.console import app, filters, sent, tail
from broker.console.tail import LONGEST_MS, MOST_TAILS, PAUSE_MS
from broker.passwords import SESSION_MS
from tests.unit.broker.console.browsing import Browser, browsing
from tests.unit.broker.console.test_filters import needs_jq
from tests.unit.broker.console.test_login import ACLS, SASL, add_user, log_in
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.rig import Rig

SCRAM = {"listeners": "SASL_PLAINTEXT://:9093", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}


async def event(rig: Rig, answer: aiohttp.ClientResponse) -> str:
    """The next event; the pauses between two looks pass."""
    reading = asyncio.ensure_future(answer.content.readuntil(b"\n\n"))
    async with asyncio.timeout(60):
        while not reading.done():
            await asyncio.sleep(0.01)  # through real sockets
            await rig.clock.run(PAUSE_MS)
    return (await reading).decode()


async def log_out(_rig: Rig, browser: Browser) -> None:
    await browser.post("/logout")


async def change_password(rig: Rig, _browser: Browser) -> None:
    await add_user(rig, "anna", "new")


async def delete_user(rig: Rig, _browser: Browser) -> None:
    deletion = ScramCredentialDeletion(name="anna", mechanism=1)
    await rig.connect().ask("alter_user_scram_credentials", 0, deletions=(deletion,), upsertions=())


async def let_the_session_end(rig: Rig, _browser: Browser) -> None:
    rig.clock.advance(SESSION_MS + 1)


@pytest.mark.parametrize("end", [log_out, change_password, delete_user, let_the_session_end])
async def test_a_tail_ends_with_its_session(end: Callable[[Rig, Browser], Awaitable[None]]) -> None:
    """Attack: after logout, a new password or the session's end, records still came."""
    async with Rig(config=SCRAM) as rig:
        await add_user(rig, "anna", "a")
        await rig.create("t")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a")
            async with browser.session.get("/tail?topic=t") as answer:
                append(rig, "t", (b"before", b"1"))
                assert "before" in await event(rig, answer)
                await end(rig, browser)
                append(rig, "t", (b"after", b"2"))
                assert await event(rig, answer) == "event: over\ndata: the session is over: log in again\n\n"
                assert await answer.content.read() == b""


async def test_a_tail_ends_when_the_right_to_read_is_revoked() -> None:
    async with Rig(config=SASL | ACLS) as rig:
        await rig.create("orders-read")
        await rig.secure("SASL", "SASL_PLAINTEXT")
        async with browsing(rig) as browser:
            await log_in(browser, "anna", "a=,secret")
            async with browser.session.get("/tail?topic=orders-read") as answer:
                append(rig, "orders-read", (b"before", b"1"))
                assert "before" in await event(rig, answer)
                read = DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="orders-read",
                    pattern_type_filter=3,
                    principal_filter="User:anna",
                    host_filter=None,
                    operation=3,
                    permission_type=3,
                )
                done = await rig.connect().ask("delete_acls", 3, filters=(read,))
                assert len(done.filter_results[0].matching_acls) == 1
                append(rig, "orders-read", (b"after", b"2"))
                assert "event: over\ndata: User:anna may not READ" in await event(rig, answer)


async def test_a_tail_ends_after_an_hour_or_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Rig() as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            for limit in ("time", "bytes"):
                async with browser.session.get("/tail?topic=t") as answer:
                    if limit == "time":
                        rig.clock.advance(LONGEST_MS)
                    else:
                        monkeypatch.setattr(sent, "MOST_BYTES", 100)
                    append(rig, "t", (b"k", b"v" * 200))
                    assert "event: records" in await event(rig, answer)
                    assert "event: over\ndata: followed for long enough" in await event(rig, answer)


async def test_only_so_many_tails_run_at_once() -> None:
    async with Rig() as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            tails = browser.app.tails
            tails.running[None] = MOST_TAILS
            assert "too many browsers that follow a topic" in (await browser.get("/tail?topic=t", 429)).text
            tails.running[None] = 0
            async with browser.session.get("/tail?topic=t") as answer:
                assert tails.running[None] == 1
                answer.close()
            async with asyncio.timeout(60):
                while True:
                    if not tails.running.total():
                        break
                    await asyncio.sleep(0.01)


async def test_records_that_would_take_more_than_a_page_may_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a hundred records of quotes, each of them five characters in HTML, ended it with an error."""
    async with Rig() as rig:
        await rig.create("t")
        async with browsing(rig) as browser, browser.session.get("/tail?topic=t") as answer:
            with monkeypatch.context() as patch:
                patch.setattr(app, "MOST_HTML", 1_000)
                append(rig, "t", *[(b"k", b'"' * 100)] * 20)
                assert await event(rig, answer) == "event: skipped\ndata: 20\n\n"
            append(rig, "t", (b"after", b"v"))
            assert "after" in await event(rig, answer)


async def test_an_event_has_a_line_of_data_for_each_line_feed_alone() -> None:
    written: list[bytes] = []

    class Answer:
        async def write(self, data: bytes) -> None:
            written.append(data)

    sender = tail._Tail(*cast(Any, (None, Answer(), None, None)))
    await sender.send("records", "a\u2028b\x85c\r\nd")
    assert written == ["event: records\ndata: a\u2028b\x85c\ndata: d\n\n".encode()]


async def test_a_tail_has_the_filters_of_the_page() -> None:
    async with Rig() as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t&key=k&field=id&value=7")
            (address,) = [one["data-address"] for one in page.all("button") if one.get("id") == "follow"]
            async with browser.session.get(f"/{address}") as answer:
                append(rig, "t", (b"k", b'{"id": 6}'), (b"other", b'{"id": 7}'))
                append(rig, "t", (b"k", b'{"id": 7}'))
                told = await event(rig, answer)
                assert told.count("<tr") == 1
                assert "offset=2" in told


@needs_jq
async def test_a_tail_has_the_expression_of_the_page_and_says_what_is_wrong_with_it() -> None:
    async with Rig() as rig:
        await rig.create("t")
        async with browsing(rig) as browser:
            page = await browser.get("/messages?topic=t&filter=.value.id%3E5")
            (address,) = [one["data-address"] for one in page.all("button") if one.get("id") == "follow"]
            async with browser.session.get(f"/{address}") as answer:
                append(rig, "t", (b"k", b'{"id": 5}'))
                append(rig, "t", (None, b'{"id": 6}'), (None, b'{"id": 4}'), (None, b'{"id": 7}'))
                told = await event(rig, answer)
                assert [f"offset={at}" in told for at in range(4)] == [False, True, False, True]
                assert browser.app.filtered_tails.running.total() == 1
            async with browser.session.get("/tail?topic=t&filter=.value%3D%3D") as answer:
                assert "event: over\ndata: jq cannot read the expression" in await event(rig, answer)
            browser.app.filtered_tails.running[None] = 4
            async with browser.session.get("/tail?topic=t&filter=.value") as answer:
                assert "event: over\ndata: too many browsers that follow a topic with a filter" in await event(
                    rig, answer
                )


@needs_jq
async def test_an_endless_expression_ends_its_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "LEAST_S", 0.05)
    monkeypatch.setattr(tail, "FILTER_S", 0.1)
    async with Rig() as rig:
        await rig.create("t")
        path = "/tail?topic=t&filter=last(repeat(1))"
        async with browsing(rig) as browser, browser.session.get(path) as answer:
            append(rig, "t", (b"k", b"v"))
            assert "did not come to an end for a record" in await event(rig, answer)

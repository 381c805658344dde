"""Who gets an answer of the console, and what browsers are told about it."""

from __future__ import annotations

import asyncio

import pytest
from yarl import URL

from broker.console import app
from broker.console.ask import Values
from broker.logging import Tracebacks
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.rig import Rig


async def test_browsers_run_no_script_and_load_no_style_but_ours() -> None:
    async with Rig() as rig, browsing(rig) as browser, browser.session.get("/") as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


async def test_a_name_that_a_stranger_may_own_is_refused() -> None:
    async with Rig(config={"odradek.console.hosts": "kafka.example.com"}) as rig, browsing(rig) as browser:
        assert "is not a name of this node" in (await browser.get("/", 421, headers={"Host": "evil.example.org"})).text
        await browser.get("/", headers={"Host": "kafka.example.com"})


async def test_it_changes_nothing_unless_it_is_let() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        async with browsing(rig) as browser:
            assert "odradek.console.write=true" in await browser.post("/delete-topic", 403, topic="orders")
        assert rig.node.cluster.cache.topic("orders") is not None


async def test_a_form_of_another_site_is_refused() -> None:
    async with Rig(config={"odradek.console.write": "true"}) as rig:
        await rig.create("orders")
        async with browsing(rig) as browser:
            headers = {"Origin": "http://evil.example.org"}
            async with browser.session.post("/delete-topic", data={"topic": "orders"}, headers=headers) as answer:
                assert answer.status == 403
        assert rig.node.cluster.cache.topic("orders") is not None


async def test_a_form_that_is_too_large_is_refused() -> None:
    async with Rig(config={"odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        assert "the body is larger than" in await browser.post("/create-topic", 413, topic="a" * (1 << 21))


async def test_methods_that_are_not_served_are_refused() -> None:
    async with Rig() as rig, browsing(rig) as browser, browser.session.put("/topics") as answer:
        assert answer.status == 405


@pytest.mark.parametrize("page", ["topics", "messages?topic=t", "download?topic=t", "tail?topic=t"])
async def test_the_head_of_an_answer_has_nothing_behind_it(page: str) -> None:
    """Attack: a proxy took the records behind the head of a download for the answer to the next request."""
    async with Rig() as rig:
        await rig.create("t")
        append(rig, "t", (b"k", b"told"))
        async with browsing(rig) as browser:
            at = browser.session._base_url
            assert at is not None
            reader, writer = await asyncio.open_connection(at.host, at.port)
            writer.write(f"HEAD /{page} HTTP/1.1\r\nHost: {at.host}\r\nConnection: close\r\n\r\n".encode())
            async with asyncio.timeout(60):
                head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
    assert head.startswith(b"HTTP/1.1 405 " if page.startswith(("download", "tail")) else b"HTTP/1.1 200 ")
    assert rest == b""


async def test_a_page_does_not_tell_what_went_wrong_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_ask: object) -> Values:
        raise LookupError("secret-topic")

    monkeypatch.setitem(app.PAGES, "topics", app.Page(fail, "Topics"))
    async with Rig() as rig, browsing(rig) as browser:
        text = (await browser.get("/topics", 500)).text
    assert "unexpected error: the broker's log says what it is" in text
    assert "secret-topic" not in text


@pytest.mark.parametrize(
    "query", ["topic?name=%ff%00", "topics?q=%ff%00%e2%80%ae", "group?id=%ff%00", "%ff%00", "topics?q=%"]
)
async def test_bytes_that_are_no_text_are_refused_or_found_nowhere(query: str, tracebacks: Tracebacks) -> None:
    async with Rig() as rig, browsing(rig) as browser:
        place = URL(f"{browser.session._base_url}{query}", encoded=True)
        async with browser.session.get(place) as answer:
            assert answer.status in (200, 400, 404)
    assert tracebacks.count == 0


@pytest.mark.parametrize("body", [b"topic=\xff", b"=&&&", b"topic=%ff%00", b"topic=t&partitions=9" + b"9" * 5000])
async def test_forms_of_strange_bytes_are_refused(body: bytes, tracebacks: Tracebacks) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with Rig(config={"odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        for form in ("create-topic", "delete-topic", "truncate-topic"):
            async with browser.session.post(f"/{form}", data=body, headers=headers) as answer:
                assert 400 <= answer.status < 500
    assert tracebacks.count == 0

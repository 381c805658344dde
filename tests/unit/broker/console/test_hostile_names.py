"""Names, keys, values and headers that would like to be HTML or a script stay text on every page."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from kio.schema.alter_client_quotas.v1.request import EntityData, EntryData, OpData

from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.console.browsing import Browser, Html, browsing
from tests.unit.broker.members import CONFIG, ClassicMember, commit
from tests.unit.broker.rig import Rig
from tests.unit.broker.testkit.control.asking import keep_journal
from tests.unit.broker.transactions import Producer

HOSTILE = (
    '"><script>alert(1)</script><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(4)",
    "../../metrics?a=b&c=d#e",
    "</textarea></pre></title><!--",
)
HARMLESS_SCHEMES = (
    *(
        "topic",
        "group",
        "transaction",
        "message",
        "messages",
        "produce",
        "schema",
        "new-topic",
        "broker-configs",
        "movements",
        "tier",
    ),
    *(
        "acls",
        "users?",
        "quotas?",
        "tokens",
        "audit?",
        "./",
        "#",
        "metrics",
        "healthz",
        "clients?",
        "cluster?",
        "kit?",
        "journal?",
    ),
)
PAGES = (
    *("", "topics", "groups", "transactions", "clients", "cluster", "tier", "access", "users", "quotas", "audit"),
    *("kit", "journal"),
)


def check(page: Html) -> None:
    """Nothing on the page is what a template did not write."""
    assert [one.get("src") for one in page.all("script")] == ["static/console.js"]
    assert not page.all("img")
    for tag, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert attributes.keys().isdisjoint({"style", "srcdoc", "formaction"})
    for link in page.links():
        assert link.startswith(HARMLESS_SCHEMES) or link in PAGES, link
        assert "\n" not in link


async def fill(rig: Rig, name: str) -> None:
    """A group, a client, a transaction and a record of that name."""
    await rig.create("t")
    keep_journal(rig)
    await ClassicMember(rig, name, "t", client_id=name).enter({"t": [0]})
    await rig.node.coordinators.transactions.ensure_topic()
    producer = Producer(rig.connect(), name)
    assert await producer.init() == "none"
    assert await producer.produce(name.encode(), 0) == ["none"]
    batch = build_batch([Record(0, 0, name.encode(), name.encode(), ((name.encode(), name.encode()),))])
    partition = rig.node.replicas.get("t", 0)
    assert partition is not None
    partition.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_page_takes_them_for_anything_but_text(name: str) -> None:
    async with Rig(config=CONFIG) as rig:
        await fill(rig, name)
        async with browsing(rig) as browser:
            for page in PAGES:
                check(await browser.get(f"/{page}"))
            shown = [
                await browser.get("/messages?topic=t&isolation=uncommitted"),
                await browser.get("/message?topic=t&offset=1"),
                await followed(browser, await browser.get("/groups"), "group?"),
                await followed(browser, await browser.get("/transactions"), "transaction?"),
                await browser.get("/journal"),
                await browser.get("/group?id=" + quote(name + "?", safe=""), 404),
                await browser.get("/transaction?id=" + quote(name + "?", safe=""), 404),
                await browser.get("/topic?name=" + quote(name, safe=""), 404),
                await browser.get("/messages?topic=t&from=" + quote(name, safe=""), 400),
                await browser.get("/topics?page=" + quote(name, safe=""), 400),
                await browser.get("/topics?done=" + quote(name, safe="")),
            ]
            for page_shown in shown:
                check(page_shown)
            text = " ".join(name.split())
            assert all(text in page_shown.text for page_shown in shown[:4])


REFUSED = {
    "create-topic": ("topic", {"partitions": "x"}),
    "produce-record": ("value", {"topic": "t", "partition": "x"}),
    "alter-topic-config": ("value", {"topic": "t", "key": "retention.ms"}),
    "set-password": ("user", {"password": "a", "again": "b"}),
    "set-quota": ("user", {"key": "request_percentage", "value": "x"}),
    "reset-offsets": ("to", {"group": "g"}),
    "move-replicas": ("topic", {"brokers": "1"}),
}
"""By form a field that keeps what was typed, and what is wrong or needed besides."""


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_was_typed_comes_back_as_text(name: str) -> None:
    async with Rig(config={**CONFIG, "odradek.console.write": "true"}) as rig:
        await rig.create("t")
        await commit(rig.connect(), "g", "t", {0: 1})
        entity = (EntityData(entity_type="client-id", entity_name=name),)
        quota = EntryData(entity=entity, ops=(OpData(key="request_percentage", value=90.0, remove=False),))
        await rig.connect().ask("alter_client_quotas", 1, entries=(quota,), validate_only=False)
        async with browsing(rig) as browser:
            for action, (field, others) in REFUSED.items():
                async with browser.session.post(f"/{action}", data={**others, field: name}) as answer:
                    assert 400 <= answer.status < 500
                    page = Html(await answer.text())
                check(page)
                typed = {one.get("name"): one.get("value") for one in page.all("input")} | page.areas
                if action != "move-replicas":  # there is no such topic: its page says so
                    assert typed[field] == name, action
            for place in ("quotas", "audit"):
                page = await browser.get(f"/{place}")
                check(page)
                assert " ".join(name.split()) in page.text


async def followed(browser: Browser, page: Html, prefix: str) -> Html:
    """The page that a list's first link of this kind leads to."""
    return await browser.get("/" + next(link for link in page.links() if link.startswith(prefix)))


async def test_a_place_to_go_to_after_a_change_stays_in_the_console() -> None:
    async with Rig(config={**CONFIG, "odradek.console.write": "true"}) as rig:
        name = "//evil.example.org/\r\nSet-Cookie: a=b"
        await rig.create("t")
        async with browsing(rig) as browser:
            await rig.node.coordinators.groups.ensure_topic()
            place = await browser.post("/reset-offsets", group=name, to="earliest", topic="t")
            assert place.startswith("group?id=%2F%2Fevil.example.org%2F%0D%0ASet-Cookie")
            check(await browser.get(f"/{place}"))

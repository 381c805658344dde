"""The console in a real browser (Debian's Chromium): every page, what refreshes itself, and what is changed.

What each page shows is tested in `tests/unit/broker/console`; this is about what only a browser can say.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Page, expect, sync_playwright

from odradek import Broker
from tests.brokers import sound_broker

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (tests/client/install-tools.sh)")

HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(2)>"""
WIDTHS = {"phone": 360, "larger phone": 390, "tablet": 820, "laptop": 1024, "wide": 1600}
CUT_WITHOUT_A_SIGN = """[...document.querySelectorAll("main *:not(input)")].filter(one => {
    const { overflowX, backgroundImage } = getComputedStyle(one);
    return one.scrollWidth > one.clientWidth + 1 && overflowX !== "visible" && !backgroundImage.includes("gradient");
}).map(one => one.outerHTML)"""
"""What scrolls sideways, and has no shade that shows it."""

PAGES = {
    "overview": "",
    "topics": "topics",
    "topic": "topic?name=orders",
    "messages": "messages?topic=orders&isolation=uncommitted",
    "message": "message?topic=orders&partition=0&offset=0",
    "bytes": "messages?topic=bytes",
    "dump": "message?topic=bytes&partition=0&offset=0",
    "groups": "groups",
    "group": "group?" + urlencode({"id": f"mail {HOSTILE}"}),
    "transactions": "transactions",
    "transaction": "transaction?" + urlencode({"id": f"till {HOSTILE}"}),
    "clients": "clients",
    "cluster": "cluster",
    "new topic": "new-topic",
    "configuration of a topic": "topic-configs?name=orders&key=retention.ms",
    "configuration of brokers": "broker-configs?q=retention",
    "produce": "produce?topic=orders&from_partition=0&from_offset=0",
    "movements": "movements",
    "tier": "tier",
    "access": "access",
    "users": "users",
    "quotas": "quotas",
    "tokens": "tokens",
    "audit": "audit",
    "kit": "kit",
    "journal": "journal",
}
AT_ONCE = ("topics", "topic", "messages", "group")
"""Pages with a part of each kind; all others are looked at with `--torture`."""

RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One with a topic, a group that reads it, an open transaction and a fault, most of hostile names."""
    with sound_broker({"odradek.http.port": "0", "odradek.console.write": "true"}) as broker:
        orders = broker.topic("orders")
        orders.produce({"id": 7, "note": HOSTILE}, key=HOSTILE, headers={HOSTILE: HOSTILE})
        broker.topic("bytes").produce(bytes(range(256)), key="", headers={"": ""})
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        config = {**servers, "transactional.id": f"till {HOSTILE}", "client.id": f"till {HOSTILE}"}
        producer = Producer({**config, "transaction.timeout.ms": 900_000})  # open for as long as all tests take
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"held")
        producer.flush(30)
        settings = {"group.id": f"mail {HOSTILE}", "client.id": f"mail {HOSTILE}", "auto.offset.reset": "earliest"}
        consumer = Consumer({**servers, **settings})
        consumer.subscribe(["orders"])
        assert consumer.poll(60) is not None
        broker.fault(api="Heartbeat", group=HOSTILE, delay=0.1)
        yield broker
        consumer.close()
        producer.abort_transaction(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, broker: Broker) -> Iterator[Page]:
    """A page that must not run a script of a stranger, or complain."""
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}/")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    context.close()
    assert not complaints


@pytest.mark.parametrize("name", PAGES)
def test_each_page_fits_each_screen_and_can_be_used_without_eyes(page: Page, name: str) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for width in WIDTHS.values():
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(PAGES[name])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_WITHOUT_A_SIGN) == []
    assert page.locator("h1").count() == 1
    assert page.locator("img, script:not([src='static/console.js']), [style], [onerror]").count() == 0
    assert page.locator("nav [aria-current=page]").count() == 1
    for table in page.locator("table").all():
        assert table.locator("xpath=..").get_attribute("aria-label")
    unnamed = page.locator("input:not([type=hidden]), select, button").evaluate_all(
        "all => all.filter(one => !(one.labels?.length || one.innerText.trim())).map(one => one.outerHTML)"
    )
    assert unnamed == []
    assert page.title().endswith("– Odradek")


def test_on_a_phone_a_message_is_read_without_scrolling_sideways(page: Page) -> None:
    page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
    page.goto(PAGES["messages"])
    held = page.get_by_text("held", exact=True)
    expect(held).to_be_visible()
    box = held.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= WIDTHS["phone"]


@pytest.mark.parametrize("name", ["bytes", "dump"])
def test_lines_of_a_hex_dump_are_whole_and_are_scrolled_to(page: Page, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(PAGES[name])
    dump = page.locator("pre.hex")
    assert dump.evaluate("one => one.getClientRects().length") == 1
    height = dump.evaluate("one => one.scrollHeight")
    page.set_viewport_size({"width": 1600, "height": 900})
    assert dump.evaluate("one => one.scrollHeight") == height  # no line is broken in two
    expect(page.get_by_text('""', exact=True).first).to_be_visible()  # the empty key


def test_the_keyboard_leads_past_the_navigation(page: Page) -> None:
    page.goto("topics")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_it_is_light_or_dark_as_the_system_is(page: Page) -> None:
    page.goto("topics")
    backs = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        backs.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert backs == ["rgb(255, 255, 255)", "rgb(18, 24, 23)"]


def test_lists_refresh_themselves_and_wait_while_somebody_uses_them(page: Page, broker: Broker) -> None:
    page.goto("kit")
    fault = broker.fault(api="JoinGroup", group="nobody", delay=1)
    expect(page.get_by_text("group=nobody")).to_be_visible()
    fault.remove()
    expect(page.get_by_text("group=nobody")).to_have_count(0)


def test_new_messages_appear_while_a_topic_is_followed(page: Page, broker: Broker) -> None:
    page.goto("messages?topic=orders&isolation=uncommitted")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("Waiting for records")).to_be_visible()
    broker.topic("orders").produce(f"fresh {HOSTILE}", key="followed")
    expect(page.locator("tr.fresh", has_text=f"fresh {HOSTILE}")).to_be_visible()
    expect(page.get_by_text("New records: 1")).to_be_visible()
    page.get_by_role("button", name="Stop following").click()


def test_a_search_form_finds_a_message(page: Page) -> None:
    page.goto("messages?topic=orders")
    page.get_by_label("JSON field").fill("id")
    page.get_by_label("Value is, or has").fill("7")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#records tbody tr")).to_have_count(1)
    page.locator("#records tbody a").click()
    expect(page.get_by_role("heading", name="orders-0, offset 0")).to_be_visible()


def test_a_topic_is_deleted_only_once_that_is_confirmed(page: Page, broker: Broker) -> None:
    broker.topic("to-delete")
    page.goto("topic?name=to-delete")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete the topic").click()
    assert "to-delete" in broker.topics()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_text("Deleted.")).to_be_visible()
    assert "to-delete" not in broker.topics()


def test_it_works_without_scripts(browser: Browser, broker: Broker) -> None:
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}/", java_script_enabled=False)
    page = context.new_page()
    page.goto("topics")
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("link", name="Messages", exact=True).click()
    expect(page.get_by_role("button", name="Follow")).to_be_hidden()
    expect(page.locator("#records tbody tr").first).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.torture) for name in PAGES]
)
def test_axe_finds_nothing_that_keeps_people_out_dark_or_light(page: Page, name: str) -> None:
    page.set_viewport_size({"width": 820, "height": 900})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        page.goto(PAGES[name])
        found = Axe().run(page, options=RULES)
        assert found.violations_count == 0, found.generate_report()


def test_a_table_is_sorted_by_keyboard_in_place_and_keeps_its_filter(page: Page) -> None:
    page.goto("topics?q=e")
    page.get_by_role("link", name="Partitions", exact=True).focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.textContent") == "Topic"
    page.keyboard.press("Enter")
    heading = page.locator("th[aria-sort]")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert page.evaluate("document.activeElement.textContent") == "Topic", "who has sorted stays there"
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")
    assert page.locator("tbody th").all_inner_texts() == ["orders", "bytes"]
    assert page.url.endswith("sort=-name") and "q=e" in page.url
    page.get_by_label("Name has").press("Enter")
    expect(heading).to_have_attribute("aria-sort", "descending")


def test_messages_are_filtered_by_an_expression_by_keyboard_and_a_wrong_one_is_said_at_the_field(page: Page) -> None:
    pytest.importorskip("jq", reason="the extra `filter` is not installed")
    page.goto("messages?topic=orders")
    field = page.get_by_label("Filter (jq)")
    field.focus()
    page.keyboard.type(".value.id == 7")
    page.keyboard.press("Enter")
    expect(page.locator("#records tbody tr")).to_have_count(1)
    field.fill(".value.id ==")
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("jq cannot read the expression")
    assert field.get_attribute("aria-invalid") == "true"


def test_messages_are_downloaded_by_keyboard(page: Page) -> None:
    page.goto("messages?topic=orders&from=oldest")
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").press("Enter")
    assert started.value.suggested_filename == "orders.jsonl"
    lines = Path(started.value.path()).read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == [
        json.dumps({"id": 7, "note": HOSTILE}, separators=(",", ":"))
    ]


def test_a_chart_is_asked_for_another_range(page: Page) -> None:
    page.goto("")
    page.get_by_role("link", name="5 min").press("Enter")
    expect(page.get_by_role("link", name="5 min")).to_have_attribute("aria-current", "true")
    chart = page.get_by_role("img", name="Requests, per second")
    expect(chart).to_be_visible()
    assert "UTC: now" in (chart.get_attribute("aria-label") or "")

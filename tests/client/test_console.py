"""The console in a real browser (Debian's Chromium): every page, what refreshes itself, and what is changed.

What each page shows is tested in `tests/unit/broker/console`; this is about what only a browser can say.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from odradek import Broker
from tests.client.console_pages import HOSTILE, PAGES, WIDTHS, broker, browser, needs_chromium, page

pytestmark = needs_chromium
__all__ = ["broker", "browser", "page"]

CUT_WITHOUT_A_SIGN = """[...document.querySelectorAll("main *:not(input)")].filter(one => {
    const { overflowX, backgroundImage } = getComputedStyle(one);
    return one.scrollWidth > one.clientWidth + 1 && overflowX !== "visible" && !backgroundImage.includes("gradient");
}).map(one => one.outerHTML)"""
"""What scrolls sideways, and has no shade that shows it."""


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
    assert page.locator("tbody th").all_inner_texts() == ["orders", "bytes", "_schemas"]
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

"""What the console changes, in a real browser (Debian's Chromium): by mouse, by keyboard alone, without scripts."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from odradek import Broker
from tests.client.console_pages import broker, browser, needs_chromium, page

pytestmark = needs_chromium
__all__ = ["broker", "browser", "page"]


def test_a_topic_is_created_by_keyboard_alone(page: Page, broker: Broker) -> None:
    page.goto("new-topic")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # past the navigation
    page.keyboard.press("Tab")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Tab")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The topic was created.")).to_be_visible()
    assert "by-keyboard" in broker.topics()


def test_a_refusal_has_the_focus_and_what_was_typed_is_kept(browser: Browser, broker: Broker) -> None:
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}/", color_scheme="dark")
    page = context.new_page()  # whose browser complains about the status
    page.goto("new-topic")
    page.get_by_label("Name").fill("refused")
    page.get_by_label("retention.ms", exact=True).fill("a week")
    with page.expect_response(lambda answer: answer.status == 409):
        page.get_by_role("button", name="Create the topic").click()
    expect(page.get_by_role("alert")).to_contain_text("INVALID_CONFIG")
    expect(page.get_by_role("alert")).to_be_focused()
    expect(page.get_by_label("retention.ms", exact=True)).to_have_value("a week")
    assert "refused" not in broker.topics()
    context.close()


def test_a_record_is_written_and_sent_again(page: Page, broker: Broker) -> None:
    topic = broker.topic("written")
    page.goto("produce?topic=written")
    page.locator("[name=key]").fill("k")  # no null any more
    page.locator("[name=value]").fill("first")
    page.get_by_role("button", name="One more header").click()
    page.locator("[name=header_name_2]").fill("trace")
    page.locator("[name=header_2]").fill("7")
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_text("The record was written.")).to_be_visible()
    page.get_by_role("link", name="Send again").click()
    page.locator("[name=value]").fill("second")
    page.get_by_role("button", name="Write the record").click()
    expect(page.get_by_role("heading", name="offset 1")).to_be_visible()
    records = topic.records()
    assert [(one.key, one.value) for one in records] == [(b"k", b"first"), (b"k", b"second")]
    assert [list(one.headers) for one in records] == [[("trace", b"7")]] * 2


def test_a_configuration_a_user_and_a_quota_are_changed_without_scripts(browser: Browser, broker: Broker) -> None:
    broker.topic("configured")
    context = browser.new_context(base_url=f"http://127.0.0.1:{broker.http_port}/", java_script_enabled=False)
    page = context.new_page()
    page.goto("topic-configs?name=configured&key=retention.ms")
    page.get_by_label("New value").fill("60000")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("row", name="retention.ms Time for which records")).to_contain_text("1 min")
    page.goto("users")
    page.get_by_role("textbox", name="User, new or known").fill("ben")
    page.get_by_role("textbox", name="Password").fill("secret")
    page.get_by_role("textbox", name="Again").fill("secret")
    page.get_by_role("button", name="Set the password").click()
    expect(page.get_by_role("row", name="ben")).to_be_visible()
    page.goto("quotas")
    page.locator("[name=client]:visible").fill("app")
    page.locator("[name=value]:visible").fill("1048576")
    page.get_by_role("button", name="Set the quota").click()
    expect(page.get_by_role("row", name="app")).to_contain_text("1.0 MB/s")
    page.goto("audit")
    expect(page.get_by_role("row", name="alter-topic-config")).to_contain_text("key=retention.ms")
    context.close()

"""Everybody can use the console: axe's rules (WCAG 2.1 AA and best practice) hold, and a keyboard is enough.

Axe comes with the package: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from odradek import Broker
from tests.brokers import sound_broker
from tests.client.console_pages import PAGES, PATIENCE_MS, broker, browser, needs_chromium, page

pytestmark = needs_chromium
__all__ = ["broker", "browser", "page"]

RULES = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
LOOKS = (("light", 360), ("dark", 1600))
"""Each page is looked at in one of these, and in the other with --torture: axe takes seconds for a look."""
ALL_LOOKS = tuple((scheme, width) for scheme in ("light", "dark") for width in (360, 820, 1600))
"""Colour schemes, and widths of a phone, a tablet and a wide screen."""

long = pytest.mark.torture

MORE = {
    "no such page": "nowhere",
    "a wrong filter": "messages?topic=orders&filter=.value%3D%3D",
    "configuration of all brokers": "broker-configs?broker=all&key=log.retention.ms",
    "sorted by its second table": "transactions?sort-held=-held",
    "a day": "?range=24h",
}
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": "a key",
    "odradek.http.port": "0",
    "odradek.console.write": "true",
}
USERS = {"admin": "admin-secret"}

STOPS = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter(one => !one.disabled && one.type !== "hidden" && one.checkVisibility())"""
"""All that a keyboard should lead to, in the order of reading."""

SEEN = f"""() => {{
    const one = document.activeElement;
    if (one === document.body) return null;
    const {{ outlineStyle, outlineWidth }} = getComputedStyle(one);
    const box = one.getClientRects()[0];
    const middle = (begin, end, most) => (Math.max(begin, 0) + Math.min(end, most)) / 2;
    const left = middle(box.left, box.right, innerWidth), top = middle(box.top, box.bottom, innerHeight);
    const at = document.elementFromPoint(left, top);
    return {{
        place: ({STOPS})().indexOf(one),
        name: one.outerHTML.slice(0, 200),
        outline: outlineStyle === "none" ? 0 : parseFloat(outlineWidth),
        isSeen: box.top < innerHeight && box.bottom > 0 && !!at && (one.contains(at) || at.contains(one)),
    }};
}}"""
"""What has the focus: its place among the stops, and whether somebody sees that it has it."""


def check_axe(page: Page, looks: Sequence[tuple[str, int]]) -> None:
    """The page as it is now, in these schemes and widths, with all details open."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for scheme, width in looks:
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
        page.set_viewport_size({"width": width, "height": 900})
        found = Axe().run(page, options=RULES)
        assert found.violations_count == 0, f"{scheme}, {width} wide: {found.generate_report()}"


def check_keyboard(page: Page) -> None:
    """Tab leads through everything in the order of reading, once, and one always sees where one is."""
    stops = len(page.evaluate(f"({STOPS})().map(one => one.tagName)"))
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    for place in range(stops):
        page.keyboard.press("Tab")
        seen = page.evaluate(SEEN)
        assert seen is not None and seen["place"] == place, (place, seen)
        assert seen["outline"] >= 2, f"nobody sees that this has the focus: {seen['name']}"
        assert seen["isSeen"], f"this has the focus, and is not on the screen: {seen['name']}"


@pytest.mark.parametrize(
    ("name", "looks"),
    [(name, LOOKS[number % 2 :][:1]) for number, name in enumerate((*PAGES, *MORE))]
    + [pytest.param(name, ALL_LOOKS, marks=long) for name in (*PAGES, *MORE)],
    ids=[f"{name}-{looks}" for looks in ("one look", "all looks") for name in (*PAGES, *MORE)],
)
def test_axe_finds_nothing_that_keeps_people_out(
    browser: Browser, broker: Broker, name: str, looks: Sequence[tuple[str, int]]
) -> None:
    page = browser.new_page(base_url=f"http://127.0.0.1:{broker.http_port}/")
    page.goto({**PAGES, **MORE}[name])
    check_axe(page, looks)
    page.close()


@pytest.mark.parametrize("width", [360, pytest.param(820, marks=long), pytest.param(1600, marks=long)])
@pytest.mark.parametrize("name", PAGES)
def test_tab_leads_through_a_page_in_the_order_of_reading_and_the_focus_is_seen(
    page: Page, name: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(PAGES[name])
    check_keyboard(page)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker with users, ACLs and tokens."""
    with sound_broker(SETTINGS, security="SASL_PLAINTEXT", users=USERS) as broker:
        yield broker


def test_pages_behind_a_login_and_what_they_refuse(browser: Browser, guarded: Broker) -> None:
    page = browser.new_page(base_url=f"http://127.0.0.1:{guarded.http_port}/")
    page.set_default_timeout(PATIENCE_MS)
    page.on("dialog", lambda dialog: dialog.accept())
    guarded.topic("configured")
    page.goto("login")
    for look, password in zip(LOOKS, ("wrong", USERS["admin"]), strict=True):
        check_axe(page, [look])
        page.get_by_label("Name").fill("admin")
        page.get_by_label("Password").fill(password)
        with page.expect_navigation():
            page.keyboard.press("Enter")
    for look, (path, form, fields) in zip(cycle(LOOKS), FORMS):
        page.goto(path)
        for name, text in fields.items():
            page.locator(f"form.action[action='{form}'] [name='{name}']").fill(text)
        with page.expect_navigation():
            page.locator(f"form.action[action='{form}'] button").first.click()
        check_axe(page, [look])
        check_keyboard(page)
    page.close()


FORMS = (
    ("acls", "add-acl", {"principal": "User:app", "name": "orders"}),
    ("acls", "add-acl", {"principal": "app", "name": "orders"}),  # refused
    ("users", "set-password", {"user": "ben", "password": "secret", "again": "secret"}),
    ("users", "set-password", {"user": "ben", "password": "secret", "again": "other"}),  # refused
    ("quotas", "set-quota", {"client": "app", "value": "1048576"}),
    ("quotas", "set-quota", {"client": "app", "value": "many"}),  # refused
    ("tokens", "create-token", {"renewers": "User:app"}),
    ("tokens", "create-token", {"renewers": "app"}),  # refused
    ("movements", "move-replicas", {"topic": "nowhere", "brokers": "1"}),  # refused
    ("movements", "elect-leaders", {"topic": "nowhere"}),  # refused
    ("topic-configs?name=configured&key=retention.ms", "alter-topic-config", {"value": "a week"}),  # refused
    ("broker-configs?broker=all&key=log.retention.ms", "alter-broker-config", {"value": "a week"}),  # refused
    ("topic?name=configured", "add-partitions", {"partitions": "1"}),  # refused
)
"""A page, a form on it, and what is typed."""

"""Tables of the console are sorted by their headings: by links, which keep what was asked (aria-sort)."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.console import tables, topics
from broker.console.tables import Order, numbers
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.rights import all_rights, filled, grants, set_acls
from tests.unit.broker.console.test_messages import append, orders
from tests.unit.broker.rig import Rig

PAGES = {
    "": (1, 0),
    "topics": (1, 0),
    "topic?name=told-a": (2, 0),
    "topic-configs?name=told-a": (1, 1),
    "messages?topic=told-a": (1, 0),
    "groups": (1, 0),
    "group?id=told-mail": (2, 0),
    "transactions": (2, 0),
    "clients": (4, 0),
    "cluster": (2, 0),
    "broker-configs?broker=1": (1, 1),
    "movements": (1, 1),
    "tier": (1, 0),
    "acls": (1, 1),
    "users": (1, 1),
    "quotas": (1, 1),
    "tokens": (1, 1),
    "audit": (1, 0),
    "kit": (1, 1),
    "journal": (1, 1),
}
"""How many tables each has, and how many headings are over what does not sort."""


@pytest.mark.long
async def test_every_heading_sorts_its_table_both_ways_and_keeps_what_was_asked() -> None:
    async with filled() as (rig, browser):
        set_acls(rig, [acl for right in all_rights() for acl in grants(right)])
        for place, (tables_of, others) in PAGES.items():
            page = await browser.get(f"/{place}")
            headings = page.headings()
            assert len({_order_of(link).partition("=")[0] for _, link in headings}) == tables_of, place
            assert not [direction for direction, _ in headings if direction]
            assert len([one for one in page.all("th") if one.get("scope") == "col"]) == len(headings) + others, place
            for at, (_, link) in enumerate(headings):
                assert urlsplit(place).query in link
                direction, turned = (await browser.get(f"/{link.removeprefix('./')}")).headings()[at]
                other_way = (await browser.get(f"/{turned.removeprefix('./')}")).headings()
                assert {direction, other_way[at][0]} == {"ascending", "descending"}, link
                assert _order_of(turned).replace("-", "") == _order_of(link).replace("-", "")
                assert len([direction for direction, _ in other_way if direction]) == 1


def _order_of(link: str) -> str:
    """The parameter that a heading sets: the last one."""
    return urlsplit(link).query.rpartition("&")[2]


async def test_topics_are_sorted_across_all_parts_by_what_only_rows_have() -> None:
    async with Rig() as rig:
        for number in range(60):
            await rig.create(f"topic-{number:02}")
            append(rig, f"topic-{number:02}", *orders(1 + (number * 7) % 60))
        async with browsing(rig) as browser:
            most = await browser.get("/topics?sort=-records&q=topic")
            least = await browser.get("/topics?sort=records&q=topic&page=1")
            by_name = await browser.get("/topics?sort=-name&q=topic")
        named = [link for link in most.links() if link.startswith("topic?")]
        records = [1 + (int(name[-2:]) * 7) % 60 for name in named]
        assert records == list(range(60, 10, -1))
        records = [1 + (int(name[-2:]) * 7) % 60 for name in least.links() if name.startswith("topic?")]
        assert records == list(range(51, 61))
        assert next(link for link in by_name.links() if link.startswith("topic?")) == "topic?name=topic-59"
        assert "topics?sort=-records&q=topic&page=1" in most.links()
        assert ("sort", "-records") in [(one.get("name"), one.get("value")) for one in most.all("input")]


async def test_of_a_list_that_is_too_long_only_the_part_is_sorted_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "MOST_SORTED", 4)
    monkeypatch.setattr(tables, "SORTED_AT_ONCE", 4)
    monkeypatch.setattr(topics, "TOPICS_ON_A_PAGE", 3)
    async with Rig() as rig:
        for number in range(6):
            await rig.create(f"topic-{number}")
            append(rig, f"topic-{number}", *orders(1 + number))
        async with browsing(rig) as browser:
            page = await browser.get("/topics?sort=-records")
            by_name = await browser.get("/topics?sort=-name")
        assert "too long to be sorted by records: only this part of it is" in page.text
        assert [link[-1] for link in page.links() if link.startswith("topic?")] == ["2", "1", "0"]
        assert "too long" not in by_name.text
        assert [link[-1] for link in by_name.links() if link.startswith("topic?")] == ["5", "4", "3"]


async def test_an_order_that_there_is_not_is_refused() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        assert "expected one of" in (await browser.get("/topics?sort=colour", 400)).text


@given(st.lists(st.one_of(st.none(), st.integers(0, 9))), st.booleans())
def test_what_is_not_known_comes_last_either_way(values: list[int | None], descending: bool) -> None:
    column = numbers("n", "N", lambda row: row)
    found = Order([column], "sort", column, descending).sort(values)
    known = sorted((one for one in values if one is not None), reverse=descending)
    assert found == [*known, *([None] * values.count(None))]

"""Pages and actions of the console show and do for a user what Kafka's APIs tell and do for the same user (ACLs)."""

from __future__ import annotations

import re

import pytest

from broker.authorization.console_table import ASKED_BY_ACTIONS, ASKED_BY_PAGES, PageRight, PageRights
from broker.console.actions import ACTIONS
from broker.console.app import PAGES
from broker.console.ask import Rights
from broker.console.history import History
from metadata.acls import CLUSTER_NAME, AclOperation
from protocol.api.table import asked_for
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.console.rights import (
    CLUSTER,
    GROUP,
    NAMES,
    TOPIC,
    TRANSACTIONAL_ID,
    all_rights,
    filled,
    grants,
    places_of,
    set_acls,
    shown,
    told_by_apis,
)
from tests.unit.broker.console.test_login import log_in
from tests.unit.broker.console.test_messages import append


def test_every_page_and_action_says_what_it_asks_of_the_authorizer() -> None:
    assert ASKED_BY_PAGES.keys() == PAGES.keys() | {"tail", "download"}
    assert ASKED_BY_ACTIONS.keys() == ACTIONS.keys()
    assert all(asked_for(right.api, right.resource_type.name) for right in all_rights())


def test_a_page_cannot_ask_about_what_its_line_does_not_have() -> None:
    rights = Rights().of(PageRights((PageRight("fetch", TOPIC, named="topic"),)))
    assert rights.allow("fetch", TOPIC, "t")
    with pytest.raises(AssertionError, match="no describe_configs on TOPIC"):
        rights.allow("describe_configs", TOPIC, "t")


@pytest.mark.long
async def test_pages_show_no_more_than_the_apis_tell_the_same_user() -> None:
    ones = {acl for right in all_rights() for acl in grants(right)}
    several = [
        {(AclOperation.DESCRIBE, TOPIC, "told-a"), *((AclOperation.DESCRIBE, GROUP, name) for name in NAMES[GROUP])},
        {(AclOperation.READ, TOPIC, "told-b"), (AclOperation.DESCRIBE, TRANSACTIONAL_ID, "told-till")},
        {(AclOperation.DESCRIBE, GROUP, "told-mail"), *((AclOperation.DESCRIBE, TOPIC, name) for name in NAMES[TOPIC])},
        {acl for acl in ones if acl[1] is not CLUSTER},
        {acl for acl in ones if acl[0] is AclOperation.DESCRIBE},
    ]
    async with filled() as (rig, browser):
        for acls in ([], *([one] for one in sorted(ones)), *several):
            set_acls(rig, acls)
            told = await told_by_apis(rig)
            for page, asked in ASKED_BY_PAGES.items():
                needed = {acl for right in asked.needed if right.named is None for acl in grants(right)}
                if any(right.api == "create_acls" for right in asked.needed) and needed <= set(acls):
                    continue  # who could have everything is shown what no API tells
                for place in places_of(page):
                    _, words = await shown(browser, place)
                    assert words <= told, (page, place, acls)


async def test_pages_are_refused_without_their_rights_and_shown_with_them() -> None:
    async with filled() as (rig, browser):
        for page, asked in ASKED_BY_PAGES.items():
            place = places_of(page)[0]
            set_acls(rig, ())
            assert (await shown(browser, place)) == (403 if asked.needed else 200, set()), place
            set_acls(rig, [acl for right in asked.needed for acl in grants(right)[:1]])
            assert (await shown(browser, place))[0] == 200, place


SHOWN = {
    "": {"told-folder"},
    "new-topic": set[str](),
    "topic-configs?name=told-a": {"123450001"},
    "produce?topic=told-a&from_offset=0": {"told-record_of_a"},
    "broker-configs": {"told-folder"},
    "movements": set[str](),
    "tier": set[str](),
    "access": set[str](),
    "acls": {"told-c", "told-someone"},
    "users": {"told-user"},
    "quotas": {"told-client"},
    "tokens": {"told-owner"},
    "audit": set[str](),
    "topics": {"told-a", "told-b"},
    "topic?name=told-a": {"123450001", "told-mail", "told-till"},
    "messages?topic=told-a": {"told-record_of_a"},
    "message?topic=told-a&offset=0": {"told-record_of_a"},
    "schemas": set[str](),
    "schema": set[str](),
    "groups": {"told-mail", "told-news", "told-old"},
    "group?id=told-mail": {"told-a", "told-b", "told-mailer"},
    "group?id=told-news": {"told-a", "told-b", "told-reader"},
    "transactions": {"told-till", "told-purse", "told-a", "told-b"},
    "transaction?id=told-till": {"told-a", "told-b"},
    "clients": {"told-mailer"},
    "cluster": set[str](),
    "kit": {"told-fault"},
    "journal": {"told-mailer", "told-mail", "told-a"},
}


async def test_pages_show_everything_with_all_rights() -> None:
    assert {place.partition("?")[0] for place in SHOWN} == PAGES.keys()
    async with filled() as (rig, browser):
        set_acls(rig, {acl for right in all_rights() for acl in grants(right)})
        for place, words in SHOWN.items():
            assert words <= (await shown(browser, place))[1], place


async def test_a_page_shows_some_of_it_with_some_rights() -> None:
    describe = AclOperation.DESCRIBE
    async with filled() as (rig, browser):
        set_acls(rig, [(describe, TOPIC, "told-a"), *((describe, GROUP, name) for name in NAMES[GROUP])])
        assert await shown(browser, "group?id=told-mail") == (200, {"told-a", "told-mailer"})
        hidden = await browser.get("/group?id=told-news")
        assert "all topics of the group are told who is in it" in hidden.text
        assert "told-a" in hidden.text
        assert await shown(browser, "topic?name=told-a") == (200, set()), "configurations need DESCRIBE_CONFIGS"
        assert "DESCRIBE_CONFIGS" in (await browser.get("/topic?name=told-a")).text
        overview = await browser.get("/")
        assert "Only users who may describe the cluster" in overview.text
        assert "broker.example" not in overview.text
        set_acls(rig, [(describe, TOPIC, "told-a"), (describe, TRANSACTIONAL_ID, "told-till")])
        page = await browser.get("/transactions")
        assert "told-till" in page.text
        assert "No transaction is open in a partition" in page.text, "that needs READ, as in DescribeProducers"
        assert page.text.count("told-a") == 0


async def test_a_list_of_groups_shows_to_who_may_describe_the_cluster_what_list_groups_tells() -> None:
    async with filled() as (rig, browser):
        set_acls(rig, [(AclOperation.DESCRIBE, CLUSTER, CLUSTER_NAME)])
        page = await browser.get("/groups")
        assert "told-mail Stable classic – –" in page.text
        set_acls(rig, [(AclOperation.DESCRIBE, GROUP, "told-old")])
        page = await browser.get("/groups")
        assert "Stable" not in page.text, "neither the state of a group that may not be seen"


async def test_the_lag_over_time_is_that_of_the_topics_that_the_user_may_know() -> None:
    async with filled() as (rig, _):
        for topic, count in (("told-a", 3), ("told-b", 100)):
            append(rig, topic, *[(b"k", b"v")] * count)
        set_acls(rig, {acl for right in all_rights() for acl in grants(right)})
        history = History(rig.node)
        history.lags("told-old")
        async with browsing(rig, history) as other:
            await history.sample_lags()
            await log_in(other, "anna", "a=,secret")
            everything = await other.get("/group?id=told-old")
            set_acls(rig, [(AclOperation.DESCRIBE, GROUP, "told-old"), (AclOperation.DESCRIBE, TOPIC, "told-a")])
            some = await other.get("/group?id=told-old")
        total = re.search(r"Lag, all partitions ([\d,]+)", everything.text)
        of_a = re.search(r"Lag, all partitions ([\d,]+)", some.text)
        assert total is not None
        assert of_a is not None
        assert int(total[1]) - int(of_a[1]) >= 100

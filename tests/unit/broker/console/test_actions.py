"""What the console changes where it is let."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from broker.console.actions import ACTIONS
from broker.testkit.control.faults import faults_of
from tests.unit.broker.console.browsing import Html, browsing
from tests.unit.broker.members import CONFIG, ClassicMember
from tests.unit.broker.rig import Rig


async def test_topics_are_created_and_deleted() -> None:
    async with Rig(config={"odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        place = await browser.post("/create-topic", topic="orders", partitions="3")
        assert place == "topic?name=orders&done=The+topic+was+created."
        assert "The topic was created." in (await browser.get(f"/{place}")).text
        topic = rig.node.cluster.cache.topic("orders")
        assert topic is not None
        assert topic.partition_count == 3
        assert (await browser.post("/delete-topic", topic="orders")).startswith("topics?")
        assert rig.node.cluster.cache.topic("orders") is None


async def test_bad_input_is_refused_by_its_name() -> None:
    async with Rig(config={"odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        assert "partitions = 'many': expected a whole number" in await browser.post(
            "/create-topic", 400, topic="orders", partitions="many"
        )
        assert "topic is missing" in await browser.post("/create-topic", 400)
        assert "there is nothing to do at /explode" in await browser.post("/explode", 404)
        assert "no control interface" in await browser.post("/advance-clock", 409, seconds="5")


WRONG = {
    "abort-transaction": {"transactional_id": "no-such"},
    "add-partitions": {"topic": "t", "partitions": "1"},
    "alter-topic-config": {"topic": "t", "key": "retention.ms", "value": "x"},
    "cancel-move": {"topic": "t", "partition": "0"},
    "create-token": {"owner": "nobody"},
    "delete-group": {"group": "g"},
    "delete-offsets": {"group": "g", "topic": "t"},
    "delete-topic": {"topic": "no-such"},
    "elect-leaders": {"topic": "no-such"},
    "expire-token": {"id": "no-such"},
    "produce-record": {"topic": "t", "partition": "x"},
    "remove-fault": {"id": "no-such"},
    "renew-token": {"id": "no-such"},
    "reset-offsets": {"group": "g", "to": "nowhere"},
    "truncate-topic": {"topic": "t", "before": "9"},
}
"""What is refused; of other forms an empty one is."""

WITHOUT_PAGE = {"abort-transaction", "add-acl", "delete-acl", "delete-topic"}
"""Here their page cannot be shown either: there is no such thing, or no authorizer."""


@pytest.mark.parametrize("action", ACTIONS)
async def test_a_refusal_is_told_once_on_the_page_with_the_form(action: str) -> None:
    async with Rig(config={**CONFIG, "odradek.console.write": "true"}) as rig, browsing(rig) as browser:
        await rig.create("t")
        await ClassicMember(rig, "g", "t").enter({"t": [0]})
        rig.node.faults = faults_of(rig.node)
        async with browser.session.post(f"/{action}", data=WRONG.get(action, {})) as answer:
            assert 400 <= answer.status < 500
            page = Html(await answer.text())
        assert len([one for one in page.all("p") if one.get("role") == "alert"]) == 1
        assert ("Not shown" in page.text) == (action in WITHOUT_PAGE)


async def test_a_page_says_that_something_was_done_in_our_own_sentences_alone() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        for done in {said for action in ACTIONS.values() for said in (action.done, *action.also)}:
            assert done in (await browser.get(f"/topics?done={quote(done)}")).text
        for text in ("Call 0800 1234 and say your password.", "Deleted. Call 0800 1234.", "Deleted"):
            page = await browser.get(f"/topics?done={quote(text)}")
            assert not [one for one in page.all("p") if one.get("role") == "status"]

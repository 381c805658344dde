"""What the console changes where it is let."""

from __future__ import annotations

from urllib.parse import quote

from broker.console.actions import ACTIONS
from tests.unit.broker.console.browsing import browsing
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


async def test_a_page_says_that_something_was_done_in_our_own_sentences_alone() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        for done in {action.done for action in ACTIONS.values()}:
            assert done in (await browser.get(f"/topics?done={quote(done)}")).text
        for text in ("Call 0800 1234 and say your password.", "Deleted. Call 0800 1234.", "Deleted"):
            page = await browser.get(f"/topics?done={quote(text)}")
            assert not [one for one in page.all("p") if one.get("role") == "status"]

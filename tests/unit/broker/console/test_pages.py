"""The pages of the console, as their HTML shows them."""

from __future__ import annotations

from broker.console.history import History
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.rig import Rig


async def test_the_overview_counts_what_there_is_and_shows_rates() -> None:
    async with Rig() as rig:
        await rig.create("orders", 3)
        history = History(rig.node)
        await history.sample()
        rig.node.local.metrics.produced("orders", messages=500, size=5000)
        rig.clock.advance(5000)
        await history.sample()
        async with browsing(rig, history) as browser:
            page = await browser.get("/")
        assert "Messages in, per second 100" in page.text
        assert "Bytes in, per second 1.0 kB" in page.text
        assert "Topics 1 Partitions 3" in page.text


async def test_topics_are_shown_in_parts_and_found_by_name() -> None:
    async with Rig() as rig:
        for number in range(60):
            await rig.create(f"topic-{number:02}")
        async with browsing(rig) as browser:
            first = await browser.get("/topics")
            second = await browser.get("/topics?page=1")
            beyond = await browser.get("/topics?page=99")
            found = await browser.get("/topics?q=PIC-07")
        assert "1–50 of 60 topics" in first.text
        assert "51–60 of 60 topics" in second.text
        assert second.text == beyond.text
        assert "topic?name=topic-00" in first.links()
        assert "topic?name=topic-59" in second.links()
        assert [link for link in found.links() if link.startswith("topic?")] == ["topic?name=topic-07"]


async def test_a_topic_shows_its_partitions_and_what_is_set_for_it() -> None:
    async with Rig() as rig:
        await rig.create("orders", 2, retention_ms="1234567")
        async with browsing(rig) as browser:
            page = await browser.get("/topic?name=orders")
        assert "retention.ms 1234567 this topic" in page.text
        assert "1–2 of 2 partitions" in page.text
        assert "no group subscribes to topic orders" in page.text
        assert not page.all("form")


async def test_what_does_not_exist_is_said_with_what_is_near() -> None:
    async with Rig() as rig:
        await rig.create("orders")
        async with browsing(rig) as browser:
            assert "did you mean orders?" in (await browser.get("/topic?name=order", 404)).text
            assert "there is no page /nowhere" in (await browser.get("/nowhere", 404)).text
            assert "page = '-1': expected a whole number" in (await browser.get("/topics?page=-1", 400)).text
            await browser.get(f"/topics?page={'0' * 5000}1")
            await browser.get(f"/topics?page={'0' * 20}{'9' * 5000}", 400)
            assert "name is missing" in (await browser.get("/topic", 400)).text

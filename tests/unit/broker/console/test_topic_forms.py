"""Topics are created with all their options, get partitions, lose records, and have their configuration changed."""

from __future__ import annotations

from urllib.parse import quote_plus

from broker.console.change_topics import CHECKED
from tests.unit.broker.console.browsing import Browser, Html, browsing
from tests.unit.broker.console.test_messages import append
from tests.unit.broker.rig import Rig

WRITE = {"odradek.console.write": "true"}


async def refused(browser: Browser, action: str, status: int, /, **form: str) -> Html:
    """The page that a refused form comes back on."""
    async with browser.session.post(f"/{action}", data=form, allow_redirects=False) as answer:
        source = await answer.text()
        assert answer.status == status, source
        return Html(source)


async def test_the_form_of_a_new_topic_has_every_configuration_with_type_default_and_doc() -> None:
    async with Rig(config={**WRITE, "log.retention.hours": "24"}) as rig, browsing(rig) as browser:
        page = await browser.get("/new-topic")
        names = {one.get("name") for one in (*page.all("input"), *page.all("select"))}
        assert {"config:retention.ms", "config:cleanup.policy", "config:min.insync.replicas"} <= names
        (retention,) = [one for one in page.all("input") if one.get("name") == "config:retention.ms"]
        assert retention["placeholder"] == str(24 * 3600 * 1000)
        assert "the default is 24 h" in page.text
        assert "A 64-bit integer" in page.text


async def test_a_topic_is_created_with_partitions_replicas_and_configurations() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        form = {"topic": "t", "partitions": "3", "replicas": "1", "config:retention.ms": "5", "config:flush.ms": ""}
        assert (await browser.post("/create-topic", **form)).startswith("topic?name=t&")
        topic = rig.node.cluster.cache.topic("t")
        assert topic is not None
        assert topic.partition_count == 3
        assert dict(rig.node.cluster.cache.topic_configs("t")) == {"retention.ms": "5"}


async def test_a_topic_is_created_by_an_assignment() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await browser.post("/create-topic", topic="t", assignment="1\r\n\r\n1")
        topic = rig.node.cluster.cache.topic("t")
        assert topic is not None
        assert [one.replicas for _, one in topic.in_order()] == [(1,), (1,)]
        for assignment, said in (("1, x", "expected the ids of brokers"), ("7", "INVALID_REPLICA_ASSIGNMENT")):
            page = await refused(
                browser, "create-topic", 400 if "x" in assignment else 409, topic="u", assignment=assignment
            )
            assert said in page.text
        assert "leave these two fields empty" in await browser.post(
            "/create-topic", 400, topic="u", assignment="1", partitions="1"
        )


async def test_a_topic_is_only_checked_and_what_was_typed_stays() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        form = {"topic": "t", "config:retention.ms": "5", "do": "check"}
        place = await browser.post("/create-topic", **form)
        assert rig.node.cluster.cache.topic("t") is None
        page = await browser.get(f"/{place}")
        assert "it was not created" in page.text
        values = {one.get("name"): one.get("value") for one in page.all("input")}
        assert (values["topic"], values["config:retention.ms"]) == ("t", "5")


async def test_what_was_only_checked_is_no_address_that_a_proxy_refuses() -> None:
    """A thousand lines of brokers made one of 13 kB."""
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        lines = "\r\n".join(["1"] * 2_000)
        place = await browser.post("/create-topic", do="check", topic="t", assignment=lines)
        assert place == f"new-topic?topic=t&done={quote_plus(CHECKED)}"
        assert rig.node.cluster.cache.topic("t") is None


async def test_a_refused_topic_says_why_beside_the_form_and_keeps_what_was_typed() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        page = await refused(
            browser, "create-topic", 409, topic="t", **{"config:retention.ms": "a week", "config:preallocate": "true"}
        )
        (alert,) = [one for one in page.all("p") if one.get("role") == "alert"]
        assert alert is not None
        assert "INVALID_CONFIG" in page.text
        assert "a week" in page.text
        values = {one.get("name"): one.get("value") for one in page.all("input")}
        assert (values["topic"], values["config:retention.ms"]) == ("t", "a week")
        assert page.selected["config:preallocate"] == "true"
        assert (
            "INVALID_REPLICATION_FACTOR"
            in (await refused(browser, "create-topic", 409, topic="t", replicas="9", partitions="1")).text
        )


async def test_partitions_are_added_and_never_taken_away() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t", partitions=2)
        assert "has+more+partitions" in await browser.post("/add-partitions", topic="t", partitions="4", assignment="")
        topic = rig.node.cluster.cache.topic("t")
        assert topic is not None
        assert topic.partition_count == 4
        page = await refused(browser, "add-partitions", 409, topic="t", partitions="3")
        assert "INVALID_PARTITIONS" in page.text
        assert "partitions is missing" in (await refused(browser, "add-partitions", 400, topic="t")).text


async def test_records_are_deleted_up_to_an_offset() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("t", partitions=2)
        for index in (0, 1):
            append(rig, "t", *[(b"k", b"v")] * 5, partition=index)
        await browser.post("/truncate-topic", topic="t", partition="1", before="3")
        starts = [one.log_start_offset for one in rig.node.replicas]
        assert sorted(starts) == [0, 3]
        page = await refused(browser, "truncate-topic", 409, topic="t", before="9")
        assert "OFFSET_OUT_OF_RANGE" in page.text
        assert "(t-0)" in page.text
        await browser.post("/truncate-topic", topic="t")
        assert [one.log_start_offset for one in rig.node.replicas] == [5, 5]


async def test_a_topic_that_is_not_there_is_not_deleted() -> None:
    async with Rig(config=WRITE) as rig, browsing(rig) as browser:
        await rig.create("orders")
        assert "did you mean orders?" in await browser.post("/delete-topic", 404, topic="order")

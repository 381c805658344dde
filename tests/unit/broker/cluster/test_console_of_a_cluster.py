"""The console of one broker changes what a controller decides, and what another broker leads or coordinates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.unit.broker.cluster.test_console_shows_the_cluster import during
from tests.unit.broker.cluster.three_brokers import GROUP, Cluster
from tests.unit.broker.console.browsing import Browser, browsing

SECOND = 2


async def post(cluster: Cluster, browser: Browser, action: str, status: int = 303, /, **form: str) -> str:
    """Send a form, while time goes on for the nodes."""
    return await during(cluster, browser.post(f"/{action}", status, **form))


@asynccontextmanager
async def console_of(node_id: int) -> AsyncIterator[tuple[Cluster, Browser]]:
    async with Cluster(odradek_console_write="true") as cluster, browsing(cluster.nodes[node_id]) as browser:
        yield cluster, browser


async def test_a_topic_is_created_by_the_controller_and_shown_at_once() -> None:
    async with console_of(SECOND) as (cluster, browser):
        place = await post(cluster, browser, "create-topic", topic="new", partitions="2")
        assert place.startswith("topic?name=new&")
        assert cluster.nodes[SECOND].node.cluster.cache.topic("new") is not None
        text = await post(cluster, browser, "create-topic", 409, topic="new")
        assert "TOPIC_ALREADY_EXISTS" in text
        await post(cluster, browser, "delete-topic", topic="new")
        assert cluster.nodes[1].node.cluster.cache.topic("new") is None


async def test_records_are_written_and_deleted_at_the_leader_of_each_partition() -> None:
    async with console_of(SECOND) as (cluster, browser):
        for index in range(6):
            place = await post(cluster, browser, "produce-record", topic="t", value="v", partition=str(index))
            assert f"partition={index}&offset=0" in place
            page = await during(cluster, browser.get(f"/{place}"))
            assert "The record was written. Time" in page.text, "whoever leads it"
        await post(cluster, browser, "truncate-topic", topic="t")
        starts = [
            partition.log_start_offset
            for rig in cluster.nodes.values()
            for partition in rig.node.replicas
            if partition.topic == "t"
        ]
        assert starts == [1] * 6


async def test_a_group_of_another_coordinator_is_reset_and_deleted_there() -> None:
    async with console_of(SECOND) as (cluster, browser):
        group = await cluster.named(GROUP, 1)
        await post(cluster, browser, "reset-offsets", group=group, to="0", topic="t")
        assert "has committed nothing to u" in await post(
            cluster, browser, "delete-offsets", 404, group=group, topic="u"
        )
        await post(cluster, browser, "delete-offsets", group=group, topic="t", partition="1")
        await post(cluster, browser, "delete-group", group=group)
        assert "GROUP_ID_NOT_FOUND" in await post(cluster, browser, "delete-group", 409, group=group)


async def test_the_configuration_of_all_brokers_is_changed_and_that_of_another_one_is_told() -> None:
    async with console_of(SECOND) as (cluster, browser):
        form = {"broker": "all", "key": "log.cleaner.threads", "value": "2", "do": "set"}
        await post(cluster, browser, "alter-broker-config", **form)
        await cluster.clock.run(1000)
        page = await during(cluster, browser.get("/broker-configs?broker=3&q=log.cleaner.threads"))
        text = page.text.partition("Change")[2]
        assert "2 all brokers 1 int" in text, text


async def test_a_replica_moves_to_another_broker() -> None:
    async with console_of(SECOND) as (cluster, browser):
        topic = cluster.nodes[SECOND].node.cluster.cache.topic("t")
        assert topic is not None
        (old,) = topic.partitions[0].replicas
        new = next(one for one in (1, 2, 3) if one != old)
        await post(cluster, browser, "move-replicas", topic="t", partition="0", brokers=str(new))
        for _ in range(1000):
            moved = cluster.nodes[SECOND].node.cluster.cache.topic("t")
            assert moved is not None
            if moved.partitions[0].replicas == (new,):
                break
            await cluster.clock.run(50)
        assert moved.partitions[0].replicas == (new,)
        assert "No+election+was+needed" in await post(cluster, browser, "elect-leaders", topic="t", partition="0")

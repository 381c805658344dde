"""The console's page of tiered storage in a cluster: what leaders say, and what is wrong with this broker's store."""

from __future__ import annotations

import asyncio

from tests.doubles.flaky_store import FlakyStore
from tests.unit.broker.console.browsing import browsing
from tests.unit.broker.rig import Rig
from tests.unit.broker.tiering.tiered_cluster import TieredCluster

VALUES = [b"%03d" % number * 10 for number in range(40)]


async def text_of(cluster: TieredCluster, node_id: int) -> str:
    """The text of a broker's page, while time goes on for the nodes."""
    async with browsing(cluster.nodes[node_id]) as browser:
        asked = asyncio.ensure_future(browser.get("/tier"))
        while not asked.done():
            await cluster.clock.run(10)
            await asyncio.sleep(0)
        return (await asked).text


async def test_the_page_shows_what_the_leader_has_in_remote_storage_and_here() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1), remote_storage_enable="TRUE")
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        for node_id in (1, 2, 3):
            assert "End t-0 2 0 38 39 40" in await text_of(cluster, node_id)


async def test_the_page_says_why_a_replica_waits_for_remote_storage() -> None:
    async with TieredCluster() as cluster:
        store = cluster.store
        await cluster.create_tiered(replicas=(2, 1))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        cluster.tier(3).store.behind = broken = FlakyStore(store)
        broken.coming = ["before"] * 1_000
        await cluster.reassign((2, 1, 3))
        await cluster.clock.run(5_000)
        assert "This broker: t-0: this replica waits for remote storage" in await text_of(cluster, 3)
        assert "waits for remote storage" not in await text_of(cluster, 1)


async def test_the_page_of_a_broker_without_tiered_storage_says_so() -> None:
    async with Rig() as rig, browsing(rig) as browser:
        page = await browser.get("/tier")
        assert "Tiered storage is switched off on this broker" in page.text
        assert "There is no tiered topic that you may see." in page.text

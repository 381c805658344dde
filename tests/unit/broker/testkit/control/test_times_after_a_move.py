"""Times that are told after a test has moved the broker's clock, and set it back: nothing keeps what was advanced."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import structlog
from kio.schema.describe_quorum.v2.request import PartitionData, TopicData

from broker.logging import WARNINGS
from broker.testkit.control.broker import settle as at_rest
from broker.testkit.control.history_recorder import Recorder
from broker.testkit.journal_views import read_fetches, requests_of
from tests.unit.broker.cluster.three_brokers import Cluster
from tests.unit.broker.scraping import only, samples
from tests.unit.broker.testkit.control.asking import control, keep_journal
from tests.unit.broker.testkit.control.test_moved_clock import DAY, MINUTE, MovableRig
from tests.unit.broker.testkit.explain.findings import found
from tests.unit.broker.transactions import CONFIG, begun
from tests.unit.broker.wire import batch, fetch, produce
from timing.adjustable_clock import AdjustableClock


@pytest.fixture
async def rig() -> AsyncIterator[MovableRig]:
    async with MovableRig(config={**CONFIG, "group.initial.rebalance.delay.ms": "0"}) as one:
        await one.create("t")
        keep_journal(one)
        yield one


async def there_and_back(rig: MovableRig) -> None:
    await rig.advance(15 * MINUTE)
    await rig.movable.reset()


async def test_the_journal_is_in_the_order_of_what_happened_and_in_the_machines_time(
    rig: MovableRig, own_logging: None
) -> None:
    structlog.configure(processors=[WARNINGS, *structlog.get_config()["processors"]])

    async def happen() -> None:
        """A connection is opened, a line is logged, and a request comes."""
        await rig.clock.run(1_000)
        client = rig.connect()
        structlog.get_logger().warning("a warning")
        await client.ask("list_groups", 0)

    await happen()
    await rig.advance(DAY)
    await happen()
    await rig.movable.reset()
    await happen()
    entries = (await control(rig, "GET", "/journal"))["entries"]
    assert [one["kind"] for one in entries] == 3 * ["connection opened", "warning", "request"]
    times = [one["time"] for one in entries]
    assert times == sorted(times)
    assert times[-1] == rig.clock.wall_ms() / 1000
    WARNINGS.listener = None


async def test_a_fetch_is_as_long_ago_as_it_was_in_the_machines_time(rig: MovableRig) -> None:
    await rig.connect().ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0))
    await there_and_back(rig)
    fetches = read_fetches(rig.node)
    assert fetches is not None
    (seen,) = fetches
    assert 0 <= seen.ago_ms < MINUTE


async def test_a_request_of_a_producer_is_as_long_ago_as_it_was_in_the_machines_time(rig: MovableRig) -> None:
    producer = await begun(rig)
    assert await producer.produce(b"v", 0) == ["none"]
    await there_and_back(rig)
    assert max(request.ago_ms for request in requests_of(rig.node, "tx")) < MINUTE


async def test_a_transaction_that_began_in_what_is_the_future_now_is_not_open_for_less_than_nothing(
    rig: MovableRig,
) -> None:
    await rig.advance(DAY)
    producer = await begun(rig)
    assert await producer.produce(b"v", 0) == ["none"]
    await rig.movable.reset()
    assert (await control(rig, "GET", "/transactions/tx"))["open_for"] == 0
    assert "-" not in (await found(rig, topic="t"))["held_by_transaction"]["text"].partition("open for")[2]
    ages = only(samples(rig.node.local.metrics), "odradek_oldest_open_transaction_seconds")
    assert [*ages.values()] == [0]


async def test_a_history_is_in_the_machines_time(rig: MovableRig, tmp_path: Path) -> None:
    recorder = Recorder(rig.node, tmp_path / "history.jsonl")
    recorder.begin()
    await rig.advance(DAY)
    await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"v")}))
    at = [line["at"] for line in map(json.loads, recorder.path.read_text().splitlines()) if "at" in line]
    recorder.end()
    assert at == [rig.clock.wall_ms()]


async def test_the_leader_of_the_metadata_is_told_in_the_time_of_its_observers(rig: MovableRig) -> None:
    await rig.advance(DAY)
    asked = (TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),)
    told = await rig.connect().ask("describe_quorum", 2, topics=asked)
    (leader,) = told.topics[0].partitions[0].current_voters
    assert leader.last_fetch_timestamp == rig.clock.wall_ms()


async def test_in_sync_replicas_stay_so_though_the_leaders_clock_is_moved() -> None:
    cluster = Cluster(replicas=3)
    for node in cluster.nodes.values():
        node.clock = AdjustableClock(node.clock)  # type: ignore[assignment]
    async with cluster:
        await cluster.create_replicated("r")
        leader = cluster.nodes[cluster.leader(0, "r")]
        before = leader.node.cluster.cache.image.topics.by_name["r"].partitions[0]
        assert isinstance(leader.clock, AdjustableClock)
        await cluster.during(leader.clock.advance(15 * MINUTE, partial(at_rest, leader.node)))
        leader.connect().send("produce", 9, **produce("r", {0: batch(b"v")}, acks=1))  # followers do not have it yet
        await leader.node.replicas.shrink_in_sync_replicas()
        await cluster.clock.run(1_000)
        assert leader.node.cluster.cache.image.topics.by_name["r"].partitions[0] == before

"""Tiered storage in a cluster: only the leader copies, followers begin where its own files begin (KIP-405)."""

from __future__ import annotations

import pytest

from broker.tiering.inspection import tier_status
from protocol.remote_storage.segment import RemoteSegment, State
from storage.tier.counts import Count
from tests.doubles.flaky_store import FlakyStore
from tests.doubles.workers import HeldLane
from tests.unit.broker.tiering.tiered_cluster import TieredCluster

VALUES = [b"%03d" % number * 10 for number in range(40)]


async def test_only_the_leader_copies_and_all_replicas_lose_what_is_copied() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        assert [cluster.copies(node_id) > 0 for node_id in (1, 2, 3)] == [
            False,
            True,
            False,
        ]
        for node_id in (1, 2, 3):
            log = cluster.partition(node_id).log
            assert log.log_start_offset == 0
            assert log.local_log_start_offset > 30
        assert await cluster.read_all() == VALUES


@pytest.mark.long
async def test_who_leads_next_goes_on_copying() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(5_000)
        copied = cluster.copies(2)
        await cluster.move(3)
        assert cluster.leader() == 3
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        assert cluster.copies(2) == copied
        assert cluster.copies(3) > 0
        assert cluster.partition(3).log.log_start_offset == 0
        assert await cluster.read_all() == VALUES * 2


@pytest.mark.long
async def test_an_empty_replica_copies_only_what_is_local_on_its_leader() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.reassign((2, 3))
        await cluster.clock.run(10_000)
        assert cluster.in_sync() == [2, 3]
        leaders, followers = cluster.partition(2).log, cluster.partition(3).log
        assert followers.segments.first.base_offset == leaders.segments.first.base_offset > 30
        assert followers.leader_epochs.entries == leaders.leader_epochs.entries[:1]
        assert followers.log_start_offset == 0
        assert cluster.tier(3).reader.counts.total(Count.FETCH_BYTES) == 0
        await cluster.move(3)
        assert await cluster.read_all() == VALUES
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        assert await cluster.read_all() == VALUES * 2
        assert len(cluster.segments(3)) > 20


@pytest.mark.parametrize("enabled", ["false", "true"])
async def test_kip_1023_an_empty_replica_begins_behind_the_last_tiered_offset(enabled: str) -> None:
    """Its leader has some of what is tiered itself, too; without the setting a new replica copies that as well."""
    async with TieredCluster(follower_fetch_last_tiered_offset_enable=enabled) as cluster:
        await cluster.create_tiered(replicas=(2, 1), local_retention_bytes="1500")
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.reassign((2, 3))
        await cluster.clock.run(10_000)
        assert cluster.in_sync() == [2, 3]
        leaders, followers = cluster.partition(2).log, cluster.partition(3).log
        pending = leaders.tier.highest_offset + 1
        assert 0 < leaders.local_log_start_offset < pending - 5
        begun = pending if enabled == "true" else leaders.local_log_start_offset
        assert followers.segments.first.base_offset == begun
        assert (followers.log_start_offset, followers.log_end_offset) == (0, 40)
        await cluster.move(3)
        assert await cluster.read_all() == VALUES


async def test_kip_1023_an_empty_replica_of_a_log_that_starts_later_begins_behind_the_last_tiered_offset() -> None:
    """It is told OFFSET_OUT_OF_RANGE. Of what is not tiered it copies all."""
    async with TieredCluster(follower_fetch_last_tiered_offset_enable="true") as cluster:
        await cluster.create_tiered(replicas=(2, 1), local_retention_bytes="1500")
        await cluster.create_tiered("plain", replicas=(2, 1), remote_storage_enable="false", local_retention_bytes="-2")
        for topic in ("t", "plain"):
            await cluster.append(*VALUES, topic=topic)
            await cluster.clock.run(10_000)
            await cluster.delete_records(20, topic)
            await cluster.reassign((2, 3), topic)
        await cluster.clock.run(10_000)
        assert cluster.in_sync() == cluster.in_sync("plain") == [2, 3]
        tiered, plain = cluster.partition(3).log, cluster.partition(3, "plain").log
        assert tiered.segments.first.base_offset == cluster.partition(2).log.tier.highest_offset + 1
        assert (tiered.log_start_offset, tiered.log_end_offset) == (20, 40)
        assert (plain.log_start_offset, plain.log_end_offset) == (20, 40)
        await cluster.move(3)
        assert await cluster.read_all(20) == VALUES[20:]


async def test_kip_1023_an_empty_replica_of_a_log_of_which_nothing_is_tiered_copies_all() -> None:
    async with TieredCluster(follower_fetch_last_tiered_offset_enable="true") as cluster:
        await cluster.create_tiered(replicas=(2, 1), local_retention_bytes="-2", internal_segment_bytes="1048576")
        await cluster.append(*VALUES)
        await cluster.delete_records(20)
        await cluster.reassign((2, 3))
        await cluster.clock.run(10_000)
        assert cluster.in_sync() == [2, 3]
        followers = cluster.partition(3).log
        assert (followers.log_start_offset, followers.log_end_offset) == (20, 40)
        await cluster.move(3)
        assert await cluster.read_all(20) == VALUES[20:]


async def test_a_replica_that_was_away_while_its_next_records_were_tiered_begins_behind_them() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 3, 1))
        await cluster.append(*VALUES[:5])
        await cluster.kill(3)
        await cluster.clock.run(12_000)
        await cluster.append(*VALUES[5:])
        await cluster.move(1)  # another leader epoch
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.start(3)
        await cluster.clock.run(10_000)
        assert cluster.in_sync() == [1, 2, 3]
        assert cluster.partition(3).log.leader_epochs.entries == cluster.partition(1).log.leader_epochs.entries
        await cluster.move(3)
        assert await cluster.read_all() == VALUES * 2


@pytest.mark.long
async def test_the_leader_answers_a_follower_offset_moved_to_tiered_storage() -> None:
    """With the high watermark and the log's start, as Kafka's followers need them; nothing is read from the store."""
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        told = await cluster.read_once(2, 5, replica_id=3)
        assert told.error_code.name == "offset_moved_to_tiered_storage"
        assert (told.log_start_offset, told.high_watermark, told.last_stable_offset) == (0, 40, -1)
        assert cluster.tier(2).reader.counts.total(Count.FETCH_REQUESTS) == 0


async def test_a_consumer_reads_cold_records_from_a_follower() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        assert await cluster.read_all(node_id=3) == VALUES


async def test_retention_is_the_leaders_and_followers_take_over_its_log_start() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3), retention_bytes="1000")
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        starts = {cluster.partition(node_id).log_start_offset for node_id in (1, 2, 3)}
        assert len(starts) == 1
        (start,) = starts
        assert 20 < start < cluster.partition(2).log.local_log_start_offset
        assert await cluster.read_all(start) == VALUES[start:]
        known = {one.id for one in cluster.segments(2)}
        assert {one.segment_id for one in cluster.stored()} == known


async def test_a_deleted_topic_leaves_nothing_in_remote_storage() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.delete()
        await cluster.clock.run(1_000)
        assert cluster.stored() == []


async def test_what_a_dead_leader_could_not_remove_of_a_deleted_topic_is_removed_by_who_leads_its_metadata() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2,))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.kill(2)
        await cluster.delete()
        await cluster.clock.run(15_000)
        assert cluster.stored() == []


async def test_tiering_that_is_switched_off_with_deletion_leaves_the_local_records_of_all_replicas() -> None:
    async with TieredCluster() as cluster:
        await cluster.create_tiered(replicas=(2, 1, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        await cluster.configure("t", remote_storage_enable="false", remote_log_delete_on_disable="true")
        await cluster.clock.run(3_000)
        assert cluster.stored() == []
        starts = {cluster.partition(node_id).log_start_offset for node_id in (1, 2, 3)}
        (start,) = starts
        assert start > 30
        assert await cluster.read_all(start) == VALUES[start:]


async def test_a_replica_waits_for_the_store_alone_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """What it follows besides goes on. The log has it once, however often it is tried."""
    async with TieredCluster() as cluster:
        store = cluster.store
        await cluster.create_tiered(replicas=(2, 1))
        await cluster.create_tiered("other", replicas=(2, 3))
        await cluster.append(*VALUES)
        await cluster.clock.run(10_000)
        cluster.tier(3).store.behind = broken = FlakyStore(store)
        broken.coming = ["before"] * 1_000
        await cluster.reassign((2, 1, 3))
        await cluster.clock.run(5_000)
        await cluster.append(b"v", topic="other")  # which needs node 3
        assert 3 not in cluster.in_sync()
        (told,) = [one for one in tier_status(cluster.tier(3), "t") if one.rule == "tier_replica_waits"]
        assert "this replica waits for remote storage" in told.text
        assert "the store says no" in told.text
        assert capsys.readouterr().out.count("[warning  ] replica cannot begin behind what is in remote storage") == 1
        broken.coming = []
        await cluster.clock.run(5_000)
        assert cluster.in_sync() == [1, 2, 3]
        (told,) = [one for one in tier_status(cluster.tier(3), "t") if one.rule == "tier_follower"]
        assert "t-0: followed, here from offset 39; copied up to offset 38" in told.text


async def half_copied(cluster: TieredCluster, copies: HeldLane) -> RemoteSegment:
    """The first segment: node 2, which leads, has begun to copy it."""
    await cluster.create_tiered(replicas=(2, 1, 3))
    await cluster.append(*VALUES)
    await cluster.clock.run(2_000)
    copies.run_next()  # the reading of what is to be copied
    await cluster.clock.run(1_000)
    (begun,) = cluster.segments(3)
    assert (begun.state, begun.broker_id) == (State.COPY_STARTED, 2)
    return begun


@pytest.mark.long
async def test_a_copy_is_finished_though_another_broker_leads_meanwhile() -> None:
    cluster = TieredCluster()
    cluster.nodes[2].workers = copies = HeldLane("remote copies")
    async with cluster:
        begun = await half_copied(cluster, copies)
        await cluster.move(3)
        await cluster.clock.run(5_000)
        assert begun.id in {one.id for one in cluster.segments(3)}  # the new leader leaves it alone
        assert len(cluster.segments(3)) > 10
        copies.run_next()
        await cluster.clock.run(5_000)
        assert {one.state for one in cluster.segments(3)} == {State.COPY_FINISHED}
        assert {one.segment_id for one in cluster.stored()} == {one.id for one in cluster.segments(3)}
        assert await cluster.read_all() == VALUES


@pytest.mark.long
async def test_what_a_dead_leader_has_left_half_copied_is_removed_once_its_time_is_over() -> None:
    cluster = TieredCluster()
    cluster.nodes[2].workers = copies = HeldLane("remote copies")
    async with cluster:
        begun = await half_copied(cluster, copies)
        await cluster.kill(2)
        await cluster.clock.run(30_000)
        leader = cluster.leader()
        assert begun.id in {one.id for one in cluster.segments(leader)}
        await cluster.clock.run(100_000)
        assert begun.id not in {one.id for one in cluster.segments(leader)}
        assert {one.segment_id for one in cluster.stored()} == {one.id for one in cluster.segments(leader)}


async def test_a_copy_that_another_broker_has_removed_before_it_was_finished_leaves_no_objects() -> None:
    cluster = TieredCluster()
    cluster.nodes[2].workers = copies = HeldLane("remote copies")
    async with cluster:
        begun = await half_copied(cluster, copies)
        metadata = cluster.tier(3).metadata
        for state in (State.DELETE_STARTED, State.DELETE_FINISHED):
            await cluster.during(metadata.put(begun.with_state(state, broker_id=3, now_ms=cluster.clock.wall_ms())))
        copies.run_next()
        await cluster.clock.run(1_000)
        assert {one.segment_id for one in cluster.stored()} == {begun.id}
        copies.run_next()
        assert cluster.stored() == []


@pytest.mark.long
async def test_an_unclean_election_leaves_what_the_new_leader_has_and_loses_nothing_of_that() -> None:
    """The old leader had copied further; its replica begins anew, from the log's start."""
    async with TieredCluster() as cluster:
        configs = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
        await cluster.create_tiered("t", (2, 3), **configs)
        await cluster.append(*VALUES[:6])
        await cluster.clock.run(3_000)
        await cluster.kill(3)
        await cluster.clock.run(15_000)
        await cluster.append(*VALUES[6:])
        await cluster.clock.run(5_000)
        assert cluster.partition(2).log.tier.highest_offset == 38
        await cluster.kill(2)
        await cluster.clock.run(15_000)
        await cluster.start(3)
        await cluster.clock.run(20_000)
        assert cluster.leader() == 3
        kept = await cluster.read_all()
        assert kept == VALUES[:6]
        await cluster.append(*VALUES[::-1])
        await cluster.clock.run(5_000)
        assert await cluster.read_all() == kept + VALUES[::-1]
        await cluster.start(2)
        await cluster.clock.run(20_000)
        assert cluster.in_sync() == [2, 3]
        await cluster.move(2)
        assert cluster.partition(2).log_start_offset == 0
        assert await cluster.read_all() == kept + VALUES[::-1]

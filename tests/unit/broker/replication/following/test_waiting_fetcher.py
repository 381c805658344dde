"""A fetcher that waits for a flush: the partition may leave meanwhile, and what came before a bad batch counts too."""

from __future__ import annotations

from broker.replication.partition import Partition
from tests.doubles.clock import settle
from tests.unit.broker.partitions import alone, state
from tests.unit.broker.replication.following.test_fetcher import LEADER, SETTINGS, Following, batch
from tests.unit.storage.support import TOPIC_ID


async def test_a_partition_that_leaves_while_the_fetcher_waits_for_its_flush_lets_the_others_be_fetched() -> None:
    following = Following(flush_messages=1)
    await following.answer(records=batch(0, 5), high_watermark=0, log_start_offset=0)
    other = Partition("t", TOPIC_ID, 1, following.rig.log("u"), lambda _: None, alone(following.rig.clock))
    other.follow(state(5, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(other)
    await settle()
    assert len(following.leader.asked) == 1, "the flush is under way"
    following.partition.lead(state(6, leader=1, replicas=(1, 2)))
    following.fetcher.remove(following.partition)
    assert [one.partition for _, ones in (await following.request()).topics for one in ones] == [1]
    await following.fetcher.stop()


async def test_with_flush_messages_what_came_before_a_bad_batch_is_flushed_and_the_next_fetch_comes() -> None:
    following = Following(flush_messages=1)
    bad = batch(1, 5)[:-1] + b"?"
    await following.answer(records=batch(0, 5) + bad, high_watermark=0, log_start_offset=0)
    following.rig.workers.run_all()
    await following.rig.clock.run(2 * SETTINGS.fetch_backoff_ms)
    assert (await following.asked()).fetch_offset == 1
    await following.fetcher.stop()

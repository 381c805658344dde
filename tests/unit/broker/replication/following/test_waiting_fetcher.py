"""A fetcher that waits for a flush goes on."""

from __future__ import annotations

from tests.unit.broker.replication.following.test_fetcher import SETTINGS, Following, batch


async def test_with_flush_messages_what_came_before_a_bad_batch_is_flushed_and_the_next_fetch_comes() -> None:
    following = Following(flush_messages=1)
    bad = batch(1, 5)[:-1] + b"?"
    await following.answer(records=batch(0, 5) + bad, high_watermark=0, log_start_offset=0)
    following.rig.workers.run_all()
    await following.rig.clock.run(2 * SETTINGS.fetch_backoff_ms)
    assert (await following.asked()).fetch_offset == 1
    await following.fetcher.stop()

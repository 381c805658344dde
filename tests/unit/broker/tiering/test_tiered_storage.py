"""Tiered storage (KIP-405) of one node: copies, local retention, reads from remote storage, total retention."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic

from broker.replication.reads import MOST_COLD
from broker.tiering.inspection import tier_status
from tests.doubles.files import Unsynced
from tests.doubles.workers import HeldLane
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.tiering.tiered_rig import (
    EARLIEST_LOCAL,
    LATEST_TIERED,
    TOPIC_CONFIG,
    FetchFailedError,
    append,
    create_tiered,
    offset_of,
    read_all,
    read_once,
    records_in,
    stored,
    tier_of,
    tiered_rig,
)
from tests.unit.broker.wire import NOW, answer, fetch

VALUES = [b"%03d" % number * 10 for number in range(40)]
ALL = list(enumerate(VALUES))


async def test_a_consumer_reads_from_the_beginning_after_local_retention() -> None:
    async with tiered_rig() as rig:
        await create_tiered(rig)
        client = rig.connect()
        await append(client, "t", *VALUES)
        await rig.clock.run(10_000)
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        assert partition.log.log_start_offset == 0
        assert partition.log.local_log_start_offset > 30
        assert stored(rig)
        assert await read_all(rig, client, "t") == ALL
        assert (await offset_of(client, "t", EARLIEST_LOCAL))[2] == partition.log.local_log_start_offset
        assert (await offset_of(client, "t", LATEST_TIERED))[2] == partition.log.tier.highest_offset


async def test_what_is_in_remote_storage_is_known_after_a_crash() -> None:
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig, flush_messages="1")
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    following = await rig.crash(Unsynced.LOST)
    try:
        assert await read_all(following, following.connect(), "t") == ALL
    finally:
        await following.stop()


async def test_a_node_without_tiered_storage_says_which_topics_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig)
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    await rig.stop()
    following = Rig(fs=rig.fs, clock=rig.clock, config={"log.initial.task.delay.ms": "500"})
    async with following:
        assert "tiered storage is switched off, but topics need it" in capsys.readouterr().out
        with pytest.raises(FetchFailedError, match="unknown_server_error"):
            await read_all(following, following.connect(), "t")


async def ask_times(rig: Rig, client: Client, timeout_ms: int, waits_ms: int) -> list[str]:
    """The errors of a lookup by time in t and u, which is answered at the end of that time and not before."""
    asked = tuple(
        ListOffsetsTopic(
            name=topic, partitions=(ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=NOW),)
        )
        for topic in ("t", "u")
    )
    timeout = timedelta(milliseconds=timeout_ms)
    client.send("list_offsets", 11, replica_id=-1, isolation_level=0, topics=asked, timeout=timeout)
    await rig.clock.run(waits_ms - 10)
    assert client.replies() == []
    await rig.clock.run(20)
    (reply,) = client.replies()
    return [topic.partitions[0].error_code.name for topic in answer(reply, "list_offsets", 11).topics]


async def test_lookups_by_time_wait_for_the_store_side_by_side_and_no_longer_than_the_client_says() -> None:
    rig = tiered_rig(remote_list_offsets_request_timeout_ms="7000")
    rig.workers = HeldLane("remote reads")
    async with rig:
        client = rig.connect()
        for topic in ("t", "u"):
            await create_tiered(rig, topic)
            await append(client, topic, *VALUES)
        await rig.clock.run(10_000)
        assert await ask_times(rig, client, 1_000, 1_000) == ["request_timed_out"] * 2
        assert await ask_times(rig, client, 0, 7_000) == ["request_timed_out"] * 2


async def test_a_fetch_of_many_cold_partitions_keeps_little_in_memory_and_reaches_all_of_them() -> None:
    async with tiered_rig() as rig:
        await rig.create("t", 40, **TOPIC_CONFIG)
        client = rig.connect()
        for index in range(40):
            await append(client, "t", *VALUES[:6], partition=index)
        await rig.clock.run(10_000)
        loads, offsets = tier_of(rig).reader.loads, dict.fromkeys(range(40), 0)
        for _ in range(60):
            client.send("fetch", 12, **fetch([("t", index, offset) for index, offset in offsets.items()], min_bytes=0))
            await rig.clock.run(20)
            (reply,) = client.replies()
            assert len(loads) <= 2 * MOST_COLD
            for one in answer(reply, "fetch", 12).responses[0].partitions:
                assert one.error_code.name == "none"
                for offset, value in records_in(bytes(one.records or b""), offsets[one.partition_index]):
                    assert value == VALUES[offset]
                    offsets[one.partition_index] = offset + 1
        assert set(offsets.values()) == {6}


async def again(rig: Rig, partitions: int) -> Rig:
    """The node, started once more with this count of partitions of the metadata."""
    await rig.stop()
    config = {**rig.config, "rlmm.config.remote.log.metadata.topic.num.partitions": str(partitions)}
    following = Rig(fs=rig.fs, clock=rig.clock, config=config)
    await following.start()
    await following.clock.run(10_000)
    return following


async def test_nothing_is_lost_if_the_topic_of_the_metadata_has_another_count_of_partitions_than_configured() -> None:
    """Each record is in the partition that the count chooses. Kafka does not begin at all then."""
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig, flush_messages="1")
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    rig = await again(rig, partitions=3)
    (told,) = tier_status(tier_of(rig), "t")
    assert (told.severity, told.rule) == ("problem", "tier_metadata_partitions")
    assert told.text == (
        "__remote_log_metadata has 2 partitions, but rlmm.config.remote.log.metadata.topic.num.partitions = 3: nothing "
        "is copied to remote storage, read from it or removed"
    )
    assert (await read_once(rig, rig.connect(), "t", 0)).records == b""
    assert stored(rig)
    rig = await again(rig, partitions=2)
    assert await read_all(rig, rig.connect(), "t") == ALL
    await rig.stop()


async def test_what_tells_of_remote_segments_is_never_remote_itself() -> None:
    """Kafka leaves `remote.storage.enable` of internal topics and of `__remote_log_metadata` without effect, too."""
    rig = tiered_rig()
    await rig.start()
    await create_tiered(rig)
    await rig.clock.run(2_000)
    await rig.configure("__remote_log_metadata", **{**TOPIC_CONFIG, "flush.messages": "1"})
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(10_000)
    assert {name for name, _ in tier_of(rig).partitions} == {"t"}
    following = await rig.crash()
    try:
        assert await read_all(following, following.connect(), "t") == ALL
    finally:
        await following.stop()

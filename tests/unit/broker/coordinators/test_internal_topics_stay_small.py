"""`__consumer_offsets` and `__transaction_state` are compacted, and mean the same afterwards."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.delete_topics.v6.request import DeleteTopicState
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from protocol.records.batch import NO_SEQUENCE
from storage.log.segment_recovery import whole_batches
from storage.log.unified_log import UnifiedLog
from tests.doubles.clock import settle
from tests.doubles.files import Unsynced
from tests.unit.broker.crash_run import Run, committed_offset
from tests.unit.broker.rig import Rig
from tests.unit.broker.transactions import CONFIG, Producer, begun, read

COMMITS = 60


def stored(log: UnifiedLog) -> int:
    """How many records are in the log's files."""
    return sum(
        header.record_count
        for segment in log.segments
        for _, header, _ in whole_batches(segment.file.open(), 0, segment.size)
    )


async def test_internal_topics_are_compacted_and_say_the_same() -> None:
    async with Rig(config=CONFIG | {"log.cleaner.backoff.ms": "100"}) as rig:
        await rig.create("t")
        producer = await begun(rig)
        client = rig.connect()
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        run = Run(set())
        for number in range(COMMITS):
            await run.commit_offset(client, number)
            assert await producer.produce(b"txn %d" % number, 0) == ["none"]
            assert await producer.end(True) == "none"
            await settle()
        logs = [rig.node.replicas.get(name, 0).log for name in ("__consumer_offsets", "__transaction_state")]
        before = [stored(log) for log in logs]
        assert min(before) >= COMMITS
        for log in logs:
            log.roll()
        await run.commit_offset(client, COMMITS)
        assert await producer.produce(b"last", 0) == ["none"]
        assert await producer.end(True) == "none"
        await rig.clock.run(2000)
        assert all(log.cleaned_to for log in logs)
        assert [stored(log) < 10 for log in logs] == [True, True]
        following = await rig.crash(Unsynced.KEPT)
        again = following.connect()
        await again.ask("find_coordinator", 4, key_type=1, coordinator_keys=("tx",))
        await following.clock.run(3000)
        assert await committed_offset(again) == COMMITS
        resumed = Producer(again)
        assert await resumed.init() == "none"
        assert resumed.producer_id == producer.producer_id
        assert b"last" in await read(following, isolation=1)
        await following.stop()


async def test_batches_of_offsets_begin_with_sequence_0_those_of_transactions_have_none_as_in_kafka() -> None:
    async with Rig(config=CONFIG) as rig:
        await rig.create("t")
        await begun(rig)
        client = rig.connect()
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        await Run(set()).commit_offset(client, 1)
        for name, sequence in (("__consumer_offsets", 0), ("__transaction_state", NO_SEQUENCE)):
            segment = rig.node.replicas.get(name, 0).log.segments.active
            found = [header for _, header, _ in whole_batches(segment.file.open(), 0, segment.size)]
            assert {header.base_sequence for header in found} == {sequence}


async def test_topics_deleted_together_leave_one_batch_of_tombstones() -> None:
    async with Rig(config=CONFIG) as rig:
        client = rig.connect()
        for topic in ("t", "u"):
            await rig.create(topic)
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        places = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=""),
                ),
            )
            for topic in ("t", "u")
        )
        await client.ask(
            "offset_commit", 8, group_id="readers", generation_id_or_member_epoch=-1, member_id="", topics=places
        )
        log = rig.node.replicas.get("__consumer_offsets", 0).log
        end = log.log_end_offset
        named = tuple(DeleteTopicState(name=topic, topic_id=None) for topic in ("t", "u"))
        await client.ask("delete_topics", 6, topics=named, timeout=timedelta(seconds=30))
        await settle()
        segment = log.segments.active
        batches = [header for _, header, _ in whole_batches(segment.file.open(), 0, segment.size)]
        assert [header.record_count for header in batches if header.base_offset >= end] == [2]

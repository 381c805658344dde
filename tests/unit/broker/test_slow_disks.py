"""Devices that hang or take half a minute: what has to wait for them, and what does not. In virtual time."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic

from broker.background import Stopped
from protocol.records.build import Record, build_batch
from tests.doubles.clock import ManualClock, settle
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce
from tests.unit.slow_disk import SlowDisk, SlowWorkers

MANY = 10
HALF_A_MINUTE = 30_000
PERIODS = {
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
}


class SlowRig(Rig):
    """A node on a disk that can be slow; topic `flushed` acknowledges what is on the device, `plain` does not ask."""

    def __init__(self, **config: str) -> None:
        clock = ManualClock()
        fs = MemoryFileSystem(clock.wall_ms)
        self.disk = SlowDisk(fs, clock)
        config["offsets.topic.num.partitions"] = "1"
        super().__init__(fs=fs, clock=clock, workers=SlowWorkers(self.disk), config=config)

    async def start(self) -> None:
        await super().start()
        await self.create("flushed", MANY, flush_messages="1")
        await self.create("plain", 2)
        client = self.connect()
        assert await written(client, "plain") == "none"
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("g",))  # makes the internal topic
        await self.clock.run(100)
        assert await committed(client) == "none"
        self.disk.stalls.clear()  # of the start


async def written(client: Client, topic: str, index: int = 0, **options: Any) -> str:
    done = await client.ask("produce", 9, **produce(topic, {index: batch(b"value")}, **options))
    return str(done.responses[0].partition_responses[0].error_code.name)


async def committed(client: Client) -> str:
    partitions = (
        OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=None
        ),
    )
    done = await client.ask(
        "offset_commit",
        9,
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=(OffsetCommitRequestTopic(name="plain", partitions=partitions),),
    )
    return str(done.topics[0].partitions[0].error_code.name)


async def high_watermark(client: Client, topic: str, index: int = 0) -> int:
    done = await client.ask("fetch", 12, **fetch([(topic, index, 0)], max_wait_ms=0))
    (one,) = done.responses[0].partitions
    assert one.error_code.name == "none"
    return int(one.high_watermark)


async def answered(client: Client, api: str, version: int) -> list[Any]:
    await settle()
    return [answer(one, api, version) for one in client.replies()]


def errors(responses: Sequence[Any]) -> list[str]:
    return [one.responses[0].partition_responses[0].error_code.name for one in responses]


async def all_else_goes_on(rig: SlowRig) -> None:
    """Without any time passing: everything here is answered at once."""
    client = rig.connect()
    before = await high_watermark(client, "plain")
    assert await written(client, "plain") == "none"
    assert await high_watermark(client, "plain") == before + 1
    assert await committed(client) == "none"
    told = await client.ask(
        "metadata", 12, topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert {"plain", "flushed"} <= {one.name for one in told.topics}
    named = await client.ask("init_producer_id", 4, transactional_id=None, transaction_timeout=timedelta(minutes=1))
    assert named.error_code.name == "none"


@pytest.fixture
async def rig() -> AsyncIterator[SlowRig]:
    async with SlowRig() as rig:
        yield rig
        rig.disk.release()


async def test_who_asks_for_a_topic_does_not_wait_until_it_is_made(rig: SlowRig) -> None:
    async def asked() -> str:
        topics = (MetadataRequestTopic(topic_id=None, name="new"),)
        told = await rig.connect().ask(
            "metadata", 12, topics=topics, allow_auto_topic_creation=True, include_topic_authorized_operations=False
        )
        return str(told.topics[0].error_code.name)

    rig.disk.slow("fdatasync", "/__cluster_metadata-0/")
    assert [await asked() for _ in range(3)] == ["unknown_topic_or_partition"] * 3
    assert len(rig.disk.hanging) == 1
    assert await written(rig.connect(), "plain") == "none"
    rig.disk.release()
    await rig.clock.run(0)
    assert await asked() == "none"


@pytest.mark.parametrize("partitions", [1, MANY])
async def test_a_flush_that_hangs_holds_up_its_own_acknowledgements_alone(rig: SlowRig, partitions: int) -> None:
    rig.disk.slow("fdatasync", "/flushed-")
    waiting = [rig.connect() for _ in range(partitions)]
    for index, client in enumerate(waiting):
        client.send("produce", 9, **produce("flushed", {index: batch(b"value")}))
    await settle()
    assert rig.disk.hanging
    await all_else_goes_on(rig)
    assert await high_watermark(rig.connect(), "flushed") == 0
    await rig.clock.run(20_000)
    await all_else_goes_on(rig)
    assert [client.replies() for client in waiting] == [[]] * partitions
    rig.disk.release()
    await rig.clock.run(0)
    for client in waiting:
        assert errors(await answered(client, "produce", 9)) == ["none"]
    assert await high_watermark(rig.connect(), "flushed") == 1
    assert rig.disk.stalls == []


async def test_a_flush_of_half_a_minute_is_waited_for_and_one_more_covers_who_came_meanwhile(rig: SlowRig) -> None:
    rig.disk.slow("fdatasync", ".log", HALF_A_MINUTE)
    syncs = rig.fs.operations["fdatasync"]
    first, later = rig.connect(), rig.connect()
    first.send("produce", 9, **produce("flushed", {0: batch(b"a")}, timeout_ms=200_000))
    await rig.clock.run(10_000)
    for _ in range(3):
        later.send("produce", 9, **produce("flushed", {0: batch(b"b")}, timeout_ms=200_000))
    await rig.clock.run(HALF_A_MINUTE - 10_000 - 1)
    assert first.replies() == []
    await rig.clock.run(1)
    assert errors(await answered(first, "produce", 9)) == ["none"]
    await rig.clock.run(HALF_A_MINUTE - 1)
    assert later.replies() == []
    await rig.clock.run(1)
    assert errors(await answered(later, "produce", 9)) == ["none"] * 3
    assert rig.fs.operations["fdatasync"] - syncs <= 5  # two of the log, the others of checkpoints
    assert rig.disk.stalls == []


async def test_who_does_not_want_to_wait_so_long_is_told_and_the_record_comes_later(rig: SlowRig) -> None:
    rig.disk.slow("fdatasync", "/flushed-", HALF_A_MINUTE)
    client = rig.connect()
    client.send("produce", 9, **produce("flushed", {0: batch(b"a")}, timeout_ms=5_000))
    await rig.clock.run(5_100)
    assert errors(await answered(client, "produce", 9)) == ["request_timed_out"]
    assert await high_watermark(client, "flushed") == 0
    await rig.clock.run(HALF_A_MINUTE)
    assert await high_watermark(client, "flushed") == 1


async def test_a_flush_that_fails_after_half_a_minute_fails_who_waited_and_takes_the_log_offline(rig: SlowRig) -> None:
    rig.disk.slow("fdatasync", "/flushed-0/", HALF_A_MINUTE)
    rig.fs.inject(Fault("fdatasync", 1, errno.EIO, path_part="/flushed-0/"))
    client, later = rig.connect(), rig.connect()
    client.send("produce", 9, **produce("flushed", {0: batch(b"a")}, timeout_ms=100_000))
    await rig.clock.run(HALF_A_MINUTE - 1)
    later.send("produce", 9, **produce("flushed", {0: batch(b"b")}, timeout_ms=100_000))
    await all_else_goes_on(rig)
    assert client.replies() == later.replies() == []
    await rig.clock.run(1)
    for one in (client, later):
        assert errors(await answered(one, "produce", 9)) == ["kafka_storage_error"]
    assert await written(client, "flushed") == "kafka_storage_error"
    assert rig.node.replicas.stopping is False


@pytest.mark.parametrize("short", [0, 7])
async def test_a_full_disk_beside_a_flush_that_hangs(rig: SlowRig, short: int) -> None:
    """Short writes first, then none: what was appended before is acknowledged by its flush, what was refused never."""
    rig.disk.slow("fdatasync", "/flushed-0/")
    client, refused, after = (rig.connect() for _ in range(3))
    client.send("produce", 9, **produce("flushed", {0: batch(b"kept", b"kept too")}))
    await settle()
    if short:
        rig.fs.inject(Fault("pwrite", 1, taken=short, path_part="/flushed-0/"))
    rig.fs.inject(Fault("pwrite", 1, errno.ENOSPC, path_part="/flushed-0/"))
    assert await written(refused, "flushed") == "kafka_storage_error"
    assert client.replies() == []
    for number in range(1, 4):
        rig.fs.inject(Fault("pwrite", number, taken=9, path_part="/flushed-0/"))
    after.send("produce", 9, **produce("flushed", {0: batch(b"next")}))
    await settle()
    assert after.replies() == []
    rig.disk.release()
    await rig.clock.run(0)
    assert errors(await answered(client, "produce", 9)) == errors(await answered(after, "produce", 9)) == ["none"]
    assert await high_watermark(client, "flushed") == 3
    assert rig.disk.stalls == []


async def test_reads_of_cold_data_that_hang_hold_up_those_alone(rig: SlowRig) -> None:
    readers = [rig.connect() for _ in range(MANY)]
    for index in range(MANY):
        assert await written(readers[0], "flushed", index) == "none"
    rig.disk.slow("pread", "/flushed-")
    rig.fs.page_cache_cold = True
    for index, client in enumerate(readers):
        client.send("fetch", 12, **fetch([("flushed", index, 0)]))
    await settle()
    assert len(rig.disk.hanging) == 4
    rig.fs.page_cache_cold = False
    await all_else_goes_on(rig)
    assert await written(rig.connect(), "flushed") == "none"
    await rig.clock.run(20_000)
    await all_else_goes_on(rig)
    assert [client.replies() for client in readers] == [[]] * MANY
    rig.disk.release()
    await rig.clock.run(0)
    for client in readers:
        (done,) = await answered(client, "fetch", 12)
        assert done.responses[0].partitions[0].records is not None
    assert rig.disk.stalls == []


async def test_checkpoints_that_hang_hold_nothing_up() -> None:
    async with SlowRig(**PERIODS) as rig:
        client = rig.connect()
        rig.disk.slow("fdatasync", "offset-checkpoint")
        assert await written(client, "flushed", 1) == "none"
        await rig.clock.run(20_000)
        assert rig.disk.hanging
        await all_else_goes_on(rig)
        await rig.create("another")
        assert await written(client, "another") == "none"
        assert await written(client, "flushed", 1) == "none"
        await rig.delete("another")
        assert rig.disk.stalls == []
        rig.disk.release()
        await rig.clock.run(0)


async def test_a_removal_of_segments_that_hangs_does_not_hold_up_the_deletion_of_the_topic() -> None:
    async with SlowRig(**{"log.retention.check.interval.ms": "1000"}) as rig:
        await rig.create("short", retention_ms="1000")
        client = rig.connect()
        assert await written(client, "short") == "none"
        rig.disk.slow("fsync_dir", "/short-0")
        await rig.clock.run(5_000)
        assert set(rig.disk.hanging) == {"fsync_dir /data/short-0"}
        await rig.delete("short")
        await all_else_goes_on(rig)
        rig.disk.release()
        await rig.create("short")
        assert await written(client, "short") == "none"
        await rig.clock.run(120_000)
        assert await high_watermark(client, "short") == 1
        assert rig.disk.stalls == []


async def test_a_move_to_a_slow_folder_does_not_hold_up_the_partition() -> None:
    async with SlowRig(**{"log.dirs": "/data,/slow"}) as rig:
        partition = rig.node.replicas.get("plain", 0)
        assert partition is not None
        here = partition.log.folder.rpartition("/")[0]
        there = "/slow" if here == "/data" else "/data"
        client = rig.connect()
        before = await high_watermark(client, "plain")
        rig.disk.slow("fdatasync", f"{there}/plain-0", 700)
        rig.disk.slow("fsync_dir", "", 700)
        topics = (AlterReplicaLogDirTopic(name="plain", partitions=(0,)),)
        client.send("alter_replica_log_dirs", 2, dirs=(AlterReplicaLogDir(path=there, topics=topics),))
        seconds = 0
        while ("plain", 0) in rig.node.replicas.logs.moving or not seconds:
            assert await written(rig.connect(), "plain") == "none"
            await rig.clock.run(100)
            seconds += 1
        assert seconds > 20
        assert partition.log.folder == f"{there}/plain-0"
        assert await high_watermark(rig.connect(), "plain") == before + seconds
        assert rig.disk.stalls == []


# -- stopping


async def stop(rig: SlowRig) -> tuple[Stopped, float]:
    """How it went, and after how many milliseconds."""
    began = rig.clock.monotonic_ms()
    found: list[Stopped] = []
    node_stop = rig.node.stop

    async def noted() -> Stopped:
        found.append(await node_stop())
        return found[0]

    rig.node.stop = noted
    await rig.stop()
    return found[0], rig.clock.monotonic_ms() - began


HANGS = {
    "flush": ("fdatasync", "/flushed-0/"),
    "checkpoint": ("fdatasync", "offset-checkpoint"),
    "cleaner": ("pread", "/compacted-0/"),
    "clean mark": ("fdatasync", "cleanshutdown"),
}


@pytest.mark.parametrize("what", HANGS)
async def test_a_stop_while_a_device_hangs_ends_all_the_same(what: str) -> None:
    rig = SlowRig(**PERIODS, **{"log.cleaner.backoff.ms": "1000"})
    await rig.start()
    await rig.create("compacted", cleanup_policy="compact", segment_ms="1", min_cleanable_dirty_ratio="0.01")
    client = rig.connect()
    for number in range(3):
        keyed = bytes(build_batch([Record(0, rig.clock.wall_ms(), b"key", b"%d" % number)]))
        done = await client.ask("produce", 9, **produce("compacted", {0: keyed}))
        assert errors([done]) == ["none"]
        await rig.clock.run(10)
    assert await written(client, "flushed") == "none"
    rig.disk.slow(*HANGS[what])
    waiting = rig.connect()
    waiting.send("produce", 9, **produce("flushed", {0: batch(b"perhaps")}))
    await rig.clock.run(3_000)
    stopped, took_ms = await stop(rig)
    assert stopped is Stopped.STUCK
    assert took_ms < 45_000
    assert rig.disk.hanging
    acknowledged = 1 + errors(await answered(waiting, "produce", 9)).count("none")
    rig.fs.hook = None
    after = await Rig(fs=rig.fs, clock=rig.clock, seed=5).crash()
    assert await high_watermark(after.connect(), "flushed") >= acknowledged
    await after.stop()


async def test_a_stop_on_a_slow_disk_takes_the_time_it_needs() -> None:
    rig = SlowRig()
    await rig.start()
    client = rig.connect()
    for index in range(MANY):
        assert await written(client, "flushed", index) == "none"
    rig.disk.slow("fdatasync", ".log", 20_000)
    stopped, took_ms = await stop(rig)
    assert stopped is Stopped.CLEAN
    assert took_ms > 40_000
    async with Rig(fs=rig.fs, clock=rig.clock, seed=5) as after:
        assert await high_watermark(after.connect(), "flushed") == 1

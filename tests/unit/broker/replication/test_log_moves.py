"""Moves between log folders as a client sees them."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDir, AlterReplicaLogDirTopic
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from structlog.testing import capture_logs

from broker.background import Stopped
from broker.node import RETRY_MS
from storage.folders.log_move import LogMove
from tests.doubles.clock import settle
from tests.doubles.files import Fault, Unsynced
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce

FOLDERS = {"log.dirs": "/one,/two,/three", "log.retention.check.interval.ms": "1000"}


async def move(client: Client, path: str, topic: str = "t", index: int = 0) -> str:
    wanted = AlterReplicaLogDir(path=path, topics=(AlterReplicaLogDirTopic(name=topic, partitions=(index,)),))
    done = await client.ask("alter_replica_log_dirs", 2, dirs=(wanted,))
    return str(done.results[0].partitions[0].error_code.name)


async def append(client: Client, value: bytes) -> str:
    done = await client.ask("produce", 9, **produce("t", {0: batch(value)}))
    return str(done.responses[0].partition_responses[0].error_code.name)


async def values(client: Client) -> int:
    done = await client.ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0))
    (one,) = done.responses[0].partitions
    assert one.error_code.name == "none"
    return int(one.high_watermark)


async def where(client: Client) -> list[tuple[str, bool, int]]:
    done = await client.ask("describe_log_dirs", 4, topics=None)
    return [
        (one.log_dir, partition.is_future_key, partition.offset_lag)
        for one in done.results
        for topic in one.topics
        for partition in topic.partitions
    ]


async def test_a_partition_moves_while_it_is_written_to_and_read() -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t")
        client = rig.connect()
        for _ in range(3):
            assert await append(client, b"before") == "none"
        moving, other = rig.connect(), rig.connect()
        wanted = AlterReplicaLogDir(path="/two", topics=(AlterReplicaLogDirTopic(name="t", partitions=(0,)),))
        moving.send("alter_replica_log_dirs", 2, dirs=(wanted,))
        other.send("describe_log_dirs", 4, topics=None)
        moving.send("produce", 9, **produce("t", {0: batch(b"meanwhile")}))
        await settle()
        assert len(moving.replies()) == 2
        assert await where(client) == [("/two", False, 0)]
        assert await append(client, b"after") == "none"
        assert await values(client) == 5
        assert await move(client, "/two") == "none"
        assert await where(client) == [("/two", False, 0)]
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as again:
        client = again.connect()
        assert await values(client) == 5
        assert await where(client) == [("/two", False, 0)]
        assert again.fs.exists("/two/t-0")


async def test_the_copy_is_told_of_while_it_grows() -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t")
        client = rig.connect()
        await append(client, b"before")
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        partition.log.removal.unsynced += 1  # so that it waits
        assert await move(client, "/two") == "none"
        assert await where(client) == [("/one", False, 0), ("/two", True, 1)]
        assert await move(client, "/two") == "none"
        assert await move(client, "/three") == "none"
        assert await where(client) == [("/one", False, 0), ("/three", True, 1)]
        assert await move(client, "/one") == "none"
        assert await where(client) == [("/one", False, 0)]
        partition.log.removal.unsynced -= 1
        await rig.clock.run(1000)
        assert await where(client) == [("/one", False, 0)]
        assert [name for name in rig.fs.listdir("/two") if name.startswith("t-")] == []


async def test_a_truncation_does_not_wait_for_the_turn_of_a_move_that_has_not_begun() -> None:
    """The follower's fetcher would wait, with all its partitions, until another partition has moved."""
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        first, second = (rig.node.replicas.find("t", index).log for index in range(2))
        first.removal.unsynced += 1  # so that its move waits
        assert [await move(client, "/three", index=index) for index in range(2)] == ["none", "none"]
        moves = rig.node.replicas.moves
        stopping = asyncio.ensure_future(moves.stop_moving(second))
        await settle()
        assert stopping.done()
        assert stopping.result() == "/three"
        moves.move_again(second, "/three")
        first.removal.unsynced -= 1
        await rig.clock.run(1000)
        assert {(one, is_future) for one, is_future, _ in await where(client)} == {("/three", False)}


@pytest.mark.parametrize("folder", ["", "/one/", "/two/"])
async def test_records_deleted_during_a_move_stay_deleted(folder: str) -> None:
    """Wherever the start takes it from, and unless the client was told otherwise."""
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t")
        client, other = rig.connect(), rig.connect()
        for _ in range(3):
            assert await append(client, b"before") == "none"

        def delete_meanwhile(operation: str, path: str) -> None:
            if operation == "pwrite" and path.startswith("/two/t-0") and path.endswith(".log"):
                rig.fs.hook = None
                if folder:
                    rig.fs.inject(Fault("open", 1, errno.EIO, path_part=f"{folder}log-start-offset-checkpoint"))
                places = (DeleteRecordsPartition(partition_index=0, offset=2),)
                topics = (DeleteRecordsTopic(name="t", partitions=places),)
                other.send("delete_records", 2, topics=topics, timeout=timedelta(seconds=1))

        rig.fs.hook = delete_meanwhile
        assert await move(client, "/two") == "none"
        (told,) = [answer(reply, "delete_records", 2) for reply in other.replies()]
        assert told.topics[0].partitions[0].error_code.name == ("kafka_storage_error" if folder else "none")
        assert rig.node.replicas.logs.failed_folders == ({folder.rstrip("/")} if folder else set())
        disk = rig.fs.copy()
    if not folder:
        disk.crash(Unsynced.LOST)
        async with Rig(fs=disk, clock=rig.clock, seed=2, config=FOLDERS) as again:
            log = again.node.replicas.logs.get("t", 0)
            assert log is not None
            assert (log.folder, log.log_start_offset) == ("/two/t-0", 2)


async def test_a_stop_gives_a_move_up() -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t")
        client = rig.connect()
        await append(client, b"before")
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        partition.log.removal.unsynced += 1
        assert await move(client, "/two") == "none"
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as again:
        assert await where(again.connect()) == [("/one", False, 0)]
        assert await values(again.connect()) == 1


async def test_nothing_is_moved_to_or_beside_a_folder_that_failed() -> None:
    async with Rig(config=FOLDERS) as rig:
        for topic in ("t", "u"):
            await rig.create(topic)
        client = rig.connect()
        rig.fs.inject(Fault("pwrite", 1, errno.EIO, path_part="/two/"))
        done: Any = await client.ask("produce", 9, **produce("u", {0: batch(b"lost")}))
        assert done.responses[0].partition_responses[0].error_code.name == "kafka_storage_error"
        for path, topic in (("/two", "t"), ("/three", "t"), ("/three", "u")):
            assert await move(client, path, topic) == "kafka_storage_error"
        assert await move(client, "/one") == "none"
        assert await where(client) == [("/one", False, 0)]


async def test_a_stop_does_not_wait_for_a_move_that_waits_for_room() -> None:
    rig = Rig(config=FOLDERS | {"log.flush.interval.messages": "1"})
    await rig.start()
    await rig.create("t")
    await append(rig.connect(), b"a")
    here = rig.node.replicas.logs.get("t", 0).folder.rpartition("/")[0]

    def full(operation: str, path: str) -> None:
        if operation == "rename" and path == f"{here}/t-0":
            raise OSError(errno.ENOSPC, "no space left", path)

    rig.fs.hook = full
    assert await move(rig.connect(), "/two" if here != "/two" else "/one") == "none"
    await rig.clock.run(10_000)
    stopping = asyncio.ensure_future(rig.node.stop())
    await rig.clock.run(5_000)
    assert stopping.done()
    assert await stopping is Stopped.CLEAN
    rig.fs.hook = None
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=rig.config) as following:
        assert await values(following.connect()) == 1


async def test_a_move_that_meets_something_unforeseen_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        run = LogMove.run

        async def fail_for_the_first(one: LogMove) -> None:
            if one.log.partition == 0:
                raise RuntimeError("a bug")
            await run(one)

        monkeypatch.setattr(LogMove, "run", fail_for_the_first)
        with capture_logs() as lines:
            assert [await move(client, "/three", index=index) for index in range(2)] == ["none", "none"]
            await settle()
        assert [line["partition"] for line in lines if line["log_level"] == "error"] == ["t-0"]
        assert [line["partition"] for line in lines if line["event"] == "partition moved"] == ["t-1"]


async def test_a_partition_that_is_still_to_come_is_made_in_the_folder_that_was_named() -> None:
    async with Rig(config=FOLDERS) as rig:
        client = rig.connect()
        for path in ("/two", "/three"):  # the last one counts
            assert await move(client, path, index=1) == "unknown_topic_or_partition"
        await rig.create("t", 4)
        assert rig.node.replicas.logs.get("t", 1).folder == "/three/t-1"
        assert Counter(one.folder.rpartition("/")[0] for one in rig.node.replicas.logs.logs.values()) == {
            "/one": 2,
            "/two": 1,
            "/three": 1,
        }


async def test_a_folder_that_failed_is_preferred_by_nobody() -> None:
    async with Rig(config=FOLDERS) as rig:
        client = rig.connect()
        assert await move(client, "/three") == "unknown_topic_or_partition"
        rig.node.replicas.logs.fail_folder(rig.node.replicas.logs.log_dir("/three"), OSError(errno.EIO, "gone"))
        assert await move(client, "/three") == "kafka_storage_error"
        await rig.create("t")
        assert rig.node.replicas.logs.get("t", 0).folder == "/one/t-0"


async def test_a_log_that_could_not_be_made_is_made_in_the_preferred_folder_later() -> None:
    async with Rig(config=FOLDERS) as rig:
        client = rig.connect()
        assert await move(client, "/three") == "unknown_topic_or_partition"
        rig.fs.open("/three/t-0", create=True).close()  # where its folder would be
        await rig.create("t")
        assert rig.node.replicas.logs.get("t", 0) is None
        rig.fs.unlink("/three/t-0")
        await rig.clock.run(RETRY_MS)
        assert rig.node.replicas.logs.get("t", 0).folder == "/three/t-0"

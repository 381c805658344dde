"""DeleteRecords on a full disk, and on one that fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import timedelta

import pytest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic

from tests.doubles.files import Fault
from tests.unit.broker.asking import append, create
from tests.unit.broker.rig import Client, Rig


async def delete(client: Client, offset: int) -> tuple[str, int]:
    asked = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=offset),))
    done = await client.ask("delete_records", 2, topics=(asked,), timeout=timedelta(seconds=1))
    (partition,) = done.topics[0].partitions
    return partition.error_code.name, partition.low_watermark


async def test_it_may_be_asked_again_when_there_is_room() -> None:
    async with Rig() as rig:
        client = rig.connect()
        assert await create(client, "t", 1) == "none"
        assert [await append(client, "t", 0) for _ in range(3)] == ["none"] * 3
        rig.fs.inject(Fault("open", 1, errno.ENOSPC, path_part="log-start-offset-checkpoint"))
        assert await delete(client, 2) == ("kafka_storage_error", -1)
        assert await append(client, "t", 0) == "none"
        assert await delete(client, 2) == ("none", 2)


async def test_a_folder_whose_checkpoint_cannot_be_written_takes_its_own_partitions_offline_alone() -> None:
    async with Rig(config={"log.dirs": "/one,/two"}) as rig:
        client = rig.connect()
        assert await create(client, "t", 2) == "none"
        for index in range(2):
            assert await append(client, "t", index) == "none"
        rig.fs.inject(Fault("open", 1, errno.EINVAL, path_part="/two/log-start-offset-checkpoint"))
        places = tuple(DeleteRecordsPartition(partition_index=index, offset=1) for index in range(2))
        asked = DeleteRecordsTopic(name="t", partitions=places)
        done = await client.ask("delete_records", 2, topics=(asked,), timeout=timedelta(seconds=1))
        told = {one.partition_index: one.error_code.name for one in done.topics[0].partitions}
        folders = {}
        for index in range(2):
            partition = rig.node.replicas.get("t", index)
            assert partition is not None
            folders[index] = partition.log.folder.rpartition("/")[0]
        assert sorted(folders.values()) == ["/one", "/two"]
        for index, folder in folders.items():
            expected = "none" if folder == "/one" else "kafka_storage_error"
            assert told[index] == expected
            assert await append(client, "t", index) == expected


async def test_a_folder_that_fails_meanwhile_has_no_part_in_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written to it any more."""
    async with Rig(config={"log.dirs": "/one,/two"}) as rig:
        client = rig.connect()
        assert await create(client, "t", 2) == "none"
        assert await append(client, "t", 0) == "none"
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        call = rig.workers.call

        async def fail_first(work: Callable[[], None]) -> None:
            assert partition is not None
            partition.log.fail(OSError(errno.EIO, "another thread found out"))
            await call(work)

        monkeypatch.setattr(rig.workers, "call", fail_first)
        assert await delete(client, 1) == ("kafka_storage_error", -1)
        monkeypatch.undo()

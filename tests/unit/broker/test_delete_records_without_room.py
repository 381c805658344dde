"""DeleteRecords on a full disk."""

from __future__ import annotations

import errno
from datetime import timedelta

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic

from storage.memory_files import Fault
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.test_partition_hosting import append, create


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

"""A partition as a coordinator's log."""

from __future__ import annotations

import asyncio
import errno

import pytest

from broker.coordinators.hosted import PartitionCoordinatorLog
from protocol.errors import CorruptMessage, KafkaStorage
from storage.log.log_services import DESCRIPTORS_RETRY_MS
from tests.doubles.files import Fault
from tests.unit.broker.rig import Rig
from tests.unit.broker.wire import batch, produce


async def test_a_log_that_goes_offline_while_it_is_read_is_not_read_to_its_end() -> None:
    """Its high watermark will not rise: what a coordinator answers would wait for ever."""
    async with Rig() as rig:
        await rig.create("t")
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        pieces = PartitionCoordinatorLog(partition, rig.clock, 1024).batches()
        assert len(await anext(pieces)) == len(batch(b"a"))
        partition.log.fail(OSError(errno.EIO, "the device is gone"))
        with pytest.raises(KafkaStorage):
            await anext(pieces)


async def test_a_log_that_ends_inside_a_batch_is_not_taken_for_whole() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        partition.log.segments.active.file.open().truncate(len(batch(b"a")) - 1)
        with pytest.raises(CorruptMessage):
            await anext(PartitionCoordinatorLog(partition, rig.clock, 1024).batches())


async def test_a_log_is_read_once_there_is_a_free_descriptor() -> None:
    async with Rig() as rig:
        await rig.create("t")
        await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"a")}))
        partition = rig.node.replicas.get("t", 0)
        assert partition is not None
        partition.log.release_files()
        rig.fs.inject(Fault("open", 1, errno.EMFILE, path_part=".log"))
        piece = asyncio.ensure_future(anext(PartitionCoordinatorLog(partition, rig.clock, 1024).batches()))
        await _turns()
        assert not piece.done()
        rig.clock.advance(DESCRIPTORS_RETRY_MS)
        await _turns()
        assert len(piece.result()) == len(batch(b"a"))


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)

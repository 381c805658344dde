"""The power fails before each operation of a metadata log's life, and again after the next start."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.controller.quorum.support import Process, config_record, made_root, numbers
from tests.unit.storage.support import NOW, READS

CONFIG = MetadataLogConfig(segment_bytes=600)


@dataclass(frozen=True)
class Moment:
    """The disk before a change, the numbers that were appended by then, and how many of them were acknowledged."""

    disk: MemoryFileSystem
    appended: list[int]
    acknowledged: int


class Story:
    """Two lives of a process that appends records in pairs and writes snapshots; `moments` are before each change."""

    def __init__(self) -> None:
        self.fs = made_root(MemoryFileSystem())
        self.clock = ManualClock(NOW)
        self.appended: list[int] = []
        self.acknowledged = 0
        self.moments: list[Moment] = []
        self.fs.hook = self.before

    def before(self, operation: str, _: str) -> None:
        if operation not in READS:
            self.moments.append(Moment(self.fs.copy(), list(self.appended), self.acknowledged))

    def tell(self) -> list[Moment]:
        for _ in range(2):
            process = Process(self.fs, self.clock, CONFIG)
            life = process.loop.create_task(self.live(process.log))
            process.settle()
            life.result()
            process.end()
        return self.moments

    async def live(self, log: MetadataLog) -> None:
        await log.lead()
        for at in range(12):
            pair = [len(self.appended), len(self.appended) + 1]
            self.appended += pair
            await log.durable(log.append(map(config_record, pair)))
            self.acknowledged = len(self.appended)
            if at % 4 == 3:
                records = list(map(config_record, self.appended))
                await log.write_snapshot(log.durable_end, log.epoch, self.clock.wall_ms(), records)
        await log.close()


def survived(fs: MemoryFileSystem) -> list[int]:
    process = Process(fs, config=CONFIG)
    try:
        return [number for batch in process.log.batches() for number in numbers(batch.records)]
    finally:
        process.end()


@pytest.mark.long
@pytest.mark.parametrize(("unsynced", "seed"), [(None, 0), *((each, 0) for each in Unsynced), (Unsynced.ANY, 1)])
def test_at_any_operation_the_power_may_fail(unsynced: Unsynced | None, seed: int) -> None:
    """Or only the process ends; but what the next start has shown is there after a power failure too."""
    moments = Story().tell()
    for number, moment in enumerate(moments):
        disk = moment.disk
        if unsynced is not None:
            disk.crash(unsynced, seed + number)
        found = survived(disk)
        assert len(found) % 2 == 0
        assert found == moment.appended[: len(found)]
        assert len(found) >= moment.acknowledged
        disk.crash(Unsynced.LOST)
        assert survived(disk) == found
    assert len(moments) > 100

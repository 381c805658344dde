"""The power fails before each operation of a metadata log's life, and again after the next start."""

from __future__ import annotations

import pytest

from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.controller.quorum.support import Process, config_record, made_root, numbers
from tests.unit.storage.support import NOW, MachineStopped, stop_after

CONFIG = MetadataLogConfig(segment_bytes=600)


class Story:
    """Two starts, appends of two records each, and snapshots; `known` was acknowledged."""

    def __init__(self, fs: MemoryFileSystem) -> None:
        self.fs = fs
        self.clock = ManualClock(NOW)
        self.appended: list[int] = []
        self.known = 0

    def tell(self) -> bool:
        """The whole story, true if it came to its end before the machine did."""
        for _ in range(2):
            try:
                process = Process(self.fs, self.clock, CONFIG)
            except MachineStopped:
                return False
            life = process.loop.create_task(self.live(process.log))
            process.settle()
            whole = life.done() and life.exception() is None
            process.end()
            if not whole:
                return False
        return True

    async def live(self, log: MetadataLog) -> None:
        await log.lead()
        for at in range(12):
            pair = [len(self.appended), len(self.appended) + 1]
            self.appended += pair
            await log.durable(log.append(map(config_record, pair)))
            self.known = len(self.appended)
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


@pytest.mark.parametrize(("unsynced", "seed"), [(None, 0), *((each, 0) for each in Unsynced), (Unsynced.ANY, 1)])
def test_at_any_operation_the_power_may_fail(unsynced: Unsynced | None, seed: int) -> None:
    """Or only the process ends; but what the next start has shown is there after a power failure too."""
    whole, number = False, 0
    while not whole:
        fs = made_root(MemoryFileSystem())
        fs.hook = stop_after(number)
        story = Story(fs)
        whole = story.tell()
        fs.hook = None
        if unsynced is not None:
            fs.crash(unsynced, seed + number)
        found = survived(fs)
        assert len(found) % 2 == 0
        assert found == story.appended[: len(found)]
        assert len(found) >= story.known
        fs.crash(Unsynced.LOST)
        assert survived(fs) == found
        number += 1
    assert number > 100

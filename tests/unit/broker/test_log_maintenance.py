"""What is done to the logs from time to time, in virtual time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.log_maintenance import LogMaintenance
from broker.partition import Partition
from broker.periodic import Periodic
from protocol.errors import OffsetOutOfRange, PolicyViolation
from storage.append_types import LogConfig
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, batch

PERIODS = {
    "log.retention.check.interval.ms": 300_000,
    "log.flush.scheduler.interval.ms": 2**63 - 1,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "replica.high.watermark.checkpoint.interval.ms": 5_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}


def checkpoint(rig: Rig, name: str) -> list[str]:
    path = f"/data/{name}"
    if not rig.fs.exists(path):
        return []
    file = rig.fs.open(path)
    return file.pread(1000, 0).decode().splitlines()[2:]


class Hosted:
    """Partitions of one rig, maintained in periods of their own."""

    def __init__(self, **config: object) -> None:
        self.rig = Rig(config=LogConfig(**config))  # type: ignore[arg-type]
        self.log = self.rig.log()
        self.partition = Partition("t", TOPIC_ID, 0, self.log, 0, lambda _: None)
        self.periodic = Periodic(self.rig.clock)

    async def start(self, **periods: int) -> None:
        partitions: Any = {("t", 0): self.partition}
        found = type(
            "Found", (), {"get": lambda _, *key: partitions.get(key), "__iter__": lambda _: iter(partitions.values())}
        )()
        config = SimpleNamespace(integer=lambda key: (PERIODS | periods)[key])
        LogMaintenance(self.rig.manager, cast(Any, found)).start(cast(Any, config), self.periodic)

    async def pass_ms(self, delay_ms: float) -> None:
        self.rig.clock.advance(delay_ms)
        for _ in range(20):
            await asyncio.sleep(0)
            self.rig.clock.advance(0)
            self.rig.workers.run_all()


async def test_retention_comes_every_five_minutes() -> None:
    hosted = Hosted(retention_ms=1000, file_delete_delay_ms=1)
    append(hosted.log, batch(timestamp=NOW))
    await hosted.start()
    await hosted.pass_ms(299_999)
    assert hosted.log.log_start_offset == 0
    await hosted.pass_ms(1)
    assert hosted.log.log_start_offset == 1
    append(hosted.log, batch(timestamp=NOW))
    await hosted.pass_ms(300_000)
    assert hosted.log.log_start_offset == 2


async def test_compacted_logs_are_left_to_the_cleaner() -> None:
    hosted = Hosted(retention_ms=1000)
    append(hosted.log, batch(timestamp=NOW))
    hosted.log.config = LogConfig(retention_ms=1000, compact=True)
    await hosted.start()
    await hosted.pass_ms(300_000)
    assert hosted.log.log_start_offset == 0


async def test_records_not_yet_below_the_high_watermark_stay() -> None:
    hosted = Hosted(retention_ms=1000, flush_messages=1)
    append(hosted.log, batch(timestamp=NOW))
    hosted.rig.workers.drop_all()
    await hosted.start()
    hosted.rig.clock.advance(300_000)
    await asyncio.sleep(0)
    assert hosted.partition.high_watermark == 0
    assert hosted.log.log_start_offset == 0


async def test_idle_producers_are_forgotten() -> None:
    hosted = Hosted()
    append(hosted.log, batch(timestamp=NOW, producer_id=4))
    await hosted.start()
    await hosted.pass_ms(23 * 3600_000)
    assert 4 in hosted.log.producers.producers
    await hosted.pass_ms(2 * 3600_000)
    assert 4 not in hosted.log.producers.producers


async def test_checkpoints_are_written_when_they_change() -> None:
    hosted = Hosted()
    for _ in range(3):
        append(hosted.log)
    hosted.log.flush()
    hosted.log.increment_log_start_offset(2)
    hosted.rig.workers.run_all()
    await hosted.start()
    await hosted.pass_ms(5000)
    assert checkpoint(hosted.rig, "replication-offset-checkpoint") == ["t 0 3"]
    await hosted.pass_ms(55_000)
    assert checkpoint(hosted.rig, "recovery-point-offset-checkpoint") == ["t 0 3"]
    assert checkpoint(hosted.rig, "log-start-offset-checkpoint") == ["t 0 2"]
    before = dict(hosted.rig.fs.operations)  # type: ignore[attr-defined]
    await hosted.pass_ms(60_000)
    assert hosted.rig.fs.operations == before  # type: ignore[attr-defined]


async def test_flushes_by_time() -> None:
    hosted = Hosted(flush_ms=1000)
    await hosted.start(**{"log.flush.scheduler.interval.ms": 500})
    append(hosted.log)
    await hosted.pass_ms(500)
    assert hosted.log.flushed.offset == 0
    await hosted.pass_ms(500)
    assert hosted.log.flushed.offset == 1


def test_deleting_records_is_bounded_by_the_high_watermark() -> None:
    hosted = Hosted(flush_messages=1)
    for _ in range(4):
        append(hosted.log)
    with pytest.raises(OffsetOutOfRange):
        hosted.partition.delete_records(1)
    assert hosted.partition.delete_records(-1) == 0
    hosted.rig.workers.run_all()
    assert hosted.partition.delete_records(3) == 3
    assert hosted.partition.delete_records(1) == 3
    assert hosted.partition.delete_records(-1) == 4
    hosted.log.config = LogConfig(compact=True, delete=False)
    with pytest.raises(PolicyViolation):
        hosted.partition.delete_records(-1)

"""What is done to the logs from time to time, in virtual time."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from broker.background import Periodic
from broker.config.broker_config import BrokerConfig
from broker.replication.log_maintenance import LogMaintenance, delete_records
from broker.replication.partition import Partition
from broker.replication_settings import configure_maintenance, schedule_maintenance
from protocol.errors import OffsetOutOfRange, PolicyViolation
from storage.append_types import AppendOrigin, LogConfig
from storage.log.retention import delete_old_segments
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault
from tests.unit.broker.partitions import alone, state
from tests.unit.storage.cleaner.cleaning import end_txn, keyed, put, records
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, batch, contents

PERIODS = {
    "log.retention.check.interval.ms": 300_000,
    "log.flush.scheduler.interval.ms": 2**63 - 1,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "replica.high.watermark.checkpoint.interval.ms": 5_000,
    "producer.id.expiration.check.interval.ms": 600_000,
}
CLEANER = BrokerConfig.of({"log.cleaner.backoff.ms": "1000", "log.dirs": "/data"})


def checkpoint(rig: Rig, name: str) -> list[str]:
    path = f"/data/{name}"
    if not rig.fs.exists(path):
        return []
    file = rig.fs.open(path)
    return file.pread(1000, 0).decode().splitlines()[2:]


def produce(partition: Partition, data: memoryview) -> None:
    partition.append(data, AppendOrigin.CLIENT, NOW)


def deleted(partition: Partition, offset: int) -> int:
    """The log's start after records were deleted."""
    delete_records(partition, offset)
    return partition.log_start_offset


def led(topic: str, log: UnifiedLog) -> Partition:
    partition = Partition(topic, TOPIC_ID, 0, log, lambda _: None, alone(log.services.clock))
    partition.lead(state())
    return partition


class Hosted:
    """Partitions of one rig, maintained in periods of their own."""

    def __init__(self, **config: object) -> None:
        self.rig = Rig(config=LogConfig(**config))  # type: ignore[arg-type]
        self.log = self.rig.log()
        self.partition = led("t", self.log)
        self.partitions: dict[tuple[str, int], Any] = {("t", 0): self.partition}
        self.periodic = Periodic(self.rig.clock)

    def append(self, data: memoryview | None = None) -> None:
        produce(self.partition, batch() if data is None else data)

    def put(self, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> None:
        self.append(keyed(*pairs, **options))

    async def start(self, **periods: int | str) -> None:
        partitions = self.partitions

        class Found:
            def get(self, *key: Any) -> Any:
                return partitions.get(key)

            def __iter__(self) -> Iterator[Any]:
                return iter(partitions.values())

        self.maintenance = LogMaintenance(self.rig.manager, cast(Any, Found()))
        own = {key: str(value) for key, value in (PERIODS | periods).items()}
        schedule_maintenance(self.maintenance, CLEANER.with_dynamic({}, own), self.periodic)

    async def pass_ms(self, delay_ms: float) -> None:
        self.rig.clock.advance(delay_ms)
        for _ in range(20):
            await asyncio.sleep(0)
            self.rig.clock.advance(0)
            self.rig.workers.run_all()


async def test_retention_comes_half_a_minute_after_the_start_and_then_every_five_minutes() -> None:
    hosted = Hosted(retention_ms=1000, file_delete_delay_ms=1)
    hosted.append(batch(timestamp=NOW))
    await hosted.start()
    await hosted.pass_ms(29_999)
    assert hosted.log.log_start_offset == 0
    await hosted.pass_ms(1)
    assert hosted.log.log_start_offset == 1
    hosted.append(batch(timestamp=NOW))
    await hosted.pass_ms(299_999)
    assert hosted.log.log_start_offset == 1
    await hosted.pass_ms(1)
    assert hosted.log.log_start_offset == 2


async def test_records_not_yet_below_the_high_watermark_stay() -> None:
    hosted = Hosted(retention_ms=1000, flush_messages=1)
    hosted.append(batch(timestamp=NOW))
    hosted.rig.workers.drop_all()
    await hosted.start()
    hosted.rig.clock.advance(300_000)
    await asyncio.sleep(0)
    assert hosted.partition.high_watermark == 0
    assert hosted.log.log_start_offset == 0


async def test_a_checkpoint_that_finds_no_room_is_no_bug_and_is_written_the_next_time() -> None:
    hosted = Hosted()
    fs = hosted.rig.files
    hosted.append()
    await hosted.start()
    fs.inject(Fault("open", 1, errno.ENOSPC, path_part="replication-offset-checkpoint"))
    with capture_logs() as lines:
        await hosted.pass_ms(5000)
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert (line["event"], line.get("exc_info")) == ("out of resources", None)
    await hosted.pass_ms(5000)
    assert checkpoint(hosted.rig, "replication-offset-checkpoint") == ["t 0 1"]


@pytest.mark.long
async def test_one_log_that_retention_fails_for_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_first(log: UnifiedLog, high_watermark: int) -> int:
        if log.topic == "t":
            raise RuntimeError("nobody foresaw this")
        return delete_old_segments(log, high_watermark)

    monkeypatch.setattr("storage.log.retention.delete_old_segments", fail_first)
    hosted = Hosted(retention_ms=1000, file_delete_delay_ms=1)
    other = hosted.rig.log("u")
    append(other, batch(timestamp=NOW))
    hosted.partitions["u", 0] = led("u", other)
    await hosted.start()
    await hosted.pass_ms(30_000)
    assert other.log_start_offset == 1


async def test_idle_producers_are_forgotten() -> None:
    hosted = Hosted()
    hosted.append(batch(timestamp=NOW, producer_id=4))
    await hosted.start()
    await hosted.pass_ms(23 * 3600_000)
    assert 4 in hosted.log.producers.producers
    await hosted.pass_ms(2 * 3600_000)
    assert 4 not in hosted.log.producers.producers


async def test_checkpoints_are_written_when_they_change() -> None:
    hosted = Hosted()
    for _ in range(3):
        hosted.append()
    hosted.log.flush()
    hosted.log.increment_log_start_offset(2)
    hosted.rig.workers.run_all()
    await hosted.start()
    await hosted.pass_ms(5000)
    assert checkpoint(hosted.rig, "replication-offset-checkpoint") == ["t 0 3"]
    await hosted.pass_ms(55_000)
    assert checkpoint(hosted.rig, "recovery-point-offset-checkpoint") == ["t 0 3"]
    assert checkpoint(hosted.rig, "log-start-offset-checkpoint") == ["t 0 2"]
    before = dict(hosted.rig.files.operations)
    await hosted.pass_ms(60_000)
    assert hosted.rig.files.operations == before


async def test_flushes_by_time() -> None:
    hosted = Hosted(flush_ms=1000)
    await hosted.start(**{"log.flush.scheduler.interval.ms": 500})
    hosted.append()
    await hosted.pass_ms(500)
    assert hosted.log.flushed.offset == 0
    await hosted.pass_ms(500)
    assert hosted.log.flushed.offset == 1


def test_deleting_records_is_bounded_by_the_high_watermark() -> None:
    hosted = Hosted(flush_messages=1)
    for _ in range(4):
        hosted.append()
    with pytest.raises(OffsetOutOfRange):
        delete_records(hosted.partition, 1)
    assert deleted(hosted.partition, -1) == 0
    hosted.rig.workers.run_all()
    assert deleted(hosted.partition, 3) == 3
    assert deleted(hosted.partition, 1) == 3
    assert deleted(hosted.partition, -1) == 4
    hosted.log.config = LogConfig(compact=True, delete=False)
    with pytest.raises(PolicyViolation):
        delete_records(hosted.partition, -1)


# -- compaction


def fill(rig: Rig, partition: Partition) -> None:
    for value in (b"1", b"2"):
        produce(partition, keyed((b"a", value)))
    partition.log.roll()
    produce(partition, keyed((b"last", b"record")))
    rig.workers.run_all()
    partition.log.flush()
    rig.workers.run_all()


async def test_a_compacted_log_is_cleaned_soon_and_looked_at_every_backoff() -> None:
    hosted = Hosted(compact=True)
    fill(hosted.rig, hosted.partition)
    await hosted.start()
    await hosted.pass_ms(10)
    assert [one.value for one in records(hosted.log)] == [b"2", b"record"]
    hosted.put((b"a", b"3"))
    hosted.log.config = LogConfig(compact=True, min_cleanable_dirty_ratio=0.0)
    hosted.log.roll()
    hosted.put((b"b", b"1"))
    hosted.rig.workers.run_all()
    hosted.log.flush()
    hosted.rig.workers.run_all()
    await hosted.pass_ms(900)
    assert [one.value for one in records(hosted.log)] == [b"2", b"record", b"3", b"1"]
    await hosted.pass_ms(100)
    assert [one.value for one in records(hosted.log)] == [b"record", b"3", b"1"]
    await hosted.maintenance.stop()


async def test_without_the_cleaner_compacted_logs_only_grow() -> None:
    hosted = Hosted(compact=True, retention_ms=1000)
    fill(hosted.rig, hosted.partition)
    await hosted.start(**{"log.cleaner.enable": "false"})
    await hosted.pass_ms(600_000)
    assert len(records(hosted.log)) == 3


async def test_the_cleaner_applies_retention_to_logs_that_compact_and_delete() -> None:
    hosted = Hosted(compact=True, delete=True, retention_ms=500)
    fill(hosted.rig, hosted.partition)
    await hosted.start()
    await hosted.pass_ms(3000)
    assert hosted.log.log_start_offset == hosted.log.log_end_offset
    await hosted.maintenance.stop()


async def test_the_cleaners_threads_may_be_changed_while_it_runs() -> None:
    hosted = Hosted(compact=True)
    await hosted.start(**{"log.cleaner.threads": "2"})
    await hosted.pass_ms(1)
    assert hosted.maintenance.cleaner.threads == 2
    configure_maintenance(hosted.maintenance, CLEANER.with_dynamic({"log.cleaner.threads": "1"}, {}))
    await hosted.pass_ms(1000)
    assert hosted.maintenance.cleaner.threads == 1
    configure_maintenance(hosted.maintenance, CLEANER.with_dynamic({"log.cleaner.threads": "3"}, {}))
    assert hosted.maintenance.cleaner.threads == 3
    await hosted.maintenance.stop()
    assert hosted.maintenance.cleaner.threads == 0


async def test_a_stop_ends_compaction_in_the_middle_and_leaves_nothing_behind() -> None:
    hosted = Hosted(compact=True)
    for number in range(3000):
        hosted.put((b"%d" % number, b"v"))
    fill(hosted.rig, hosted.partition)
    await hosted.start()
    while not any(name.endswith(".log.cleaned") for name in hosted.rig.fs.listdir(hosted.log.folder)):
        await asyncio.sleep(0)
        hosted.rig.clock.advance(1)
    assert hosted.maintenance.cleaner.is_busy_with(hosted.log)
    stop = asyncio.ensure_future(hosted.maintenance.stop())
    await hosted.rig.clock.run(10)
    await stop
    assert not any(name.endswith(".cleaned") for name in hosted.rig.fs.listdir(hosted.log.folder))
    assert len(records(hosted.log)) == 3003
    assert hosted.log.cleaned_to is None


async def test_a_log_deleted_while_it_is_compacted_is_let_go() -> None:
    hosted = Hosted(compact=True)
    for number in range(3000):
        hosted.put((b"%d" % number, b"v"))
    fill(hosted.rig, hosted.partition)
    await hosted.start()
    await asyncio.sleep(0)
    hosted.rig.clock.advance(1)
    assert hosted.maintenance.cleaner.is_busy_with(hosted.log)
    hosted.rig.manager.delete_log_soon("t", 0)
    made = hosted.rig.log()
    hosted.partitions["t", 0] = again = led("t", made)
    fill(hosted.rig, again)
    for _ in range(3):
        await hosted.pass_ms(2000)
    assert [one.value for one in records(made)] == [b"2", b"record"]
    await hosted.maintenance.stop()


async def test_producers_expire_by_the_configuration_of_today() -> None:
    hosted = Hosted()
    hosted.put((b"a", b"1"), producer_id=7)
    await hosted.start()
    configure_maintenance(hosted.maintenance, CLEANER.with_dynamic({}, {"producer.id.expiration.ms": "1000"}))
    await hosted.pass_ms(PERIODS["producer.id.expiration.check.interval.ms"])
    assert hosted.log.producers.producers == {}
    await hosted.maintenance.stop()
    await hosted.periodic.stop()


def test_what_was_committed_before_a_stop_is_stable_though_no_snapshot_tells() -> None:
    rig = Rig()
    log = rig.log()
    put(log, (b"a", b"1"), producer_id=7, transactional=True, sequence=0)
    end_txn(log, 7, commit=True)
    rig.manager.close()
    for name in rig.fs.listdir(log.folder):
        if name.endswith(".snapshot"):
            rig.fs.unlink(f"{log.folder}/{name}")
    partition = led("t", rig.reopen())
    assert partition.last_stable_offset == 2


async def test_indexes_that_nobody_asks_for_a_minute_or_two_are_dropped_and_come_back() -> None:
    hosted = Hosted(segment_bytes=300, index_interval_bytes=1)
    log = hosted.log
    for _ in range(12):
        hosted.append(batch(b"x" * 40))
    first, second, *_ = log.segments
    found = [one.offset_index.entries() for one in (first, second)]
    assert all(found)
    await hosted.start()
    await hosted.pass_ms(60_000)
    first.offset_index.lookup(1)
    await hosted.pass_ms(60_000)
    assert (first.offset_index.is_loaded, second.offset_index.is_loaded) == (True, False)
    assert log.segments.active.offset_index.is_loaded
    await hosted.pass_ms(120_000)
    assert [one.offset_index.is_loaded for one in log.segments] == [False] * (len(log.segments) - 1) + [True]
    assert not second.time_index.is_loaded
    assert [one.offset_index.entries() for one in (first, second)] == found
    assert len(contents(log)) == 12

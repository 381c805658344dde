"""Snapshots: what is in them, what they let go, and what happens if there is no room for one."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from controller.quorum import snapshots
from controller.quorum.metadata_batches import CommittedBatch, MetadataLogError, NoRoomError, OpenBatch
from controller.quorum.opening import MetadataLogConfig
from controller.quorum.snapshots import SnapshotId, list_snapshots
from protocol.records.batch import read_header
from storage.files import read_file
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.controller.quorum.support import FOLDER, Process, config_record, made_root, numbers
from tests.unit.storage.support import NOW

CONFIG = MetadataLogConfig(segment_bytes=10_000, max_record_bytes_between_snapshots=1_000)


@pytest.fixture
def fs() -> MemoryFileSystem:
    return made_root(MemoryFileSystem())


@pytest.fixture
def process(fs: MemoryFileSystem) -> Process:
    process = Process(fs, config=CONFIG)
    process.run(process.log.lead())
    return process


def fill(process: Process, count: int = 10, size: int = 20) -> None:
    async def add() -> None:
        for number in range(count):
            await process.log.durable(process.log.append([config_record(number, size)]))

    process.run(add())


def snapshot(process: Process, *known: int) -> None:
    log = process.log
    records = [config_record(number) for number in known]
    process.run(log.write_snapshot(log.durable_end, log.epoch, NOW, records))


def segments(fs: MemoryFileSystem) -> list[str]:
    return sorted(name for name in fs.listdir(FOLDER) if name.endswith(".log"))


def test_what_is_read_back(fs: MemoryFileSystem, process: Process) -> None:
    fill(process)
    snapshot(process, 3, 5)
    fill(process, count=1)
    first, second = Process(fs).log.batches()
    assert first == CommittedBatch(10, 1, NOW, (config_record(3), config_record(5)))
    assert (second.last_offset, numbers(second.records)) == (11, [0])


def test_a_snapshot_of_nothing(fs: MemoryFileSystem, process: Process) -> None:
    snapshot(process)
    facts = snapshots.check(fs, f"{FOLDER}/{SnapshotId(1, 1).file_name}")
    assert (facts.snapshot_timestamp, facts.last_control) == (NOW, "SnapshotFooterRecord")
    assert list(Process(fs).log.batches()) == []


def test_large_snapshots_have_several_batches_of_at_most_8_mb(fs: MemoryFileSystem, process: Process) -> None:
    fill(process)
    records = [config_record(number, 30_000) for number in range(700)]
    process.run(process.log.write_snapshot(11, 1, NOW, iter(records)))
    data, at, sizes = read_file(fs, f"{FOLDER}/{SnapshotId(11, 1).file_name}"), 0, []
    while at < len(data):
        sizes.append(read_header(data, at).size)
        at += sizes[-1]
    assert len(sizes) == 5
    assert 8_300_000 < max(sizes) <= 8 << 20
    found = [number for batch in Process(fs).log.batches() for number in numbers(batch.records)]
    assert found == list(range(700))


def test_the_newest_two_are_kept_and_the_log_from_the_older_one_on(fs: MemoryFileSystem, process: Process) -> None:
    for known in range(1, 5):
        fill(process, count=3)
        snapshot(process, known)
    process.advance(0)
    kept, _ = list_snapshots(fs, FOLDER)
    assert kept == [SnapshotId(10, 1), SnapshotId(13, 1)]
    assert segments(fs) == [f"{10:020d}.log"]
    assert process.log.log.log_start_offset == 10
    process.run(process.log.close())
    again = Process(fs, config=CONFIG)
    assert again.log.snapshot_offset == 13
    again.run(again.log.lead())
    fill(again, count=2)
    snapshot(again, 9)
    assert list_snapshots(fs, FOLDER)[0] == [SnapshotId(13, 1), SnapshotId(16, 2)]


def is_due(process: Process) -> bool:
    return process.log.is_snapshot_due(process.log.durable_end)


def test_when_one_is_due(fs: MemoryFileSystem, process: Process) -> None:
    assert not is_due(process)
    fill(process, count=9)
    assert not is_due(process)
    fill(process, count=2)
    assert is_due(process)
    process.run(process.log.close())
    again = Process(fs, config=CONFIG)
    assert is_due(again)
    again.run(again.log.lead())
    snapshot(again, 1)
    assert not is_due(again)
    again.run(again.log.close())
    assert not is_due(Process(fs, config=CONFIG))


def test_one_can_only_be_where_a_batch_ends(fs: MemoryFileSystem, process: Process) -> None:
    """As in Kafka, whose readers do not begin in the middle of a batch."""
    fill(process, count=20)
    log = process.log

    async def two_in_one_batch() -> None:
        log.append([config_record(1), config_record(2)])
        await log.durable(log.append([config_record(3)]))

    process.run(two_in_one_batch())
    fill(process, count=1)
    assert [log.is_snapshot_due(offset) for offset in range(19, 27)] == [True] * 3 + [False] * 2 + [True] * 2 + [False]
    with pytest.raises(MetadataLogError, match="no snapshot at offset 22"):
        process.run(log.write_snapshot(22, 1, NOW, []))


def test_the_epoch_must_be_that_of_the_last_record(process: Process) -> None:
    fill(process)
    with pytest.raises(MetadataLogError, match="no snapshot at offset 11 and epoch 2"):
        process.run(process.log.write_snapshot(11, 2, NOW, []))


def test_a_snapshot_in_the_middle_of_a_batch_is_read_all_the_same(fs: MemoryFileSystem, process: Process) -> None:
    log = process.log

    async def one_batch() -> None:
        await log.durable(log.append([config_record(number) for number in range(6)]))

    process.run(one_batch())
    snapshots.write(fs, FOLDER, SnapshotId(4, 1), [config_record(9)], timestamp=NOW, quorum=(), now_ms=lambda: NOW)
    assert [numbers(batch.records) for batch in Process(fs).log.batches()] == [[9], [3, 4, 5]]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("pwrite", 2, errno.ENOSPC, path_part=".part"), NoRoomError),
        (Fault("pwrite", 1, errno.ENOSPC, taken=30, path_part=".part"), None),
        (Fault("open", 1, errno.EMFILE, path_part=".part"), NoRoomError),
        (Fault("fdatasync", 1, errno.EIO, path_part=".part"), MetadataLogError),
        (Fault("rename", 1, errno.EIO, path_part=".part"), MetadataLogError),
    ],
    ids=["no room", "room for a part at a time", "no descriptor", "sync", "rename"],
)
def test_a_snapshot_that_cannot_be_written_leaves_nothing_and_the_log_goes_on(
    fs: MemoryFileSystem, process: Process, fault: Fault, kind: type[MetadataLogError] | None
) -> None:
    fill(process, count=12)
    assert is_due(process)
    fs.inject(fault)
    if kind is None:
        snapshot(process, 1)
    else:
        with pytest.raises(kind):
            snapshot(process, 1)
        assert list_snapshots(fs, FOLDER) == ([], [])
        assert not is_due(process)  # not before as much again is written
    assert not process.failures
    fill(process, count=12)
    snapshot(process, 2)
    assert not is_due(process)


@pytest.mark.parametrize("offset", [0, 12, 50])
def test_an_offset_that_cannot_have_one(process: Process, offset: int) -> None:
    fill(process)
    with pytest.raises(MetadataLogError, match=f"no snapshot at offset {offset} and"):
        process.run(process.log.write_snapshot(offset, 1, NOW, []))


def test_one_at_a_time_and_none_below_the_newest(process: Process) -> None:
    fill(process)

    async def two() -> None:
        import asyncio

        first = asyncio.ensure_future(process.log.write_snapshot(11, 1, NOW, []))
        await asyncio.sleep(0)
        with pytest.raises(MetadataLogError, match="no snapshot at offset 5"):
            await process.log.write_snapshot(5, 1, NOW, [])
        await first
        with pytest.raises(MetadataLogError, match="no snapshot at offset 11"):
            await process.log.write_snapshot(11, 1, NOW, [])

    process.run(two())


def test_a_record_that_no_batch_holds(fs: MemoryFileSystem, process: Process, monkeypatch: Any) -> None:
    fill(process)
    monkeypatch.setattr(snapshots, "OpenBatch", lambda offset: OpenBatch(offset, 100))
    with pytest.raises(MetadataLogError, match="larger than a batch"):
        process.run(process.log.write_snapshot(11, 1, NOW, [config_record(1, 500)]))
    assert list_snapshots(fs, FOLDER) == ([], [])

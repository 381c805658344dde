"""What callers of the metadata log are told, and when."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from protocol.errors import InvalidRequest
from tests.doubles.files import Fault, MemoryFileSystem, Unsynced
from tests.unit.controller.quorum.support import Process, config_record, made_root, numbers


@pytest.fixture
def fs() -> MemoryFileSystem:
    return made_root(MemoryFileSystem())


@pytest.fixture
def process(fs: MemoryFileSystem) -> Process:
    process = Process(fs)
    process.run(process.log.lead())
    return process


def megabytes(count: int) -> list[Any]:
    return [config_record(number, size=30_000) for number in range(34 * count)]


def in_log(fs: MemoryFileSystem) -> list[int]:
    return [number for batch in Process(fs).log.batches() for number in numbers(batch.records)]


def test_what_is_appended_in_one_turn_of_the_loop_is_one_batch_and_one_sync(
    fs: MemoryFileSystem, process: Process
) -> None:
    syncs, (commits, _) = fs.operations["fdatasync"], process.log.commits

    async def three() -> None:
        last = [process.log.append([config_record(number)]) for number in range(3)][-1]
        await process.log.durable(last)

    process.run(three())
    assert fs.operations["fdatasync"] == syncs + 1
    assert process.log.commits[0] == commits + 1
    _, batch = Process(fs).log.batches()
    assert numbers(batch.records) == [0, 1, 2]
    assert batch.last_offset == 3


def test_without_room_all_that_is_not_durable_is_refused_and_the_log_goes_on(
    fs: MemoryFileSystem, process: Process
) -> None:
    log = process.log
    refused: list[int] = []
    log.on_refused = lambda _: refused.append(log.next_offset)

    async def story() -> None:
        await log.durable(log.append([config_record(0)]))
        fs.inject(Fault("pwrite", 1, errno.ENOSPC, taken=40, path_part=".log"))
        fs.inject(Fault("pwrite", 1, errno.ENOSPC, path_part=".log"))
        waiting = [log.durable(log.append([config_record(number)])) for number in (1, 2)]
        for each in waiting:
            with pytest.raises(NoRoomError):
                await each
        await log.durable(log.append([config_record(3)]))

    process.run(story())
    assert refused == [2]
    assert not process.failures
    fs.crash(Unsynced.LOST)
    assert in_log(fs) == [0, 3]


def test_what_builds_on_refused_records_is_refused_with_them(fs: MemoryFileSystem, process: Process) -> None:
    log = process.log

    async def story() -> None:
        fs.inject(Fault("pwrite", 2, errno.ENOSPC, path_part=".log"))
        first = log.durable(log.append([config_record(0)]))
        await first
        # The next batch is refused, together with what comes while it waits.
        second = log.durable(log.append([config_record(1)]))
        third = log.durable(log.append(megabytes(5)))
        fourth = log.durable(log.append(megabytes(5)))
        for each in (second, third, fourth):
            with pytest.raises(NoRoomError):
                await each

    process.run(story())
    assert log.next_offset == log.durable_end == 2
    assert in_log(fs) == [0]


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync"])
def test_after_a_device_error_nothing_is_taken_any_more(fs: MemoryFileSystem, process: Process, operation: str) -> None:
    log = process.log

    async def story() -> None:
        await log.durable(log.append([config_record(0)]))
        fs.inject(Fault(operation, 1, errno.EIO, path_part=".log"))
        lost = log.durable(log.append([config_record(1)]))
        with pytest.raises(MetadataLogError, match="injected"):
            await lost
        with pytest.raises(MetadataLogError, match="injected"):
            log.append([config_record(2)])
        with pytest.raises(MetadataLogError, match="injected"):
            await log.durable(2)
        await log.durable(1)
        await log.close()

    process.run(story())
    (said,) = process.failures
    assert "injected" in said
    fs.crash(Unsynced.LOST)
    assert in_log(fs) == [0]


def test_one_decision_must_fit_in_a_batch(process: Process) -> None:
    async def story() -> None:
        with pytest.raises(InvalidRequest, match=r"306 metadata records.*8388608 bytes"):
            process.log.append(megabytes(9))
        with pytest.raises(MetadataLogError, match="no records"):
            process.log.append([])
        offsets = [process.log.append(megabytes(5)) for _ in range(3)]
        assert offsets == [170, 340, 510]
        await process.log.durable(510)

    process.run(story())


def test_only_a_leader_appends_and_only_once_it_leads(fs: MemoryFileSystem) -> None:
    process = Process(fs)
    with pytest.raises(MetadataLogError, match="does not lead"):
        process.log.append([config_record(0)])
    process.run(process.log.lead())
    with pytest.raises(MetadataLogError, match="leads already, in epoch 1"):
        process.run(process.log.lead())


def test_an_offset_that_was_never_appended_is_not_waited_for(process: Process) -> None:
    async def wait() -> None:
        await process.log.durable(7)

    with pytest.raises(MetadataLogError, match="Nothing with the offset 7"):
        process.run(wait())


def test_no_batch_has_an_earlier_time_than_the_one_before(fs: MemoryFileSystem, process: Process) -> None:
    async def add(number: int) -> None:
        await process.log.durable(process.log.append([config_record(number)]))

    process.clock.advance(5_000)
    process.run(add(0))
    earlier = Process(fs)
    earlier.run(earlier.log.lead())

    async def add_earlier() -> None:
        await earlier.log.durable(earlier.log.append([config_record(1)]))

    earlier.run(add_earlier())
    now = process.clock.wall_ms()
    assert [batch.timestamp - now for batch in Process(fs).log.batches()] == [-5_000, 0, 0, 0]

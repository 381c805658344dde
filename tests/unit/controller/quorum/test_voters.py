"""Who the voter is: configured (`kraft.version` 0), or written in the log (1)."""

from __future__ import annotations

import asyncio
import errno
from uuid import UUID

import pytest

from controller.quorum.metadata_batches import MetadataLogError, NoRoomError
from controller.quorum.metadata_log import MetadataLog
from protocol.metadata.brokers import VoterEndpoint
from storage.files import read_file
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.controller.quorum.support import FOLDER, Process, config_record, made_root, numbers

DIRECTORY = UUID(int=77)
ENDPOINT = VoterEndpoint(name="CONTROLLER", host="h", port=9093)


async def become_dynamic(log: MetadataLog, times: int = 1) -> None:
    """Ask so many times at once."""
    await asyncio.gather(*[log.become_dynamic(ENDPOINT) for _ in range(times)])


def test_a_static_voter_becomes_a_dynamic_one() -> None:
    """As when `kraft.version` is raised in Kafka: control records, and quorum-state without voters from then on."""
    fs = made_root(MemoryFileSystem())
    process = Process(fs, directory_id=DIRECTORY)
    process.run(process.log.lead())
    assert (process.log.kraft_version, process.log.voter_directory_id) == (0, None)
    before = process.log.durable_end
    process.run(become_dynamic(process.log))
    assert (process.log.kraft_version, process.log.voter_directory_id) == (1, DIRECTORY)
    assert process.do(lambda: process.log.append([config_record(1)])) == before + 2
    process.run(process.log.close())
    process.end()
    with pytest.raises(MetadataLogError, match="the id of this folder is"):
        Process(fs, directory_id=UUID(int=5))
    again = Process(fs, directory_id=DIRECTORY)
    assert (again.log.kraft_version, again.log.voter_directory_id) == (1, DIRECTORY)
    assert numbers(record for batch in again.log.batches() for record in batch.records) == [1]
    again.run(again.log.lead())
    state = read_file(fs, f"{FOLDER}/quorum-state")
    assert b"currentVoters" not in state
    assert b'"data_version":1' in state
    end = again.log.durable_end
    again.run(again.log.write_snapshot(end, again.log.epoch, again.log.timestamp, [config_record(1)]))
    again.end()
    assert Process(fs, directory_id=DIRECTORY).log.kraft_version == 1


def test_who_asks_twice_for_kraft_version_1_waits_for_the_same_records() -> None:
    process = Process(made_root(MemoryFileSystem()), directory_id=DIRECTORY)
    process.run(process.log.lead())
    before = process.log.durable_end
    process.run(become_dynamic(process.log, times=2))
    assert (process.log.kraft_version, process.log.durable_end) == (1, before + 2)


def test_kraft_version_that_there_was_no_room_for_is_asked_for_again() -> None:
    fs = made_root(MemoryFileSystem())
    process = Process(fs, directory_id=DIRECTORY)
    process.run(process.log.lead())
    fs.inject(Fault("pwrite", 1, errno.ENOSPC, path_part=".log"))
    with pytest.raises(NoRoomError):
        process.run(become_dynamic(process.log))
    assert process.log.kraft_version == 0
    process.run(become_dynamic(process.log))
    assert process.log.kraft_version == 1


def test_kraft_version_is_not_raised_in_a_folder_without_an_id() -> None:
    process = Process(made_root(MemoryFileSystem()))
    process.run(process.log.lead())
    before = process.log.next_offset
    with pytest.raises(MetadataLogError, match="has no id"):
        process.run(become_dynamic(process.log))
    assert process.log.next_offset == before

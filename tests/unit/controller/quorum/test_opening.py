"""Which folders are opened and which are refused; those that are refused stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from controller.quorum.metadata_batches import DamagedError, MetadataLogError, control_batch
from controller.quorum.metadata_log import MetadataLog
from controller.quorum.opening import MetadataLogConfig
from protocol import uuids
from protocol.metadata.brokers import LeaderChangeMessage, Voter
from protocol.records.batch import read_header, set_offsets_and_epoch
from protocol.records.build import Record, build_batch
from storage.files import read_file
from storage.folders import partition_metadata
from storage.tools.verification import repair_partition
from tests.doubles.files import MemoryFileSystem
from tests.unit.controller.quorum.support import (
    FOLDER,
    NODE_ID,
    ROOT,
    Process,
    config_record,
    files_of,
    made_root,
    numbers,
    patch,
    put,
    services,
)
from tests.unit.storage.support import NOW

KAFKA = Path(__file__).parent / "kafka"
STATIC = Path(__file__).parents[2] / "protocol" / "metadata" / "kafka"
LOG = f"{FOLDER}/{0:020d}.log"
DIRECTORY = uuids.from_text("0uar37j8TaGy8LXmU9kBvQ")
"""The id of the folder in which Kafka wrote `kafka/standalone.*`."""


@pytest.fixture
def fs() -> MemoryFileSystem:
    return made_root(MemoryFileSystem())


def filled(fs: MemoryFileSystem, *, snapshots_at: tuple[int, ...] = (), segment_bytes: int = 1 << 20) -> None:
    """A log of one start: ten records, each in its batch, and snapshots after some of them."""
    process = Process(fs, config=MetadataLogConfig(segment_bytes=segment_bytes))
    log = process.log

    async def fill() -> None:
        await log.lead()
        for number in range(10):
            await log.durable(log.append([config_record(number)]))
            if number in snapshots_at:
                known = [config_record(each) for each in range(number + 1)]
                await log.write_snapshot(log.durable_end, log.epoch, process.clock.wall_ms(), known)
        await log.close()

    process.run(fill())
    process.advance(100_000)


def opened(fs: MemoryFileSystem, **options: Any) -> MetadataLog:
    return MetadataLog.open(services(fs), ROOT, NODE_ID, **options)


def found(fs: MemoryFileSystem) -> list[int]:
    return [number for batch in opened(fs).batches() for number in numbers(batch.records)]


def refused(fs: MemoryFileSystem, match: str, **options: Any) -> MetadataLogError:
    """The error of opening, which changes nothing."""
    before = files_of(fs)
    with pytest.raises(MetadataLogError, match=match) as caught:
        opened(fs, **options)
    assert files_of(fs) == before
    return caught.value


def positions(fs: MemoryFileSystem, path: str = LOG) -> list[int]:
    """Where each batch begins."""
    data, at, starts = read_file(fs, path), 0, []
    while at < len(data):
        starts.append(at)
        at += read_header(data, at).size
    return starts


def append_batch(fs: MemoryFileSystem, values: list[bytes], path: str = LOG) -> None:
    """Add a batch with these values to the log, as if it had been written so."""
    last = read_header(read_file(fs, path), positions(fs, path)[-1])
    batch = build_batch([Record(at, last.max_timestamp, None, value) for at, value in enumerate(values)])
    set_offsets_and_epoch(batch, read_header(batch), last.next_offset, last.leader_epoch)
    patch(fs, path, fs.size(path), batch)


# -- what is opened


def test_a_new_folder(fs: MemoryFileSystem) -> None:
    log = opened(fs)
    assert list(log.batches()) == []
    assert (log.bootstrap, log.next_offset, log.kraft_version) == ((), 0, 0)
    assert partition_metadata.read(fs, FOLDER) == UUID(int=1)


def test_kafkas_log_of_a_static_voter(fs: MemoryFileSystem) -> None:
    fs.mkdir(FOLDER)
    put(fs, LOG, (STATIC / "kafka-4.4.log").read_bytes())
    put(fs, f"{FOLDER}/{0:020d}-{0:010d}.checkpoint", (STATIC / "kafka-4.4.checkpoint").read_bytes())
    process = Process(fs)
    batches = list(process.log.batches())
    assert len(process.log.bootstrap) == 6
    assert batches[0].records == ()  # the election of Kafka's leader
    assert batches[1].records[0].__class__.__name__ == "BeginTransactionRecord"
    assert batches[1].last_offset == 9
    process.run(process.log.lead())
    assert process.log.epoch == batches[-1].epoch + 1
    assert b'"currentVoters":[{"voterId":1}],"data_version":0}' in read_file(fs, f"{FOLDER}/quorum-state")


def test_kafkas_log_of_a_dynamic_voter(fs: MemoryFileSystem) -> None:
    fs.mkdir(FOLDER)
    put(fs, LOG, (KAFKA / "standalone.log").read_bytes())
    put(fs, f"{FOLDER}/{0:020d}-{0:010d}.checkpoint", (KAFKA / "standalone.checkpoint").read_bytes())
    put(fs, f"{FOLDER}/quorum-state", (KAFKA / "standalone.quorum-state").read_bytes())
    refused(fs, "the id of this folder is", directory_id=UUID(int=5))
    log = opened(fs, directory_id=DIRECTORY)
    assert log.kraft_version == 1
    process = Process(fs)
    process.run(process.log.lead())
    assert process.log.epoch == 3
    state = read_file(fs, f"{FOLDER}/quorum-state")
    assert state == (KAFKA / "standalone.quorum-state").read_bytes().replace(b'"leaderEpoch":2', b'"leaderEpoch":3')


def test_the_bootstrap_records_of_older_releases(fs: MemoryFileSystem) -> None:
    """Kafka 4.1 has them in the root of the folder; a log that has begun does not need them any more."""
    path = f"{ROOT}/bootstrap.checkpoint"
    data = (KAFKA / "bootstrap-4.1.checkpoint").read_bytes()
    put(fs, path, data)
    assert [record.feature_level for record in opened(fs).bootstrap] == [27, 1, 1, 2]
    put(fs, path, data[:-1])
    refused(fs, "bootstrap.checkpoint is damaged")
    fs.unlink(path)
    filled(fs)
    put(fs, path, data[:-1])
    assert found(fs) == list(range(10))


def test_a_log_has_not_begun_before_a_node_that_leads_it_has_written_a_record(fs: MemoryFileSystem) -> None:
    data = (KAFKA / "bootstrap-4.1.checkpoint").read_bytes()
    put(fs, f"{ROOT}/bootstrap.checkpoint", data)
    process = Process(fs)
    process.run(process.log.lead())
    process.end()
    assert len(opened(fs).bootstrap) == 4


def test_a_formatted_folder_of_a_dynamic_voter_gets_its_voters_into_the_log(fs: MemoryFileSystem) -> None:
    fs.mkdir(FOLDER)
    put(fs, f"{FOLDER}/{0:020d}-{0:010d}.checkpoint", (KAFKA / "standalone.checkpoint").read_bytes())
    process = Process(fs)
    process.run(process.log.lead())
    ours, kafkas = read_file(fs, LOG), (KAFKA / "standalone.log").read_bytes()
    size = read_header(ours).size
    assert ours[61:size] == kafkas[61:size]  # the records of LeaderChange, KRaftVersion and Voters
    process.run(process.log.close())
    again = Process(fs)
    again.run(again.log.lead())
    assert read_header(read_file(fs, LOG), size).record_count == 1


@pytest.mark.parametrize("left", [1, 30, 61, 75])
def test_a_torn_last_batch_is_cut_off(fs: MemoryFileSystem, left: int) -> None:
    filled(fs)
    start = positions(fs)[-1]
    file = fs.open(LOG)
    file.truncate(start + left)
    assert found(fs) == list(range(9))
    assert fs.size(LOG) == start


def test_a_last_batch_whose_bytes_never_came_is_cut_off(fs: MemoryFileSystem) -> None:
    filled(fs)
    start = positions(fs)[-1]
    patch(fs, LOG, start + 20, bytes(fs.size(LOG) - start - 20))
    assert found(fs) == list(range(9))


def test_a_log_that_ends_before_its_snapshot_begins_anew_there(fs: MemoryFileSystem) -> None:
    filled(fs, snapshots_at=(7,))
    for path in files_of(fs):
        if path.endswith((".log", ".index", ".timeindex", ".snapshot")):
            fs.unlink(path)
    process = Process(fs)
    assert [numbers(batch.records) for batch in process.log.batches()] == [list(range(8))]
    assert process.log.next_offset == 9
    process.run(process.log.lead())
    assert process.log.epoch == 2
    assert fs.exists(f"{FOLDER}/{9:020d}.log")


def test_a_damaged_snapshot_is_not_needed_while_an_older_one_and_the_log_are_there(fs: MemoryFileSystem) -> None:
    filled(fs, snapshots_at=(3, 6))
    patch(fs, f"{FOLDER}/{8:020d}-{1:010d}.checkpoint", 100, b"\xff\xff")
    assert found(fs) == list(range(10))


def test_unfinished_snapshots_are_removed(fs: MemoryFileSystem) -> None:
    filled(fs)
    for name in ("-1234.checkpoint.part", ".checkpoint.part", ".checkpoint.deleted"):
        put(fs, f"{FOLDER}/{5:020d}-{1:010d}{name}", b"half")
    assert found(fs) == list(range(10))
    assert not any("checkpoint." in path for path in files_of(fs))


# -- what is refused


def test_other_voters_in_the_log(fs: MemoryFileSystem) -> None:
    fs.mkdir(FOLDER)
    voters = tuple(Voter(voter_id=each, voter_directory_id=None) for each in (1, 2, 3))
    change = LeaderChangeMessage(version=0, leader_id=1, voters=voters, granting_voters=voters[:2])
    put(fs, LOG, control_batch([change], 0, 1, 5))
    refused(fs, "the voters of this quorum are the nodes 1, 2, 3, but this is node 1")


def test_other_voters_in_quorum_state(fs: MemoryFileSystem) -> None:
    filled(fs)
    state = read_file(fs, f"{FOLDER}/quorum-state")
    put(fs, f"{FOLDER}/quorum-state", state.replace(b'{"voterId":1}', b'{"voterId":1},{"voterId":7}'))
    refused(fs, "the nodes 1, 7, but this is node 1")


def test_the_log_of_another_node(fs: MemoryFileSystem) -> None:
    filled(fs)
    with pytest.raises(MetadataLogError, match="the nodes 1, but this is node 2"):
        MetadataLog.open(services(fs), ROOT, 2)


def test_another_dynamic_voter(fs: MemoryFileSystem) -> None:
    fs.mkdir(FOLDER)
    put(fs, f"{FOLDER}/{0:020d}-{0:010d}.checkpoint", (KAFKA / "standalone.checkpoint").read_bytes())
    with pytest.raises(MetadataLogError, match="the nodes 1, but this is node 4"):
        MetadataLog.open(services(fs), ROOT, 4)


@pytest.mark.parametrize("part", [0, 12, 16, 17, 40, 63, 70])
def test_damage_before_the_last_batch(fs: MemoryFileSystem, part: int) -> None:
    """Wherever in the batch it is; the log is not cut there, though nothing after it can be read."""
    filled(fs)
    position = positions(fs)[4] + part
    byte = read_file(fs, LOG)[position]
    patch(fs, LOG, position, bytes([byte ^ 0x41]))
    error = refused(fs, "is damaged: there is no whole batch at position")
    assert isinstance(error, DamagedError)


def test_a_damaged_log_can_be_repaired(fs: MemoryFileSystem) -> None:
    """As the message says: what follows the damage is given up."""
    filled(fs)
    patch(fs, LOG, positions(fs)[4] + 70, b"\xff\xff")
    refused(fs, "give up what follows with `odradek log repair`")
    repair_partition(fs, FOLDER, NOW)
    assert found(fs) == [0, 1, 2]


def test_damage_in_a_segment_that_is_not_the_last(fs: MemoryFileSystem) -> None:
    filled(fs, segment_bytes=300)
    file = fs.open(LOG)
    file.truncate(fs.size(LOG) - 3)
    refused(fs, "is damaged")


def test_a_missing_segment(fs: MemoryFileSystem) -> None:
    filled(fs, segment_bytes=300)
    bases = sorted(path for path in files_of(fs) if path.endswith(".log"))
    fs.unlink(bases[1])
    refused(fs, "but the segment before it ends at offset")


def test_a_missing_snapshot(fs: MemoryFileSystem) -> None:
    filled(fs, snapshots_at=(3, 5, 7), segment_bytes=300)
    assert not fs.exists(LOG)
    for path in files_of(fs):
        if path.endswith(".checkpoint"):
            fs.unlink(path)
    refused(fs, "there is no snapshot of what was before")


def test_a_damaged_snapshot_that_is_needed(fs: MemoryFileSystem) -> None:
    filled(fs, snapshots_at=(3, 5, 7), segment_bytes=300)
    for path in files_of(fs):
        if path.endswith(".checkpoint"):
            patch(fs, path, 90, b"\xff\xff")
    refused(fs, "checkpoint is damaged")


def test_a_damaged_bootstrap_snapshot_is_needed_for_a_new_log_alone(fs: MemoryFileSystem) -> None:
    path = f"{FOLDER}/{0:020d}-{0:010d}.checkpoint"
    fs.mkdir(FOLDER)
    put(fs, path, (STATIC / "kafka-4.4.checkpoint").read_bytes()[:-4])
    refused(fs, "checkpoint is damaged")
    fs.unlink(path)
    filled(fs)
    put(fs, path, (STATIC / "kafka-4.4.checkpoint").read_bytes()[:-4])
    assert found(fs) == list(range(10))


def feature_level(level: int) -> bytes:
    return b"\x01\x0c\x00\x11metadata.version" + level.to_bytes(2) + b"\x00"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"\x01\x63\x00", "metadata record type 99 is not known"),
        (b"\x01\x02\x07rest", "version 7 of TopicRecord is not known"),
        (b"\x02\x02\x00", "metadata record frame version 2 is not known"),
    ],
    ids=["type", "version", "frame version"],
)
def test_records_of_a_newer_kafka(fs: MemoryFileSystem, value: bytes, said: str) -> None:
    filled(fs)
    append_batch(fs, [feature_level(35)])
    append_batch(fs, [value])
    refused(fs, rf"{said} \(in the batch at offset 12\).*newer Kafka.*metadata.version is 35")


def test_a_value_that_is_no_record(fs: MemoryFileSystem) -> None:
    filled(fs)
    append_batch(fs, [b""])
    refused(fs, "the records from offset 11 on")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state[:-5], "quorum-state is damaged"),
        (lambda _: b"", "quorum-state is damaged"),
        (lambda _: b"[]", "quorum-state is damaged"),
        (lambda _: b"[" * 100_000, "quorum-state is damaged"),
        (lambda state: state.replace(b'"leaderEpoch":', b'"leaderEpoch":Infinity,"x":'), "quorum-state is damaged"),
        (lambda state: state.replace(b'"leaderEpoch":1,', b""), "quorum-state is damaged"),
        (lambda state: state.replace(b'"data_version":0', b'"data_version":2'), "data_version is 2"),
    ],
    ids=["cut", "empty", "list", "nested without end", "infinite", "without epoch", "newer"],
)
def test_a_bad_quorum_state(fs: MemoryFileSystem, change: Callable[[bytes], bytes], said: str) -> None:
    filled(fs)
    put(fs, f"{FOLDER}/quorum-state", change(read_file(fs, f"{FOLDER}/quorum-state")))
    refused(fs, said)


def test_the_folder_of_another_topic(fs: MemoryFileSystem) -> None:
    filled(fs)
    partition_metadata.write(fs, FOLDER, UUID(int=77))
    refused(fs, "belongs to a topic with the id")


# -- epochs


def test_each_start_leads_in_a_later_epoch_even_if_the_log_lost_the_last_one(fs: MemoryFileSystem) -> None:
    filled(fs)
    before = read_file(fs, LOG)
    for epoch in (2, 3):
        process = Process(fs)
        process.run(process.log.lead())
        assert process.log.epoch == epoch
        process.end()
    put(fs, LOG, before)
    process = Process(fs)
    process.run(process.log.lead())
    assert process.log.epoch == 4
    fs.unlink(f"{FOLDER}/quorum-state")
    process = Process(fs)
    process.run(process.log.lead())
    assert process.log.epoch == 5

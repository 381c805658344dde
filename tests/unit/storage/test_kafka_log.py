"""Files written by Apache Kafka 4.1 are read, and come out of the same batches byte for byte.

`tools/recorders/fetch_kafka_log.py` had Kafka write them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.batch import BatchHeader, check_crc, read_header
from protocol.records.build import ControlRecordType, iter_records, read_end_marker
from storage.log.leader_epochs import LeaderEpochs
from storage.producers import snapshot_files as producer_snapshot
from storage.producers.producer_state import CompletedTxn, ProducerStateManager
from storage.segments.txn_index import AbortedTxn, TxnIndex, collect_aborted
from tests.doubles.files import MemoryFileSystem

FILES = Path(__file__).with_name("kafka_log")
FOLDER = "/data/t-0"
NOW = 1_795_262_611_000
ROLL = 43


def file_system(*names: str) -> MemoryFileSystem:
    """A file system that holds the given files of Kafka's."""
    fs = MemoryFileSystem()
    fs.mkdir(FOLDER)
    for name in names:
        fs.open(f"{FOLDER}/{name}", create=True).pwrite((FILES / name).read_bytes(), 0)
    return fs


def content(fs: MemoryFileSystem, name: str) -> bytes:
    file = fs.open(f"{FOLDER}/{name}")
    return file.pread(file.size(), 0)


def batches(base_offset: int) -> list[tuple[BatchHeader, bytes]]:
    data = (FILES / f"{base_offset:020d}.log").read_bytes()
    found = []
    pos = 0
    while pos < len(data):
        header = read_header(data, pos)
        assert check_crc(data, pos, header)
        found.append((header, data[pos : pos + header.size]))
        pos += header.size
    return found


def replay(producers: ProducerStateManager, base_offset: int) -> list[CompletedTxn]:
    ended = []
    for header, batch in batches(base_offset):
        completed = producers.replay(header, batch)
        if completed is not None:
            ended.append(completed)
        producers.on_high_watermark(header.next_offset)
    return ended


def aborted(ended: list[CompletedTxn]) -> list[AbortedTxn]:
    return [
        AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
        for txn in ended
        if txn.is_aborted
    ]


def test_snapshot_of_the_same_batches_says_the_same() -> None:
    """For Kafka the last of a producer's rows counts; ours has one for each of its last batches."""
    fs = file_system()
    producers = ProducerStateManager(fs, FOLDER, "t-0")
    replay(producers, 0)
    assert producers.take_snapshot(ROLL) is not None
    name = producer_snapshot.file_name(ROLL)
    theirs = producer_snapshot.decode((FILES / name).read_bytes())
    ours = producer_snapshot.decode(content(fs, name))
    assert {row.producer_id: row for row in ours} == {row.producer_id: row for row in theirs}
    assert producer_snapshot.encode(theirs) == (FILES / name).read_bytes()


def test_transaction_index_of_the_same_batches_is_the_same_file() -> None:
    fs = file_system()
    producers = ProducerStateManager(fs, FOLDER, "t-0")
    for base_offset in (0, ROLL):
        index = TxnIndex(fs, FOLDER, base_offset)
        for txn in aborted(replay(producers, base_offset)):
            index.append(txn)
        name = f"{base_offset:020d}.txnindex"
        assert content(fs, name) == (FILES / name).read_bytes()
        assert TxnIndex(fs, FOLDER, base_offset).entries == index.entries


def test_snapshot_and_the_batches_behind_it_give_the_state_of_the_whole_log() -> None:
    whole = ProducerStateManager(file_system(), FOLDER, "t-0")
    replay(whole, 0)
    replay(whole, ROLL)
    loaded = ProducerStateManager(file_system(producer_snapshot.file_name(ROLL)), FOLDER, "t-0")
    assert loaded.load(0, 46, NOW) == ROLL
    replay(loaded, ROLL)
    assert loaded.first_unstable_offset == whole.first_unstable_offset == 36
    assert {pid: entry.saved() for pid, entry in loaded.producers.items()} == {
        pid: entry.saved() for pid, entry in whole.producers.items()
    }


def test_control_batches_are_read() -> None:
    markers = [read_end_marker(next(iter_records(batch, header))) for header, batch in batches(0) if header.is_control]
    kinds = [marker.type for marker in markers if marker is not None]
    assert kinds.count(ControlRecordType.COMMIT) == 2
    assert kinds.count(ControlRecordType.ABORT) == 7


def test_aborted_transactions_of_a_range() -> None:
    fs = file_system("00000000000000000000.txnindex", f"{ROLL:020d}.txnindex")
    indexes = [TxnIndex(fs, FOLDER, 0), TxnIndex(fs, FOLDER, ROLL)]
    every = [*indexes[0].entries, *indexes[1].entries]
    for start in range(46):
        for end in range(start, 47):
            expected = [txn for txn in every if txn.last_offset >= start and txn.first_offset < end]
            assert collect_aborted(indexes, start, end) == expected


def test_leader_epochs_are_read() -> None:
    assert LeaderEpochs(file_system("leader-epoch-checkpoint"), FOLDER).entries == ((0, 0),)


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 100, 193])
def test_torn_snapshot_is_removed_and_an_older_one_used(cut: int) -> None:
    name, older = producer_snapshot.file_name(ROLL), producer_snapshot.file_name(20)
    fs = file_system(name)
    fs.open(f"{FOLDER}/{name}").truncate(cut)
    fs.open(f"{FOLDER}/{older}", create=True).pwrite(producer_snapshot.encode(()), 0)
    producers = ProducerStateManager(fs, FOLDER, "t-0")
    assert producers.load(0, 46, NOW) == 20
    assert fs.listdir(FOLDER) == [older]


def test_flipped_bits_of_a_snapshot_are_noticed() -> None:
    data = (FILES / producer_snapshot.file_name(ROLL)).read_bytes()
    for at in range(len(data)):
        spoilt = bytearray(data)
        spoilt[at] ^= 0x10
        with pytest.raises(producer_snapshot.CorruptSnapshotError):
            producer_snapshot.decode(bytes(spoilt))

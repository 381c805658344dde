"""What a follower stores is the leader's, byte for byte, with its producers, transactions and leader epochs."""

from __future__ import annotations

import errno
import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from protocol.errors import CorruptMessage, InvalidRecord, KafkaStorage
from protocol.records.batch import read_header, set_offsets_and_epoch
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin, LogConfig
from storage.log import follower_append
from storage.log.follower_append import LAST_OFFSET
from storage.log.unified_log import UnifiedLog
from tests.doubles.files import Fault, MemoryFileSystem
from tests.unit.storage.support import NOW, Rig, contents, read

MANY = 1_000
SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)


def stored(base_offset: int, epoch: int = 0, count: int = 1, **fields: int) -> bytes:
    data = build_batch([Record(n, NOW, None, b"value") for n in range(count)], **fields)  # type: ignore[arg-type]
    set_offsets_and_epoch(data, read_header(data), base_offset, epoch)
    return bytes(data)


def follow(log: UnifiedLog, records: bytes, epoch: int = 9, most: int = MANY) -> int:
    return follower_append.append(log, memoryview(records), leader_epoch=epoch, now_ms=NOW, most_batches=most)


def test_whole_batches_are_stored_as_they_are_and_a_cut_one_is_left_out() -> None:
    log = Rig().log()
    first, second = stored(0, 2, 3), stored(3, 4)
    assert follow(log, first + second + stored(4, 4)[:-1]) == len(first + second)
    assert contents(log) == [first, second]
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(2, 0), (4, 3)]
    assert follow(log, stored(4, 4)[:11]) == 0


def test_gaps_that_compaction_left_are_kept() -> None:
    log = Rig().log()
    follow(log, stored(5) + stored(9))
    assert [read_header(batch).base_offset for batch in contents(log)] == [5, 9]
    assert log.log_end_offset == 10


def test_no_more_batches_than_asked_and_none_of_a_later_epoch() -> None:
    log = Rig().log()
    batches = [stored(n, n) for n in range(4)]
    assert follow(log, b"".join(batches), most=2) == len(batches[0]) * 2
    assert follow(log, b"".join(batches[2:]), epoch=2) == len(batches[2])
    assert log.log_end_offset == 3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda one: one[:-1] + b"?", CorruptMessage),
        (lambda one: one[:16] + b"\x01" + one[17:], CorruptMessage),
        (lambda one: one[:16] + b"\x03" + one[17:], CorruptMessage),
        (lambda one: one[:8] + b"\x00\x00\x00\x20" + one[12:44], CorruptMessage),
        (lambda one: bytes(8) + one[8:], InvalidRecord),
    ],
    ids=["crc", "old magic", "unknown magic", "too short", "before the end"],
)
def test_what_is_before_a_bad_batch_is_stored(change: object, error: type[Exception]) -> None:
    log = Rig().log()
    with pytest.raises(error):
        follow(log, stored(0) + change(stored(1)))  # type: ignore[operator]
    assert contents(log) == [stored(0)]
    follow(log, stored(1))


def test_a_failed_write_leaves_the_log_as_it_was() -> None:
    fs = MemoryFileSystem()
    rig = Rig(fs)
    log = rig.log()
    follow(log, stored(0))
    fs.inject(Fault("pwrite", 1, errno.ENOSPC, path_part=".log"))
    with pytest.raises(KafkaStorage):
        follow(log, stored(1))
    assert (log.log_end_offset, log.is_offline) == (1, False)
    follow(log, stored(1))
    assert contents(rig.restart()) == [stored(0), stored(1)]


def test_a_log_that_begins_within_a_batch() -> None:
    log = Rig().log()
    assert follower_append.begins_anew(log, memoryview(stored(0)), 0) is None
    log.log_start_offset = log.log_end_offset = 11
    assert follower_append.begins_anew(log, memoryview(stored(10, count=3)), 0) == 10
    assert follower_append.begins_anew(log, memoryview(stored(11)), 0) is None
    assert follower_append.begins_anew(log, memoryview(stored(10)[:20]), 0) is None


def test_a_log_of_which_all_lies_before_the_leaders_start_may_begin_anew_within_a_batch() -> None:
    log = Rig().log()
    follow(log, stored(0, count=3))
    follow(log, stored(3, count=2))
    within = memoryview(stored(4, count=3))
    assert follower_append.begins_anew(log, within, 4) is None, "the record at 4 is still there"
    assert follower_append.begins_anew(log, within, 5) == 4
    assert follower_append.begins_anew(log, memoryview(stored(5)), 4) is None
    assert follower_append.begins_anew(log, memoryview(stored(5)), 5) == 5, "what is before may never have been there"


class Leader:
    """Appends of all kinds to a log, as a leader does them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.log = Rig(config=SMALL).log()
        self.epoch = 0
        self._sequences = dict.fromkeys(range(3), 0)
        self._open: set[int] = set()

    def append(self) -> None:
        rng, producer = self.rng, self.rng.randrange(3)
        self.epoch += rng.random() < 0.1
        if producer in self._open and rng.random() < 0.4:
            self._open.discard(producer)
            self._append(self._marker(producer, rng.random() < 0.5), AppendOrigin.COORDINATOR)
            return
        count = rng.randint(1, 3)
        transactional = producer in self._open or rng.random() < 0.5
        if transactional:
            self._open.add(producer)
        records = [Record(n, NOW + rng.randrange(1000), b"k", rng.randbytes(rng.randrange(80))) for n in range(count)]
        batch = build_batch(
            records,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self._sequences[producer],
            transactional=transactional,
        )
        self._sequences[producer] += count
        self._append(batch, AppendOrigin.CLIENT)

    def _marker(self, producer: int, committed: bool) -> bytearray:
        from coordinator.runtime.batches import encode_end_marker
        from coordinator.runtime.outcome import ProducerEpoch

        return encode_end_marker(ProducerEpoch(producer, 0), 0, committed, NOW)

    def _append(self, batch: bytearray, origin: AppendOrigin) -> None:
        self.log.append_as_leader(memoryview(batch), leader_epoch=self.epoch, origin=origin, now_ms=NOW)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_follower_knows_what_its_leader_knows(seed: int) -> None:
    leader, rig = Leader(seed), Rig(config=SMALL)
    log = rig.log()
    for _ in range(leader.rng.randint(1, 60)):
        leader.append()
        while leader.rng.random() < 0.5 and log.log_end_offset < leader.log.log_end_offset:
            some = bytes(read(leader.log, log.log_end_offset, leader.rng.randrange(600)))
            follow(log, some, leader.epoch, most=2)
    while log.log_end_offset < leader.log.log_end_offset:
        assert follow(log, bytes(read(leader.log, log.log_end_offset)), leader.epoch) > 0
    assert contents(log) == contents(leader.log)
    for again in (log, rig.restart()):
        assert again.leader_epochs.entries == leader.log.leader_epochs.entries
        assert _known(again) == _known(leader.log)
        assert _aborted(again) == _aborted(leader.log)


def _known(log: UnifiedLog) -> object:
    producers = log.producers
    return [one.saved() for _, one in sorted(producers.producers.items())], producers.open_transactions


def _aborted(log: UnifiedLog) -> list[object]:
    return [one for segment in log.segments for one in segment.txn_index.collect(0, log.log_end_offset)[0]]


@pytest.mark.parametrize("first", [2**31 + 7, 2**40, LAST_OFFSET])
def test_a_batch_far_beyond_the_end_begins_a_segment_of_its_own(first: int) -> None:
    """A leader that has compacted billions of records has such gaps; offsets in an index are numbers of 32 bits."""
    rig = Rig(config=LogConfig(index_interval_bytes=0))
    log = rig.log()
    before = [stored(0)] if first % 2 else []
    batches = [*before, stored(first)]
    follow(log, b"".join(batches))
    assert log.segments.active.base_offset == first
    for opened in (log, rig.restart(), rig.kill()):
        assert contents(opened) == batches
        assert opened.log_end_offset == first + 1


def test_offsets_that_no_log_can_reach_are_refused() -> None:
    log = Rig().log()
    with pytest.raises(InvalidRecord, match="no log can reach"):
        follow(log, stored(LAST_OFFSET - 1, count=3))
    assert log.log_end_offset == 0

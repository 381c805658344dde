"""Sequences, duplicates, gaps, epochs, transactions, restarts, trimming, against a small model of exactly-once append.

What a producer sends once, however often it repeats it, is in the log once and in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from protocol.errors import InvalidProducerEpoch, InvalidTxnState, OutOfOrderSequence, TransactionCoordinatorFenced
from protocol.records.batch import read_header
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from storage.append_types import AppendInfo, AppendOrigin, LogConfig
from storage.segments.txn_index import collect_aborted
from tests.unit.storage.support import NOW, Rig, contents

PRODUCERS = (7, 8, 9)
LAST_SEQUENCE = 2**31 - 1
CONFIG = LogConfig(segment_bytes=900)


class Sent(NamedTuple):
    """A batch, and the offset that was answered for it."""

    epoch: int
    sequence: int
    records: int
    transactional: bool
    offset: int


@dataclass
class Producer:
    """`sent` of the current epoch, which the log knows still; `first` is that of its open transaction."""

    producer_id: int
    epoch: int = 0
    next_sequence: int = LAST_SEQUENCE - 3
    sent: list[Sent] = field(default_factory=list)
    first: int | None = None
    known: bool = False


class Entry(NamedTuple):
    """A batch of the log: sequence -1 and one record for a marker."""

    offset: int
    producer_id: int
    epoch: int
    sequence: int
    records: int


class Aborted(NamedTuple):
    producer_id: int
    first: int
    last: int


class ProducerMachine(RuleBasedStateMachine):
    """`entries` is what the log must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(config=CONFIG)
        self.log = self.rig.log()
        self.producers = {one: Producer(one) for one in PRODUCERS}
        self.entries: list[Entry] = []
        self.aborted: list[Aborted] = []
        self.coordinator_epoch = 0

    def append(
        self, producer: Producer, sequence: int, count: int, *, epoch: int | None = None, transactional: bool = False
    ) -> AppendInfo:
        records = [Record(index, NOW, None, b"%d" % index) for index in range(count)]
        data = build_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch if epoch is None else epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return self.log.append_as_leader(memoryview(data), leader_epoch=0, origin=AppendOrigin.CLIENT, now_ms=NOW)

    @rule(who=st.sampled_from(PRODUCERS), count=st.integers(1, 3), transactional=st.booleans(), times=st.integers(1, 7))
    def sends(self, who: int, count: int, transactional: bool, times: int) -> None:
        producer = self.producers[who]
        transactional = transactional or producer.first is not None
        for _ in range(times):
            end = self.log.log_end_offset
            info = self.append(producer, producer.next_sequence, count, transactional=transactional)
            assert (info.first_offset, info.duplicate) == (end, False)
            producer.sent.append(Sent(producer.epoch, producer.next_sequence, count, transactional, end))
            self.entries.append(Entry(end, who, producer.epoch, producer.next_sequence, count))
            producer.next_sequence = (producer.next_sequence + count) % (LAST_SEQUENCE + 1)
            producer.known = True
            if transactional and producer.first is None:
                producer.first = end

    @rule(who=st.sampled_from(PRODUCERS), back=st.integers(1, 8))
    def sends_again(self, who: int, back: int) -> None:
        """One of the last five is answered as before; an older one has a sequence that is not the next."""
        producer = self.producers[who]
        if len(producer.sent) < back:
            return
        one = producer.sent[-back]
        if back <= 5:
            info = self.append(producer, one.sequence, one.records, transactional=one.transactional)
            assert (info.first_offset, info.duplicate) == (one.offset, True)
        else:
            with pytest.raises(OutOfOrderSequence):
                self.append(producer, one.sequence, one.records, transactional=one.transactional)

    @rule(who=st.sampled_from(PRODUCERS), gap=st.integers(1, 1000))
    def leaves_a_gap(self, who: int, gap: int) -> None:
        producer = self.producers[who]
        if producer.known and (producer.sent or producer.epoch):
            sequence = (producer.next_sequence + gap) % (LAST_SEQUENCE + 1)
            with pytest.raises(OutOfOrderSequence):
                self.append(producer, sequence, 1, transactional=True)

    @rule(who=st.sampled_from(PRODUCERS))
    def writes_outside_of_its_transaction(self, who: int) -> None:
        producer = self.producers[who]
        if producer.first is not None:
            with pytest.raises(InvalidTxnState):
                self.append(producer, producer.next_sequence, 1)

    @rule(who=st.sampled_from(PRODUCERS))
    def starts_a_new_epoch(self, who: int) -> None:
        producer = self.producers[who]
        if producer.first is not None or not producer.known:
            return
        producer.epoch += 1
        producer.next_sequence, producer.sent = 0, []
        with pytest.raises(OutOfOrderSequence):
            self.append(producer, 1, 1)
        self.sends(who, 1, transactional=False, times=1)

    @rule(who=st.sampled_from(PRODUCERS))
    def a_zombie_writes(self, who: int) -> None:
        producer = self.producers[who]
        if producer.known and producer.epoch:
            for sequence in (0, producer.next_sequence):
                with pytest.raises(InvalidProducerEpoch):
                    self.append(producer, sequence, 1, epoch=producer.epoch - 1)

    def end(self, producer: Producer, commit: bool, epoch: int, coordinator_epoch: int) -> int:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = build_end_marker(
            EndTransactionMarker(kind, coordinator_epoch),
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            timestamp=NOW,
        )
        data = memoryview(marker)
        info = self.log.append_as_leader(data, leader_epoch=0, origin=AppendOrigin.COORDINATOR, now_ms=NOW)
        return info.first_offset

    @rule(who=st.sampled_from(PRODUCERS), commit=st.booleans(), bump=st.booleans())
    def its_transaction_ends(self, who: int, commit: bool, bump: bool) -> None:
        """With transactions V2 the marker has the next epoch."""
        producer = self.producers[who]
        if producer.first is None:
            return
        if producer.epoch:
            with pytest.raises(InvalidProducerEpoch):
                self.end(producer, commit, producer.epoch - 1, self.coordinator_epoch)
        offset = self.end(producer, commit, producer.epoch + bump, self.coordinator_epoch)
        self.entries.append(Entry(offset, who, producer.epoch + bump, -1, 1))
        if not commit:
            self.aborted.append(Aborted(who, producer.first, offset))
        producer.first = None
        if bump:
            producer.epoch += 1
            producer.next_sequence, producer.sent = 0, []
        if self.coordinator_epoch:
            with pytest.raises(TransactionCoordinatorFenced):
                self.end(producer, commit, producer.epoch, self.coordinator_epoch - 1)

    @rule()
    def the_coordinator_moves(self) -> None:
        self.coordinator_epoch += 1

    @rule(share=st.floats(0, 1))
    def the_log_is_trimmed(self, share: float) -> None:
        """What is gone may be forgotten with it, at the next start."""
        self.log.increment_log_start_offset(int(share * self.log.log_end_offset))
        self.rig.manager.checkpoint_log_start_offsets()
        start = self.log.log_start_offset
        self.entries = [record for record in self.entries if record.offset + record.records > start]
        self.aborted = [txn for txn in self.aborted if txn.last >= start]
        for producer in self.producers.values():
            producer.sent = [appended for appended in producer.sent if appended.offset >= start]

    @rule(kill=st.booleans())
    def the_broker_starts_again(self, kill: bool) -> None:
        self.log = self.rig.kill() if kill else self.rig.restart()
        for producer in self.producers.values():
            entry = self.log.producers.producers.get(producer.producer_id)
            producer.known = entry is not None
            if producer.first is not None and producer.first < self.log.log_start_offset:  # it may lack its first batch
                known = entry is not None and entry.txn_first_offset >= producer.first
                producer.first = entry.txn_first_offset if entry is not None and known else None
        self.aborted = [txn for txn in map(self.seen_again, self.aborted) if txn is not None]

    def seen_again(self, one: Aborted) -> Aborted | None:
        """What is left of an aborted transaction when the log's start is above its first batch: it may be nothing."""
        start = self.log.log_start_offset
        if one.first >= start:
            return one
        found = collect_aborted((segment.txn_index for segment in self.log.segments), start, self.log.log_end_offset)
        known_end = next((txn.first_offset for txn in found if txn.last_offset == one.last), one.last)
        assert one.first <= known_end
        left = [entry.offset for entry in self.entries if entry.producer_id == one.producer_id]
        assert not any(one.first <= offset < known_end for offset in left)
        return one._replace(first=known_end) if known_end < one.last else None

    @rule()
    def the_idle_are_forgotten(self) -> None:
        self.log.producers.remove_expired(NOW + 2 * self.log.producers.expiration_ms)
        for producer in self.producers.values():
            if producer.first is None:
                producer.known, producer.sent = False, []

    @invariant()
    def each_batch_is_there_once(self) -> None:
        headers = [read_header(batch) for batch in contents(self.log)]
        found = [(h.base_offset, h.producer_id, h.producer_epoch, h.base_sequence) for h in headers]
        assert found == [entry[:4] for entry in self.entries]

    @invariant()
    def the_oldest_open_transaction_bounds_readers(self) -> None:
        self.log.producers.on_high_watermark(self.log.log_end_offset)
        bound = min((one.first for one in self.producers.values() if one.first is not None), default=None)
        start = self.log.log_start_offset
        if bound is not None and bound < start:
            bound = self.entries[0].offset if self.entries else start  # of the batch that holds the log's start
        assert self.log.first_unstable_offset == bound

    @invariant()
    def readers_are_told_what_is_aborted(self) -> None:
        indexes = (segment.txn_index for segment in self.log.segments)
        found = collect_aborted(indexes, self.log.log_start_offset, self.log.log_end_offset)
        known_end = {(one.producer_id, one.first_offset) for one in found}
        assert known_end == {(txn.producer_id, txn.first) for txn in self.aborted}


TestProducers = ProducerMachine.TestCase
TestProducers.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)

"""The in-flight state of a share partition, by example and against a model that keeps every record by itself."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.share.in_flight import InFlight
from broker.share.runs import AcknowledgeType, Acquired, LetterCause, RecordState, Rules, RunsChange, Wish
from protocol.coordinator_records.share_records import StateBatch
from protocol.errors import InvalidRecordState, InvalidRequest

RULES = Rules(max_deliveries=5, max_locks=2000, lock_ms=30_000)
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def acquire(
    flight: InFlight, *batches: tuple[int, int], wish: Wish | None = None, rules: Rules = RULES
) -> list[tuple[int, int, int]]:
    got = flight.acquire("m", batches, wish or Wish(500, 500), rules, 0)
    return [(one.first, one.last, one.delivery_count) for one in got]


def acknowledge(flight: InFlight, first: int, last: int, *types: AcknowledgeType, rules: Rules = RULES) -> RunsChange:
    change = flight.acknowledge("m", [(first, last, types)], rules, 0)
    flight.commit(change)
    return change


def test_max_records_is_rounded_up_to_whole_record_batches() -> None:
    assert acquire(InFlight(0), (0, 3), (4, 9), (10, 12), wish=Wish(5, 5)) == [(0, 9, 1)]


def test_batch_size_cuts_ranges_where_record_batches_end() -> None:
    assert acquire(InFlight(0), (0, 1), (2, 3), (4, 9), wish=Wish(500, batch_size=3)) == [(0, 3, 1), (4, 9, 1)]


def test_a_batch_size_below_1_cuts_ranges_at_every_record_batch() -> None:
    for size in (0, -1, 1):
        got = acquire(InFlight(0), (0, 1), (2, 3), (4, 9), wish=Wish(500, size))
        assert got == [(0, 1, 1), (2, 3, 1), (4, 9, 1)], size


def test_what_compaction_took_out_of_the_log_does_not_hold_the_start_offset() -> None:
    flight = InFlight(0)
    acquire(flight, (0, 9))
    acknowledge(flight, 0, 9, RELEASE)
    flight.commit(flight.give_up_missing(0, 4))
    assert flight.start_offset == flight.next_fetch_offset() == 4
    assert acquire(flight, (4, 9), (12, 14)) == [(4, 9, 2), (10, 14, 1)]
    assert acquire(flight, (20, 22)) == [(20, 22, 1)], "not what lies between"
    acknowledge(flight, 4, 14, ACCEPT)
    assert flight.start_offset == 20


def test_the_record_limit_is_exact_and_the_rest_of_a_batch_comes_as_a_range_of_its_own() -> None:
    flight = InFlight(0)
    wish = Wish(3, 3, exact=True)
    assert acquire(flight, (0, 3), (4, 5), wish=wish) == [(0, 2, 1)]
    assert flight.next_fetch_offset() == 3
    assert acquire(flight, (0, 3), (4, 5), wish=wish) == [(3, 3, 1), (4, 5, 1)]


def test_partition_max_record_locks_bounds_the_span_and_a_batch_that_crosses_it_comes_whole() -> None:
    rules = Rules(5, 100, 1)
    flight = InFlight(0)
    assert acquire(flight, *[(at, at + 29) for at in range(0, 300, 30)], rules=rules) == [(0, 119, 1)]
    acknowledge(flight, 30, 59, ACCEPT)
    assert not flight.can_acquire(rules), "the middle makes no room"
    acknowledge(flight, 0, 29, ACCEPT)
    assert flight.can_acquire(rules), "the front does"


def test_near_the_delivery_count_limit_fewer_records_come_at_once() -> None:
    flight = InFlight(0)
    seen = []
    for _ in range(9):
        got = acquire(flight, (0, 7))
        seen.append(got)
        for first, last, _ in got:
            acknowledge(flight, first, last, RELEASE)
    assert seen[:8] == [[(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)], [(0, 3, 4)], *([(at, at, 5)] for at in range(4))]
    assert seen[8] == [(4, 7, 4)]
    assert flight.start_offset == 4


@pytest.mark.parametrize(
    ("first", "last", "error"),
    [(0, 10, InvalidRequest), (4, 5, InvalidRecordState), (2, 2, InvalidRecordState), (1, 2, InvalidRecordState)],
)
def test_an_acknowledgement_of_what_is_not_acquired_changes_nothing(
    first: int, last: int, error: type[Exception]
) -> None:
    flight = InFlight(0)
    acquire(flight, (0, 3))
    flight.acquire("other", [(4, 9)], Wish(6, 6), RULES, 0)
    acknowledge(flight, 2, 2, RELEASE)
    before = [(run.first, run.last, run.state) for run in flight.runs]
    with pytest.raises(error):
        flight.acknowledge("m", [(first, last, [ACCEPT])], RULES, 0)
    assert [(run.first, run.last, run.state) for run in flight.runs] == before


def test_what_is_wholly_below_the_start_offset_may_be_acknowledged_again() -> None:
    flight = InFlight(0)
    acquire(flight, (0, 9))
    acknowledge(flight, 0, 4, ACCEPT)
    assert not flight.acknowledge("m", [(0, 4, [ACCEPT])], RULES, 0)
    acknowledge(flight, 0, 5, ACCEPT)
    assert flight.start_offset == 6


def test_what_is_acquired_again_was_read_even_if_it_came_in_one_larger_range_before() -> None:
    """A fetch with fewer bytes than the last one must not lock records that it does not bring."""
    flight = InFlight(0)
    acquire(flight, (0, 2), (3, 5), (6, 10))
    acknowledge(flight, 0, 10, RELEASE)
    assert acquire(flight, (0, 2)) == [(0, 2, 2)]
    assert acquire(flight, (3, 5), (6, 10)) == [(3, 10, 2)]


def test_an_offset_that_was_never_delivered_is_an_invalid_request_whatever_comes_before_it() -> None:
    flight = InFlight(0)
    acquire(flight, (0, 2))
    acknowledge(flight, 0, 2, RELEASE)
    with pytest.raises(InvalidRequest, match="Offset 3 was never delivered"):
        flight.acknowledge("m", [(0, 3, [ACCEPT, REJECT, ACCEPT, ACCEPT])], RULES, 0)


def test_overlapping_ranges_are_refused() -> None:
    flight = InFlight(0)
    acquire(flight, (0, 9))
    with pytest.raises(InvalidRecordState):
        flight.acknowledge("m", [(0, 4, [ACCEPT]), (4, 5, [RELEASE])], RULES, 0)
    assert not flight.runs[0].changing


def test_a_change_that_is_not_persisted_is_undone() -> None:
    flight = InFlight(0)
    acquire(flight, (0, 9))
    change = flight.acknowledge("m", [(0, 9, [ACCEPT])], RULES, 0)
    with pytest.raises(InvalidRecordState):
        flight.acknowledge("m", [(0, 9, [ACCEPT])], RULES, 0)
    assert not flight.release(flight.acquired({"m"}), RULES)
    flight.roll_back(change)
    assert acknowledge(flight, 0, 9, ACCEPT).batches() == [StateBatch(0, 9, RecordState.ACKNOWLEDGED, 1)]


def test_a_rejected_record_waits_for_its_dead_letter() -> None:
    rules = Rules(5, 2000, 1, dead_letters=True)
    flight = InFlight(0)
    acquire(flight, (0, 1))
    change = acknowledge(flight, 0, 1, REJECT, ACCEPT, rules=rules)
    ((run, cause),) = change.letters()
    assert (run.first, cause, run.state) == (0, LetterCause.REJECTED, RecordState.ARCHIVING)
    assert flight.start_offset == 0
    flight.commit(flight.archive([run]))
    assert flight.start_offset == 2


def test_what_is_loaded_has_gaps_that_were_not_delivered() -> None:
    batches = [StateBatch(0, 1, RecordState.ACKNOWLEDGED, 1), StateBatch(6, 7, RecordState.AVAILABLE, 2)]
    flight = InFlight(0, batches)
    assert (flight.start_offset, flight.end_offset, flight.next_fetch_offset()) == (2, 7, 2)
    assert acquire(flight, (0, 9)) == [(2, 5, 1), (6, 7, 3), (8, 9, 1)]


@dataclass
class Record:
    state: RecordState = RecordState.AVAILABLE
    count: int = 0
    member: str = ""
    lock: float = 0.0


MEMBERS = st.sampled_from(["a", "b"])
LIMIT = Rules(max_deliveries=2, max_locks=40, lock_ms=10, dead_letters=True)
LOWER = Rules(max_deliveries=1, max_locks=40, lock_ms=10, dead_letters=True)


class InFlightAgainstModel(RuleBasedStateMachine):
    """Every record by itself: what was acquired, acknowledged, expired, reloaded must be the same in both."""

    def __init__(self) -> None:
        super().__init__()
        self.flight = InFlight(0)
        self.model: dict[int, Record] = {}
        self.start = 0
        self.now = 0.0

    def settle(self, change: RunsChange, persisted: bool) -> None:
        if not persisted:
            self.flight.roll_back(change)
            return
        for run, state in change.runs:
            for offset in range(run.first, run.last + 1):
                self.model[offset].state = state
                self.model[offset].member = ""
        self.flight.commit(change)
        self.drop()

    def drop(self) -> None:
        while self.start in self.model and self.model[self.start].state.is_final:
            del self.model[self.start]
            self.start += 1

    @rule(
        member=MEMBERS, sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5), wanted=st.integers(1, 20),
        hole=st.sampled_from([0, 0, 0, 1, 4]),
    )  # fmt: skip
    def acquire(self, member: str, sizes: list[int], wanted: int, hole: int) -> None:
        """A hole is what compaction took out of the log."""
        begin, end = self.flight.next_fetch_offset(), self.flight.end_offset
        at = begin + hole
        self.give_up_missing(begin, at)
        batches = []
        for size in sizes:
            batches.append((at, at + size - 1))
            at += size
        got = self.flight.acquire(member, batches, Wish(wanted, wanted, exact=wanted % 2 == 0), LIMIT, self.now)
        taken: list[int] = []
        for one in got:
            assert isinstance(one, Acquired)
            for offset in range(one.first, one.last + 1):
                record = self.model.setdefault(offset, Record())
                assert record.state is RecordState.AVAILABLE
                record.state, record.member, record.lock = RecordState.ACQUIRED, member, self.now + LIMIT.lock_ms
                record.count += 1
                assert record.count == one.delivery_count
                taken.append(offset)
        assert taken == sorted(set(taken))
        if wanted % 2 == 0:
            assert len(taken) <= wanted
        for offset in range(self.start, self.flight.end_offset + 1):
            lost = end < offset < begin + hole
            self.model.setdefault(offset, Record(state=RecordState.ARCHIVED if lost else RecordState.AVAILABLE))
        self.drop()

    def give_up_missing(self, begin: int, end: int) -> None:
        free = {at for at, one in self.model.items() if one.state is RecordState.AVAILABLE and begin <= at < end}
        change = self.flight.give_up_missing(begin, end)
        assert {at for run, _ in change.runs for at in range(run.first, run.last + 1)} == free
        self.settle(change, persisted=True)

    @rule(
        member=MEMBERS, first=st.integers(-2, 30), size=st.integers(1, 10), kind=st.sampled_from(AcknowledgeType),
        persisted=st.booleans(),
    )  # fmt: skip
    def acknowledge(self, member: str, first: int, size: int, kind: AcknowledgeType, persisted: bool) -> None:
        first, last = self.start + first, self.start + first + size - 1
        wanted = [self.model.get(offset) for offset in range(max(first, self.start), last + 1)]
        good = all(one and one.state is RecordState.ACQUIRED and one.member == member for one in wanted)
        try:
            change = self.flight.acknowledge(member, [(first, last, [kind])], LIMIT, self.now)
        except (InvalidRecordState, InvalidRequest):
            assert not good
            return
        assert good
        if kind is AcknowledgeType.RENEW:
            for one in wanted:
                assert one is not None
                one.lock = self.now + LIMIT.lock_ms
        self.settle(change, persisted)

    @rule(persisted=st.booleans())
    def letters_are_written(self, persisted: bool) -> None:
        waiting = [offset for offset, one in self.model.items() if one.state is RecordState.ARCHIVING]
        runs = self.flight.archiving()
        assert sorted(at for run in runs for at in range(run.first, run.last + 1)) == sorted(waiting)
        self.settle(self.flight.archive(runs), persisted)

    @rule()
    def limit_is_lowered(self) -> None:
        over = {at for at, one in self.model.items() if one.state is RecordState.AVAILABLE and one.count >= 1}
        change = self.flight.give_up_over_limit(LOWER)
        assert {at for run, _ in change.runs for at in range(run.first, run.last + 1)} == over
        self.settle(change, persisted=True)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self.settle(self.flight.release(self.flight.acquired({member}), LIMIT), persisted=True)
        assert not any(one.member == member for one in self.model.values())

    @rule(passed=st.integers(1, 12))
    def time_passes(self, passed: int) -> None:
        self.now += passed
        self.settle(self.flight.release_expired(LIMIT, self.now), persisted=True)
        held = [one.lock for one in self.model.values() if one.state is RecordState.ACQUIRED]
        assert all(lock > self.now for lock in held)
        assert self.flight.next_expiry_ms() == min(held, default=None)

    @rule(forward=st.integers(0, 6))
    def log_start_moves(self, forward: int) -> None:
        self.flight.advance_log_start(self.start + forward)
        for offset in range(self.start, self.start + forward):
            self.model.pop(offset, None)
        self.start += forward
        self.drop()

    @rule()
    def reload(self) -> None:
        """What is acquired is available after a restart, and was never persisted as delivered once more."""
        batches = [
            StateBatch(offset, offset, one.state, one.count)
            for offset, one in self.model.items()
            if one.state is not RecordState.ACQUIRED
        ]
        self.flight = InFlight(self.start, batches)
        for offset in [offset for offset in self.model if offset > self.flight.end_offset]:
            del self.model[offset]
        for one in self.model.values():
            if one.state is RecordState.ACQUIRED:
                one.state, one.count, one.member = RecordState.AVAILABLE, 0, ""

    @invariant()
    def same(self) -> None:
        assert self.flight.start_offset == self.start
        seen = {}
        for run in self.flight.runs:
            for offset in range(run.first, run.last + 1):
                seen[offset] = (run.state, run.delivery_count, run.member_id)
        assert seen == {offset: (one.state, one.count, one.member) for offset, one in self.model.items()}


TestInFlightAgainstModel = pytest.mark.long(InFlightAgainstModel.TestCase)
TestInFlightAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

"""Loading a log: of values that supersede one another the last is replayed, and the event loop has its turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.coordinator_context import CoordinatorState
from coordinator.runtime.coordinator_log import TURN_MS, LogReplay, encode_batches, encode_end_marker, replay_log
from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import CoordinatorRecord, ProducerEpoch
from protocol.coordinator_records.record_schema import RecordSchema
from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from tests.doubles.clock import ManualClock, settle
from tests.unit.coordinator.memory_log import MemoryLog
from tests.unit.coordinator.runtime.register import NUMBER, Register, Rig, number, numbers

OTHER = numbers("Other", 8)
KEYS = st.sampled_from(["a", "b", "c"])
RECORDS = st.lists(
    st.tuples(st.sampled_from([NUMBER, NUMBER, NUMBER, OTHER]), KEYS, st.none() | st.integers(0, 9)),
    min_size=1,
    max_size=4,
)
BATCHES = st.one_of(
    st.tuples(st.just("plain"), RECORDS),
    st.tuples(st.just("transactional"), RECORDS, st.integers(1, 2)),
    st.tuples(st.just("end"), st.integers(1, 2), st.booleans()),
)


class Traced(Register):
    """Notes what is replayed."""

    def __init__(self) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # there is no shard to tell anything
        self.replayed: list[tuple[str, int | None]] = []

    def replay(self, key: str, value: int | None, position: Any) -> None:
        self.replayed.append((key, value))
        super().replay(key, value, position)


EACH = rows_by_id((RecordRow(NUMBER, Traced.replay), RecordRow(OTHER, Traced.replay)))
LAST = rows_by_id((RecordRow(NUMBER, Traced.replay, last_value_counts=True), RecordRow(OTHER, Traced.replay)))


def batch_of(kind: str, *what: Any) -> bytearray:
    match kind:
        case "end":
            producer, committed = what
            return encode_end_marker(ProducerEpoch(producer, 0), 0, committed, 0)
        case "transactional":
            records, producer = what
            return encode_batches(records, 0, ProducerEpoch(producer, 0), Compression.NONE, None)[0][0]
        case _:
            return encode_batches(what[0], 0, None, Compression.NONE, None)[0][0]


def loaded(log: MemoryLog, rows: Any) -> Traced:
    state = Traced()
    asyncio.run(replay_log(log, rows, state, "numbers", ManualClock()))
    return state


@pytest.mark.long
@given(st.lists(BATCHES, max_size=20))
def test_the_state_is_that_of_replaying_every_record(batches: list[tuple[Any, ...]]) -> None:
    log = MemoryLog()
    for batch in batches:
        log.append(batch_of(*batch))
    state, exact = loaded(log, LAST), loaded(log, EACH)
    assert list(state.numbers.items()) == list(exact.numbers.items())
    assert state.pending == exact.pending


def test_values_that_another_follows_are_not_replayed_unless_something_else_came_between() -> None:
    log = MemoryLog()
    for value in range(4):
        log.append(batch_of("plain", [number("a", value), number("b", value)]))
    assert loaded(log, LAST).replayed == [("a", 3), ("b", 3)]
    log = MemoryLog()
    log.append(batch_of("plain", [number("a", 1), number("b", 1), number("a", None), number("a", 2), number("a", 3)]))
    assert loaded(log, LAST).replayed == [("a", 1), ("b", 1), ("a", None), ("a", 3)]


def test_records_are_counted_whether_replayed_or_not() -> None:
    replay = LogReplay(LAST, Traced(), "numbers")
    batch = batch_of("plain", [number("a", 1), number("a", 2), number("b", 1)])
    for _ in replay.steps(bytes(batch)):
        pass
    assert replay.records == 3


@pytest.mark.parametrize("key", [None, b"\x00"])
def test_a_record_without_a_type_is_an_error(key: bytes | None) -> None:
    log = MemoryLog()
    log.append(build_batch([Record(0, 0, key, b"value")]))
    with pytest.raises(ValueError, match="of numbers at offset 0"):
        loaded(log, LAST)


class SlowClock(ManualClock):
    """Each look at it takes a while; notes how often somebody else has a turn."""

    turns = 0

    def monotonic_ms(self) -> float:
        self.advance(TURN_MS / 2)
        return super().monotonic_ms()

    async def sleep(self, delay_ms: float) -> None:
        assert delay_ms == 0
        self.turns += 1


@pytest.mark.parametrize("names", [1, 1000])
def test_the_loop_has_a_turn_every_few_milliseconds(names: int) -> None:
    log = MemoryLog()
    for batch in range(50):
        log.append(batch_of("plain", [number(f"{batch * 20 + one}"[-names:], one) for one in range(20)]))
    clock = SlowClock()
    assert asyncio.run(replay_log(log, LAST, Traced(), "numbers", clock)) == 1000
    assert clock.turns >= 10


@pytest.mark.parametrize(("kind", "schema"), [("plain", NUMBER), ("plain", OTHER), ("transactional", NUMBER)])
def test_the_loop_has_turns_within_a_large_batch(kind: str, schema: RecordSchema[str, int]) -> None:
    records = [CoordinatorRecord(schema, str(one), 0) for one in range(2000)]
    log = MemoryLog()
    log.append(batch_of(kind, records, *([1] if kind == "transactional" else [])))
    clock = SlowClock()
    assert asyncio.run(replay_log(log, LAST, Traced(), "numbers", clock)) == 2000
    assert clock.turns >= 3


async def test_shards_load_one_after_the_other() -> None:
    rig = Rig()
    rig.log.load_gate = asyncio.Event()
    rig.runtime.load(0, rig.log)
    rig.runtime.load(1, MemoryLog())
    await settle()
    assert [context.status for context in rig.runtime.contexts()] == [
        CoordinatorState.LOADING,
        CoordinatorState.LOADING,
    ]
    rig.log.load_gate.set()
    await rig.runtime.loaded()
    assert [context.status for context in rig.runtime.contexts()] == [CoordinatorState.ACTIVE, CoordinatorState.ACTIVE]

"""What the runtime promises to the state machines on it (coordinator/runtime's docstring)."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.runtime.outcome import Outcome, ProducerEpoch
from protocol.errors import (
    CoordinatorLoadInProgress,
    IllegalGeneration,
    KafkaError,
    NotCoordinator,
    UnknownServerError,
)
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch
from tests.unit.coordinator.runtime.register import Register, Rig, number


async def test_a_write_is_answered_at_once_where_the_high_watermark_follows_at_once() -> None:
    rig = await Rig().start()
    future = rig.runtime.write(0, lambda state: state.put("a", 1))
    assert future.done()
    assert future.result() == "a=1"
    assert await rig.numbers() == {"a": 1}


async def test_the_records_of_one_outcome_are_one_batch() -> None:
    rig = await Rig().start()
    await rig.runtime.write(0, lambda _: Outcome((number("a", 1), number("b", 2), number("a", None)), reply=None))
    assert len(rig.log.written) == 1
    header = read_header(rig.log.written[0])
    assert (header.record_count, header.last_offset_delta, header.base_sequence) == (3, 2, 0)
    assert await rig.numbers() == {"b": 2}


async def test_answers_wait_for_the_high_watermark_in_the_order_of_writes() -> None:
    rig = await Rig().start()
    rig.log.hold = True
    first = rig.runtime.write(0, lambda state: state.put("a", 1))
    second = rig.runtime.write(0, lambda state: state.put("a", 2))
    assert not first.done()
    rig.log.commit(up_to=1)
    assert first.done()
    assert not second.done()
    rig.log.commit()
    assert second.result() == "a=2"


async def test_a_read_waits_for_the_writes_that_it_saw() -> None:
    rig = await Rig().start()
    rig.log.hold = True
    rig.runtime.write(0, lambda state: state.put("a", 1))
    read = rig.runtime.read(0, lambda state: state.numbers["a"])
    assert not read.done()
    rig.log.commit()
    assert read.result() == 1


async def test_a_refusal_waits_as_well_for_it_tells_of_what_it_saw() -> None:
    def refuse(state: Register) -> Outcome[None]:
        raise IllegalGeneration

    rig = await Rig().start()
    rig.log.hold = True
    rig.runtime.write(0, lambda state: state.put("a", 1))
    refused = rig.runtime.write(0, refuse)
    assert not refused.done()
    rig.log.commit()
    with pytest.raises(IllegalGeneration):
        await refused


async def test_a_waiter_is_answered_by_a_later_operation_and_waits_for_its_commit() -> None:
    def wait(state: Register) -> Outcome[int]:
        waiter = state.context.waiter()
        return Outcome(reply=waiter, effects=lambda _: state.waiters.append(waiter))

    def wake(state: Register) -> Outcome[str]:
        return state.put("a", 5, effects=lambda _: state.waiters.pop().answer(state.numbers["a"]))

    rig = await Rig().start()
    rig.log.hold = True
    waiting = rig.runtime.write(0, wait)
    assert not waiting.done()
    rig.runtime.write(0, wake)
    assert not waiting.done()
    rig.log.commit()
    assert waiting.result() == 5


async def test_a_waiter_may_be_answered_in_its_own_operation_and_only_the_first_answer_counts() -> None:
    def answer_twice(state: Register) -> Outcome[int]:
        waiter = state.context.waiter()
        waiter.answer(1)
        waiter.fail(IllegalGeneration())
        return Outcome(reply=waiter)

    rig = await Rig().start()
    assert await rig.runtime.write(0, answer_twice) == 1


async def test_an_operation_told_from_effects_runs_after_the_present_one() -> None:
    rig = await Rig().start()
    seen: list[dict[str, int]] = []

    def tell(state: Register) -> Outcome[str]:
        def effects(error: KafkaError | None) -> None:
            assert error is None
            state.context.tell(lambda later: later.put("b", later.numbers["a"] + 1))
            seen.append(dict(state.numbers))

        return state.put("a", 1, effects=effects)

    assert await rig.runtime.write(0, tell) == "a=1"
    assert seen == [{"a": 1}]
    assert await rig.numbers() == {"a": 1, "b": 2}


async def test_a_request_from_inside_an_operation_waits_in_the_mailbox() -> None:
    rig = await Rig().start()
    inner: list[asyncio.Future[str]] = []

    def nested(state: Register) -> Outcome[str]:
        inner.append(rig.runtime.write(0, lambda later: later.put("b", 2)))
        assert "b" not in state.numbers
        return state.put("a", 1)

    await rig.runtime.write(0, nested)
    assert await inner[0] == "b=2"
    assert [record.key for record in rig.log.records()] == [b"\x00\x07\x00\x01a", b"\x00\x07\x00\x01b"]


async def test_coordinator_load_in_progress_while_loading_which_replays_everything() -> None:
    rig = await Rig().start()
    await rig.runtime.write(0, lambda _: Outcome((number("a", 1), number("b", 2))))
    await rig.runtime.write(0, lambda state: state.put("a", None))
    rig.log.load_gate = asyncio.Event()
    rig.runtime.load(0, rig.log)
    with pytest.raises(CoordinatorLoadInProgress):
        await rig.runtime.read(0, lambda state: state.numbers)
    rig.log.load_gate.set()
    await rig.runtime.loaded()
    assert await rig.numbers() == {"b": 2}


async def test_what_was_loaded_is_not_told_before_it_is_committed() -> None:
    rig = await Rig().start()
    rig.log.hold = True
    rig.runtime.write(0, lambda state: state.put("a", 1)).add_done_callback(lambda done: done.exception())
    rig.runtime.load(0, rig.log)
    await rig.runtime.loaded()
    read = rig.runtime.read(0, lambda state: state.numbers["a"])
    assert not read.done()
    rig.log.commit()
    assert read.result() == 1


async def test_not_coordinator_for_waiters_when_unloading_which_cancels_timers() -> None:
    rig = await Rig().start()
    fired: list[str] = []

    def wait(state: Register) -> Outcome[None]:
        state.context.timers.schedule("t", 10, lambda _: fired.append("t"))
        return Outcome(reply=state.context.waiter())

    waiting = rig.runtime.write(0, wait)
    rig.runtime.unload(0)
    with pytest.raises(NotCoordinator):
        await waiting
    rig.clock.advance(100)
    assert fired == []
    with pytest.raises(NotCoordinator):
        await rig.runtime.read(0, lambda state: state.numbers)


async def test_unloading_while_loading_stops_the_load() -> None:
    rig = Rig()
    rig.log.load_gate = asyncio.Event()
    rig.runtime.load(0, rig.log)
    rig.runtime.unload(0)
    await rig.runtime.loaded()
    with pytest.raises(NotCoordinator):
        await rig.runtime.read(0, lambda state: state.numbers)


async def test_a_timer_writes_as_any_other_message() -> None:
    rig = await Rig().start()
    rig.runtime.write(0, lambda s: Outcome(effects=lambda _: s.put_later(10, 1)))
    rig.clock.advance(9)
    assert await rig.numbers() == {}
    rig.clock.advance(1)
    assert await rig.numbers() == {"t": 1}


async def test_a_timer_scheduled_anew_or_cancelled_is_stale() -> None:
    rig = await Rig().start()

    def schedule(delay_ms: int, value: int) -> None:
        rig.runtime.write(
            0,
            lambda s: Outcome(effects=lambda _: s.put_later(delay_ms, value)),
        )

    schedule(10, 1)
    rig.clock.advance(5)
    schedule(10, 2)
    rig.clock.advance(9)
    assert await rig.numbers() == {}
    rig.clock.advance(1)
    assert await rig.numbers() == {"t": 2}
    schedule(10, 3)
    await rig.runtime.read(0, lambda state: state.context.timers.cancel("t"))
    rig.clock.advance(20)
    assert await rig.numbers() == {"t": 2}


async def test_a_timer_that_fires_while_its_cancellation_is_in_the_mailbox_does_nothing() -> None:
    rig = await Rig().start()
    rig.runtime.write(0, lambda s: Outcome(effects=lambda _: s.put_later(10, 1)))

    def cancel_after_it_was_due(state: Register) -> Outcome[None]:
        rig.clock.advance(10)  # the timer's message is in the mailbox now, behind this operation
        state.context.timers.cancel("t")
        return Outcome()

    await rig.runtime.write(0, cancel_after_it_was_due)
    assert await rig.numbers() == {}


async def test_transactional_records_wait_for_their_marker() -> None:
    rig = await Rig().start()
    kept, dropped = ProducerEpoch(5, 0), ProducerEpoch(6, 0)
    await rig.runtime.write(0, lambda _: Outcome((number("a", 1),), transaction=kept))
    await rig.runtime.write(0, lambda _: Outcome((number("b", 1),), transaction=dropped))
    assert await rig.numbers() == {}
    await rig.runtime.end_transaction(0, kept, 0, True)
    await rig.runtime.end_transaction(0, dropped, 0, False)
    assert await rig.numbers() == {"a": 1}
    headers = [read_header(batch) for batch in rig.log.written]
    assert [(h.producer_id, h.is_transactional, h.is_control) for h in headers] == [
        (5, True, False),
        (6, True, False),
        (5, True, True),
        (6, True, True),
    ]
    rig.runtime.load(0, rig.log)
    await rig.runtime.loaded()
    assert await rig.numbers() == {"a": 1}


async def test_a_long_list_that_need_not_be_atomic_is_split_and_what_was_written_is_replayed() -> None:
    rig = await Rig().start()
    rig.log.max_batch_bytes = 200
    records = tuple(number(f"n{i}", i) for i in range(30))
    await rig.runtime.write(0, lambda _: Outcome(records, atomic=False))
    assert len(rig.log.written) > 3
    assert await rig.numbers() == {f"n{i}": i for i in range(30)}
    with pytest.raises(UnknownServerError):
        await rig.runtime.write(0, lambda _: Outcome(records))


async def test_a_record_type_that_is_not_known_is_passed_over() -> None:
    rig = Rig()
    rig.log.append(
        build_batch([Record(0, 0, b"\x00\x63later", b"x"), Record(1, 0, b"\x00\x07\x00\x01a", bytes(5) + b"\x01\x00")])
    )
    await rig.start()
    assert await rig.numbers() == {"a": 1}


@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, None, b"x"),
        Record(0, 0, b"\x00", b"x"),
        Record(0, 0, b"\x00\x07a", b"\x00\x09????"),
        Record(0, 0, b"\x00\x07a", b"\x00\x00"),
    ],
    ids=["no key", "key too short", "value version", "value cut"],
)
async def test_a_log_that_makes_no_sense_leaves_the_shard_unavailable(record: Record) -> None:
    rig = Rig()
    rig.log.append(build_batch([record]))
    await rig.start()
    with pytest.raises(NotCoordinator):
        await rig.numbers()

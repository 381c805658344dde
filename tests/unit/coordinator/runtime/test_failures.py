"""What the runtime does about appends that fail, and about bugs of its state machines."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.runtime.outcome import Outcome, ProducerEpoch
from protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorage,
    NotCoordinator,
    NotEnoughReplicas,
    UnknownServerError,
)
from tests.unit.coordinator.runtime.register import Register, Rig, number


async def test_an_append_that_the_records_are_to_blame_for_fails_alone() -> None:
    rig = await Rig().start()
    await rig.runtime.write(0, lambda state: state.put("a", 1))
    heard: list[KafkaError | None] = []
    long = "x" * rig.log.max_batch_bytes
    too_large = rig.runtime.write(0, lambda state: state.put(long, 1, effects=heard.append))
    with pytest.raises(UnknownServerError):
        await too_large
    assert [type(error) for error in heard] == [UnknownServerError]
    assert await rig.numbers() == {"a": 1}


async def test_records_that_cannot_be_encoded_fail_alone_too() -> None:
    """For instance a member id too long for a record: its effects get the error, and the mailbox goes on."""

    def two(state: Register) -> Outcome[Any]:
        state.context.tell(lambda state: state.put("later", 1))
        return state.put("a", 1 << 32, effects=heard.append)

    rig = await Rig().start()
    heard: list[Any] = []
    with pytest.raises(UnknownServerError):
        await rig.runtime.write(0, two)
    assert [type(error) for error in heard] == [UnknownServerError]
    assert await rig.numbers() == {"later": 1}


async def test_a_fenced_producer_is_told_so() -> None:
    rig = await Rig().start()
    rig.log.fail_with = InvalidProducerEpoch()
    with pytest.raises(InvalidProducerEpoch):
        await rig.runtime.write(0, lambda _: Outcome((number("a", 1),), transaction=ProducerEpoch(5, 0)))
    rig.log.fail_with = None
    assert await rig.numbers() == {}


REFUSALS = pytest.mark.parametrize(
    ("error", "translated"), [(NotEnoughReplicas(), CoordinatorNotAvailable), (KafkaStorage(), NotCoordinator)]
)


@REFUSALS
async def test_an_append_that_the_log_refuses_fails_alone(error: KafkaError, translated: type[KafkaError]) -> None:
    """A full disk, say: nothing of it is in the log, so the state still is what the log has."""
    rig = await Rig().start()
    rig.log.hold = True
    parked = rig.runtime.write(0, lambda state: state.put("a", 1))
    waiting = rig.runtime.write(0, lambda state: Outcome(reply=state.context.waiter()))
    rig.log.fail_with = error
    heard: list[KafkaError | None] = []
    with pytest.raises(translated):
        await rig.runtime.write(0, lambda state: state.put("b", 2, effects=heard.append))
    assert [type(one) for one in heard] == [translated]
    assert not parked.done()
    rig.log.fail_with = None
    assert not rig.runtime.write(0, lambda state: state.put("c", 3)).done()
    rig.log.commit()
    assert await parked == "a=1"
    assert await rig.numbers() == {"a": 1, "c": 3}
    assert not waiting.done()


@REFUSALS
async def test_a_failing_log_fails_everything_held_back_with_one_error_and_loads_anew(
    error: KafkaError, translated: type[KafkaError]
) -> None:
    rig = await Rig().start()
    await rig.runtime.write(0, lambda state: state.put("a", 1))
    rig.log.hold = True
    parked = [
        rig.runtime.write(0, lambda state: state.put("b", 2)),
        rig.runtime.write(0, lambda state: state.put("c", 2)),
    ]
    waiting = rig.runtime.write(0, lambda state: Outcome(reply=state.context.waiter()))
    rig.log.fail(error)
    for future in parked:
        with pytest.raises(translated):
            await future
    with pytest.raises(NotCoordinator):
        await waiting
    rig.log.hold = False
    await rig.runtime.loaded()
    rig.log.commit()
    assert await rig.numbers() == {"a": 1, "b": 2, "c": 2}


async def test_an_append_that_fails_unexpectedly_starts_the_shard_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records may be in the log: what it has is what counts."""

    def breaking(batch: bytearray) -> int:
        append(batch)
        raise OSError("too late")

    rig = await Rig().start()
    append = rig.log.append
    with monkeypatch.context() as patch:
        patch.setattr(rig.log, "append", breaking)
        with pytest.raises(UnknownServerError):
            await rig.runtime.write(0, lambda state: state.put("a", 1))
    await rig.runtime.loaded()
    assert await rig.numbers() == {"a": 1}


async def test_effects_do_not_touch_a_state_that_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that goes offline reports it before its append has failed."""

    def going_offline(_: bytearray) -> int:
        rig.log.fail(KafkaStorage())
        raise KafkaStorage

    rig = await Rig().start()
    heard: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(rig.log, "append", going_offline)
        with pytest.raises(NotCoordinator):
            await rig.runtime.write(0, lambda state: state.put("a", 1, effects=heard.append))
    assert heard == []
    await rig.runtime.loaded()
    assert await rig.numbers() == {}


async def test_a_high_watermark_that_never_comes_fails_what_waits_for_it() -> None:
    rig = await Rig().start()
    rig.log.hold = True
    parked = rig.runtime.write(0, lambda state: state.put("a", 1))
    rig.log.fail(KafkaStorage())
    with pytest.raises(NotCoordinator):
        await parked
    with pytest.raises(CoordinatorLoadInProgress):
        await rig.runtime.write(0, lambda state: state.put("b", 1))


async def test_a_bug_in_an_operation_is_answered_and_nothing_is_written() -> None:
    def broken(state: Register) -> Outcome[None]:
        raise ZeroDivisionError

    rig = await Rig().start()
    with pytest.raises(UnknownServerError):
        await rig.runtime.write(0, broken)
    assert rig.log.written == []
    assert await rig.runtime.write(0, lambda state: state.put("a", 1)) == "a=1"


async def test_a_bug_in_effects_starts_the_shard_over() -> None:
    def broken(error: KafkaError | None) -> None:
        raise ZeroDivisionError

    rig = await Rig().start()
    with pytest.raises(UnknownServerError):
        await rig.runtime.write(0, lambda state: state.put("a", 1, effects=broken))
    await rig.runtime.loaded()
    assert await rig.numbers() == {"a": 1}


@pytest.mark.long
async def test_a_bug_in_replay_leaves_no_half_applied_state_behind() -> None:
    rig = await Rig().start()
    with pytest.raises(UnknownServerError):
        await rig.runtime.write(0, lambda _: Outcome((number("a", 1), number("b", 666))))
    await rig.runtime.loaded()
    with pytest.raises(NotCoordinator):  # the log holds what cannot be replayed
        await rig.numbers()


async def test_what_is_not_committed_in_time_is_refused_and_may_be_committed_later() -> None:
    rig = await Rig(write_timeout_ms=5_000).start()
    rig.log.hold = True
    first = rig.runtime.write(0, lambda state: state.put("a", 1))
    await rig.clock.run(3_000)
    second = rig.runtime.write(0, lambda state: state.put("b", 2))
    await rig.clock.run(1_900)
    assert not first.done()
    await rig.clock.run(200)
    assert isinstance(first.exception(), CoordinatorNotAvailable)
    assert not second.done()
    rig.log.commit()
    assert await second == "b=2"
    assert await rig.numbers() == {"a": 1, "b": 2}


async def test_an_answer_that_came_while_another_waited_gets_a_whole_timeout_of_its_own() -> None:
    rig = await Rig(write_timeout_ms=5_000).start()
    rig.log.hold = True
    rig.runtime.write(0, lambda state: state.put("a", 1)).add_done_callback(lambda done: done.exception())
    await rig.clock.run(3_000)
    second = rig.runtime.write(0, lambda state: state.put("b", 2))
    await rig.clock.run(4_900)
    assert not second.done()
    await rig.clock.run(5_200)
    assert isinstance(second.exception(), CoordinatorNotAvailable)
    rig.log.hold = False
    assert await rig.runtime.write(0, lambda state: state.put("c", 3)) == "c=3"


async def test_a_shard_that_is_unloaded_has_no_timeout_left() -> None:
    rig = await Rig(write_timeout_ms=5_000).start()
    rig.log.hold = True
    parked = rig.runtime.write(0, lambda state: state.put("a", 1))
    rig.runtime.unload(0)
    assert isinstance(parked.exception(), NotCoordinator)
    await rig.clock.run(10_000)
    rig.log.hold = False
    await rig.start()
    rig.log.commit()
    assert await rig.numbers() == {"a": 1}

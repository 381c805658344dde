"""The purgatory: each operation completes once, by its condition or by its timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.doubles.clock import ManualClock
from timing.purgatory import DelayedOperation, Purgatory
from timing.wheel import TimingWheel


class Operation(DelayedOperation):
    def __init__(self, condition: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self.condition = condition
        self.tries = 0
        self.events: list[str] = []

    def try_complete(self) -> bool:
        self.tries += 1
        return self.condition() and self.force_complete()

    def on_complete(self) -> None:
        self.events.append("complete")

    def on_expiration(self) -> None:
        self.events.append("expire")


class Rig:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.wheel = TimingWheel(self.clock)
        self.purgatory = Purgatory("Fetch", self.wheel)

    def sizes(self) -> tuple[int, int, int]:
        return self.purgatory.watched, self.purgatory.delayed, len(self.wheel)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_operation_that_can_complete_never_waits(rig: Rig) -> None:
    operation = Operation(lambda: True)
    assert rig.purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert (operation.events, operation.tries, rig.sizes()) == (["complete"], 1, (0, 0, 0))


def test_the_second_try_catches_what_happened_while_watching_began(rig: Rig) -> None:
    operation = Operation(lambda: operation.tries == 2)
    assert rig.purgatory.try_complete_else_watch(operation, ["a", "b"], 100)
    assert (operation.events, rig.sizes()) == (["complete"], (0, 0, 0))


def test_completion_by_one_key_leaves_all_keys_and_the_timer(rig: Rig) -> None:
    ready: set[str] = set()
    operation = Operation(lambda: "b" in ready)
    assert not rig.purgatory.try_complete_else_watch(operation, ["a", "b", "b"], 100)
    assert rig.sizes() == (2, 1, 1)
    assert rig.purgatory.check_and_complete("a") == 0
    assert rig.purgatory.check_and_complete("unknown") == 0
    ready.add("b")
    assert rig.purgatory.check_and_complete("b") == 1
    assert rig.sizes() == (0, 0, 0)
    rig.clock.advance(1000)
    assert operation.events == ["complete"]


def test_the_timeout_completes_and_then_expires(rig: Rig) -> None:
    operation = Operation()
    rig.purgatory.try_complete_else_watch(operation, ["a"], 100)
    rig.clock.advance(99)
    assert operation.events == []
    rig.clock.advance(1)
    assert operation.events == ["complete", "expire"]
    assert rig.sizes() == (0, 0, 0)
    assert not operation.force_complete()


def test_force_complete_from_outside_leaves_the_purgatory_once(rig: Rig) -> None:
    operation = Operation()
    rig.purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert operation.force_complete()
    assert not operation.force_complete()
    assert (operation.events, operation.completed, rig.sizes()) == (["complete"], True, (0, 0, 0))


def test_operations_are_tried_in_the_order_of_waiting_and_may_complete_each_other(rig: Rig) -> None:
    ready = False
    order: list[str] = []
    operations: dict[str, Operation] = {}

    class Chained(Operation):
        def __init__(self, name: str) -> None:
            super().__init__(lambda: ready)
            self.name = name

        def on_complete(self) -> None:
            order.append(self.name)
            if self.name == "first":
                operations["third"].force_complete()

    for name in ("first", "second", "third"):
        operations[name] = Chained(name)
        rig.purgatory.try_complete_else_watch(operations[name], ["a"], 100)
    ready = True
    assert rig.purgatory.check_and_complete("a") == 2
    assert order == ["first", "third", "second"]


def test_an_operation_added_while_its_key_is_checked_waits(rig: Rig) -> None:
    added = Operation()
    first = Operation(lambda: first.tries > 2)
    first.on_complete = lambda: rig.purgatory.try_complete_else_watch(added, ["a"], 50)  # type: ignore[assignment]
    rig.purgatory.try_complete_else_watch(first, ["a"], 100)
    assert rig.purgatory.check_and_complete("a") == 1
    assert rig.sizes() == (1, 1, 1)
    rig.clock.advance(50)
    assert added.events == ["complete", "expire"]


async def test_an_exception_in_one_operation_leaves_the_others_and_the_caller_alone(rig: Rig) -> None:
    contexts: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    bad = Operation(lambda: bad.tries > 2 and 1 // 0 == 0)
    good = Operation(lambda: good.tries > 2)
    for operation in (bad, good):
        rig.purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert rig.purgatory.check_and_complete("a") == 1
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError]
    rig.clock.advance(100)
    assert bad.events == ["complete", "expire"]


def test_watching_tries_once_when_the_keys_are_watched(rig: Rig) -> None:
    ready = Operation(lambda: rig.purgatory.watchers.keys() == {"a"})
    assert rig.purgatory.watch(ready, ["a"], 100)
    assert (ready.tries, rig.sizes()) == (1, (0, 0, 0))
    waiting = Operation()
    assert not rig.purgatory.watch(waiting, ["a"], 100)
    assert (waiting.tries, rig.sizes()) == (1, (1, 1, 1))


async def test_when_all_are_completed_an_exception_in_one_leaves_the_others_and_the_caller_alone(rig: Rig) -> None:
    class Bad(Operation):
        def on_complete(self) -> None:
            raise ZeroDivisionError

    contexts: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
    good = Operation()
    for key, operation in (("a", Bad()), ("a", good), ("b", Bad())):
        rig.purgatory.try_complete_else_watch(operation, [key], 100)
    rig.purgatory.complete_all()
    assert good.events == ["complete"]
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError] * 2
    assert rig.sizes() == (0, 0, 0)


@pytest.mark.parametrize("failing_try", [1, 2])
def test_an_exception_of_the_first_tries_is_the_callers_and_nothing_waits(rig: Rig, failing_try: int) -> None:
    operation = Operation(lambda: operation.tries == failing_try and 1 // 0 == 0)
    with pytest.raises(ZeroDivisionError):
        rig.purgatory.try_complete_else_watch(operation, ["a"], 100)
    assert rig.sizes() == (0, 0, 0)


def test_an_operation_without_keys_is_refused(rig: Rig) -> None:
    with pytest.raises(ValueError, match="keys"):
        rig.purgatory.try_complete_else_watch(Operation(), [], 100)


@pytest.mark.long
def test_only_the_operations_of_the_key_are_tried_among_tens_of_thousands(rig: Rig) -> None:
    operations = [Operation() for _ in range(20_000)]
    for i, operation in enumerate(operations):
        rig.purgatory.try_complete_else_watch(operation, [i % 10_000, "all"], 500)
    assert rig.sizes() == (40_000, 20_000, 20_000)
    rig.purgatory.check_and_complete(7)
    assert [i for i, operation in enumerate(operations) if operation.tries == 3] == [7, 10_007]
    rig.clock.advance(500)
    assert all(operation.events == ["complete", "expire"] for operation in operations)
    assert rig.sizes() == (0, 0, 0)

"""A small state machine for the runtime's tests: named numbers, and numbers that wait for their transaction."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from coordinator.runtime.coordinator_context import CoordinatorContext
from coordinator.runtime.coordinator_shard import RecordRow, rows_by_id
from coordinator.runtime.outcome import CoordinatorRecord, Outcome, Position
from coordinator.runtime.runtime import CoordinatorRuntime
from protocol.coordinator_records.record_schema import RecordSchema
from protocol.declared import Int32, Stored, String
from tests.doubles.clock import ManualClock
from tests.unit.coordinator.memory_log import MemoryLog
from timing.wheel import TimingWheel


class _Name(NamedTuple):
    name: String


class _Number(NamedTuple):
    number: Int32


def numbers(name: str, record_id: int) -> RecordSchema[str, int]:
    """A type of records: numbers by name."""
    key, value = (Stored(kind, itemgetter(0), lambda content: (content,)) for kind in (_Name, _Number))
    return RecordSchema(name, (record_id,), key, value)


NUMBER = numbers("Number", 7)


def number(name: str, value: int | None) -> CoordinatorRecord:
    return CoordinatorRecord(NUMBER, name, value)


class Register:
    """Durable: `numbers`, `pending`. Soft: `waiters`."""

    def __init__(self, context: CoordinatorContext[Register]) -> None:
        self.context = context
        self.numbers: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.waiters: list[Any] = []
        self.events: list[str] = []

    def replay(self, key: str, value: int | None, position: Position) -> None:
        if value == 666:
            raise RuntimeError("a bug in replay")
        if position.producer_id >= 0:
            self.pending.setdefault(position.producer_id, {})[key] = value or 0
        elif value is None:
            self.numbers.pop(key, None)
        else:
            self.numbers[key] = value

    def replay_end_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        ended = self.pending.pop(producer_id, {})
        if committed:
            self.numbers |= ended

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self) -> None:
        self.events.append("unloaded")

    def put(self, name: str, value: int | None, effects: Callable[[Any], None] | None = None) -> Outcome[str]:
        return Outcome((number(name, value),), reply=f"{name}={value}", effects=effects)

    def put_later(self, delay_ms: int, value: int) -> None:
        """Set the timer "t", which writes the number "t"."""
        self.context.timers.schedule("t", delay_ms, lambda state: state.put("t", value))


ROWS = rows_by_id((RecordRow(NUMBER, Register.replay),))


class Rig:
    """A runtime over in-memory logs in virtual time."""

    def __init__(self, write_timeout_ms: float | None = None) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.runtime: CoordinatorRuntime[Register] = CoordinatorRuntime(
            "numbers",
            ROWS,
            Register,
            clock=self.clock,
            wheel=TimingWheel(self.clock),
            write_timeout_ms=write_timeout_ms,
        )

    async def start(self) -> Rig:
        self.runtime.load(0, self.log)
        await self.runtime.loaded()
        return self

    async def numbers(self) -> dict[str, int]:
        return await self.runtime.read(0, lambda state: dict(state.numbers))

"""The changes that an operation on a consumer group has collected so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from coordinator.group.consumer.group import ConsumerGroup
from coordinator.runtime.outcome import CoordinatorRecord, Outcome
from protocol.errors import KafkaError

T = TypeVar("T")


class Change:
    """The records to write, and what to do about soft state (timers, waiters) once they are written.

    `epoch` is the group's new epoch, None if it stays. `otherwise` runs if the records could not be written.
    """

    __slots__ = ("after", "epoch", "otherwise", "records")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.after: list[Callable[[], None]] = []
        self.epoch: int | None = None
        self.otherwise: Callable[[], None] | None = None

    def epoch_of(self, group: ConsumerGroup) -> int:
        return group.epoch if self.epoch is None else self.epoch

    def outcome(self, reply: T) -> Outcome[T]:
        return Outcome(self.records, reply, self._effects if self.after else None)

    def _effects(self, error: KafkaError | None) -> None:
        if error is None:
            for effect in self.after:
                effect()
        elif self.otherwise is not None:
            self.otherwise()

"""Values of the in-flight state of a share partition: records' states, runs of records, changes, and what limits them.

A run is records next to each other that share a state (Kafka's `RecordState`, KIP-932), a member and a count of
deliveries. A `RunsChange` says which runs are to have another state, once that is persisted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from protocol.coordinator_records.share_records import StateBatch

MIN_THROTTLED_DELIVERIES = 2


class RecordState(IntEnum):
    """Numbers as in the records of `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is never delivered again and holds nothing up."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    """A consumer's verdict on a record; numbers as on the wire (ShareFetch, ShareAcknowledge)."""

    GAP = 0
    """There is no such record, for instance because it was compacted away."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class LetterCause(IntEnum):
    """Why a record is given up and goes to the dead letter queue."""

    REJECTED = 0
    TOO_MANY_DELIVERIES = 1


@dataclass(slots=True)
class Run:
    """Neighbouring records in one state.

    Attributes:
        first, last: offsets, both inclusive.
        delivery_count: how often they were acquired.
        member_id: who has acquired them; empty unless the state is `ACQUIRED`.
        locked_until_ms: when the lock of the acquisition ends, of the monotonic clock.
        batch_size: records of the range in which they were acquired first.
        changing: part of a change that is not yet persisted.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    locked_until_ms: float = 0.0
    batch_size: int = 0
    changing: bool = False

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def most_at_once(self, max_deliveries: int) -> int | None:
        """How many of the records come at once, None for all: near the limit a bad record is separated from good ones.

        From half of the allowed deliveries on, half of the batch; the last time one record alone (KIP-1249).
        """
        if max_deliveries <= MIN_THROTTLED_DELIVERIES:
            return None
        begin = max(MIN_THROTTLED_DELIVERIES, (max_deliveries + 1) // 2)
        if self.delivery_count < begin:
            return None
        if self.delivery_count >= max_deliveries - 1:
            return 1
        return max(1, self.batch_size >> (self.delivery_count - begin + 1))


@dataclass(frozen=True, slots=True)
class Acquired:
    """A range of offsets that a member has just acquired."""

    first: int
    last: int
    delivery_count: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class RunsChange:
    """Runs that are to have another state; `given_up` says for those that go to `ARCHIVING` why."""

    runs: list[tuple[Run, RecordState]] = field(default_factory=list)
    given_up: list[tuple[Run, LetterCause]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.runs)

    def add(self, run: Run, state: RecordState, cause: LetterCause | None = None) -> None:
        run.changing = True
        self.runs.append((run, state))
        if cause is not None and state is RecordState.ARCHIVING:
            self.given_up.append((run, cause))

    def release(self, run: Run, rules: Rules) -> None:
        """Add the end of an acquisition: the records are available again, or given up at the limit of deliveries."""
        if run.delivery_count >= rules.max_deliveries:
            self.add(run, rules.given_up, LetterCause.TOO_MANY_DELIVERIES)
        else:
            self.add(run, RecordState.AVAILABLE)

    def undo(self) -> None:
        """Leave the runs as they were."""
        for run, _ in self.runs:
            run.changing = False

    def batches(self) -> list[StateBatch]:
        """Return the batches that are to be persisted; empty if everything was overtaken by the log start."""
        return [
            StateBatch(run.first, run.last, int(state), run.delivery_count) for run, state in self.runs if run.count > 0
        ]

    def letters(self) -> list[tuple[Run, LetterCause]]:
        """The runs whose records go to the dead letter queue, but for what was overtaken by the log start."""
        return [(run, cause) for run, cause in self.given_up if run.count > 0]


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the group, as they are now.

    Attributes:
        max_deliveries: `share.delivery.count.limit`.
        max_locks: `share.partition.max.record.locks`, bounds the offsets from the start offset to the end offset.
        lock_ms: `share.record.lock.duration.ms`.
        dead_letters: whether what is given up goes to a dead letter queue.
    """

    max_deliveries: int
    max_locks: int
    lock_ms: float
    dead_letters: bool = False

    @property
    def given_up(self) -> RecordState:
        """The state of records that are given up: they wait for their dead letters, if any are written."""
        return RecordState.ARCHIVING if self.dead_letters else RecordState.ARCHIVED


@dataclass(frozen=True, slots=True)
class Wish:
    """How much a member wants to acquire.

    Attributes:
        max_records: at least 1; rounded up to whole record batches unless `exact`.
        batch_size: ranges are cut at the first record batch that ends after so many records; below 1 is as 1.
        exact: KIP-1206's record limit mode: never more than `max_records`.
    """

    max_records: int
    batch_size: int
    exact: bool = False

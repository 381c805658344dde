"""A state machine that a CoordinatorContext drives, and the table of the records that change it.

The interface is Kafka's CoordinatorShard. A shard's durable state is a function of its log: only `replay` functions and
`replay_end_marker` change it, in the log's order, and they do the same whether a record was written just now or is read
during a load. So a shard that was loaded from the log equals the one that wrote it. Soft state (who waits, timers) is
not in the log; operations change it in their effects, and it is gone with the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.runtime.outcome import Position
from protocol.coordinator_records.record_schema import RecordSchema

Replay = Callable[[Any, Any, Any, Position], None]
"""`replay(state, key, value, position)`; value None is a tombstone."""


class CoordinatorShard(Protocol):
    """Kafka's CoordinatorShard. Only the rows' replay functions and `replay_end_marker` change durable state."""

    def replay_end_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Apply the end of a transaction: what its producer wrote counts from now on, or never will."""

    def loaded(self) -> None:
        """Everything in the log has been replayed, and operations may come."""

    def unloaded(self) -> None:
        """Given up; nothing is called after this."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record type and what it does to the state.

    `last_value_counts`: outside of transactions a value replaces whatever earlier ones of its key did, so of several in
    a row only the last is replayed (see `LogReplay`). A tombstone is always replayed.
    """

    schema: RecordSchema[Any, Any]
    replay: Replay
    last_value_counts: bool = False


def rows_by_id(rows: Iterable[RecordRow]) -> Mapping[int, RecordRow]:
    """The rows by every id that may be in their keys."""
    return {record_id: row for row in rows for record_id in row.schema.ids}

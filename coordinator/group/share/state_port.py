"""What share groups ask of the share coordinator, which may be on another node."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol
from uuid import UUID

from protocol.errors import KafkaError

Topics = Mapping[UUID, Collection[int]]
"""Partition indexes by topic id."""


class ShareStatePort(Protocol):
    """Requests whose end is told to `done`, with an error if there was one: later, and perhaps never."""

    def initialize(
        self, group_id: str, topics: Topics, state_epoch: int, done: Callable[[KafkaError | None], None]
    ) -> None:
        """Make a state for these partitions, whose start offset the first fetch decides."""

    def delete(self, group_id: str, topics: Topics) -> None:
        """Forget the state of these partitions, as a group that is deleted wants it."""

"""What the coordinator needs to know of existing topics (Kafka's MetadataImage)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID


class TopicImage(NamedTuple):
    """A topic; `racks` are those of each partition's replicas, sorted; replicas without a rack add none."""

    name: str
    id: UUID
    racks: Sequence[Sequence[str]]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


class TopicsPort(Protocol):
    """The current topics."""

    @property
    def version(self) -> int:
        """A number that rises with every change of a topic and never falls, even across restarts."""

    @property
    def newest(self) -> int:
        """The version at which the last topic was created; at first, the version at startup."""

    def by_name(self, name: str) -> TopicImage | None: ...

    def by_id(self, topic_id: UUID) -> TopicImage | None: ...

    def names(self) -> Iterable[str]:
        """Every topic's name, internal ones included."""

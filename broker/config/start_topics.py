"""The topics of `odradek.create.topics`: `name:partitions:replicas:cleanup.policy`, as in KAFKA_CREATE_TOPICS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from broker.config.definition import parse_integer


@dataclass(frozen=True, slots=True)
class StartTopic:
    """A topic to make if it does not exist; -1 and None are the broker's defaults."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    cleanup_policy: str | None = None


def parse_start_topics(text: str) -> list[StartTopic]:
    """The topics, which commas or line ends separate. Raises ValueError with the first that is wrong."""
    return [_parse(entry) for entry in _entries(text)]


def _entries(text: str) -> Iterator[str]:
    return (entry.strip() for entry in re.split(r"[,\n]", text) if entry.strip())


def _parse(entry: str) -> StartTopic:
    name, *rest = (part.strip() for part in entry.split(":"))
    counts = [parse_integer(part, 32) for part in rest[:2]]
    wrong = not name or len(rest) > 3 or any(count is None or count < 1 for count in counts)
    if wrong:
        raise ValueError(f"{entry!r} is not name:partitions:replicas:cleanup.policy, of which the last may be left out")
    partitions, replication_factor = [*(count or -1 for count in counts), -1, -1][:2]
    return StartTopic(name, partitions, replication_factor, rest[2] if len(rest) > 2 else None)

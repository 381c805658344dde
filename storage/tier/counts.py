"""What was copied to remote storage, read from it and removed, in all and by topic (Kafka's `RemoteStorageMetrics`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import Enum


class Count(Enum):
    """What is counted, by the names of Kafka's metrics, and what it means."""

    COPY_BYTES = "remotecopybytes", "Bytes of segments that were copied to remote storage."
    COPY_REQUESTS = "remotecopyrequests", "Segments that were copied to remote storage."
    COPY_ERRORS = "remotecopyerrors", "Copies of segments that failed."
    FETCH_BYTES = "remotefetchbytes", "Bytes of records that were read from remote storage."
    FETCH_REQUESTS = "remotefetchrequests", "Reads from remote storage."
    FETCH_ERRORS = "remotefetcherrors", "Reads from remote storage that failed."
    DELETE_REQUESTS = "remotedeleterequests", "Segments that were removed from remote storage."
    DELETE_ERRORS = "remotedeleteerrors", "Removals from remote storage that failed."
    BUILD_REQUESTS = "buildremotelogauxstaterequests", "Replicas that were to begin behind what is in remote storage."
    BUILD_ERRORS = "buildremotelogauxstateerrors", "Replicas that could not begin behind what is in remote storage."


class TierCounts:
    """Plain numbers for metrics."""

    def __init__(self) -> None:
        self._totals: Counter[Count] = Counter()
        self._by_topic: defaultdict[str, Counter[Count]] = defaultdict(Counter)

    def add(self, what: Count, topic: str, amount: int = 1) -> None:
        self._totals[what] += amount
        self._by_topic[topic][what] += amount

    def total(self, what: Count) -> int:
        """Over all topics, also deleted ones."""
        return self._totals[what]

    def by_topic(self, what: Count) -> Iterator[tuple[tuple[str], int]]:
        return (((topic,), counts[what]) for topic, counts in self._by_topic.items() if what in counts)

    def forget(self, topic: str) -> None:
        """Note that a topic is deleted."""
        self._by_topic.pop(topic, None)

"""The broker's counts, as plain ints: cheap to count while serving requests, and read only on demand.

`broker/observe/collector.py` renders it for Prometheus under the names that the JMX exporter gives Kafka's metrics;
only that module knows prometheus_client. The rules of counting are Kafka's `BrokerTopicMetrics` and `RequestMetrics`.

The series of a metric are bounded: so many topics, groups and clients have their own, the rest are summed as `other`.
Those that came first keep their own series, as long as they exist. `RecentRates` are those of the last half minute, for
metrics that Kafka gives as rates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from itertools import accumulate
from typing import TypeVar

from kio.schema.errors import ErrorCode

OTHER = "other"
FIRST_LABEL = slice(0, 1)

K = TypeVar("K", bound=Hashable)
Rows = Iterable[tuple[tuple[str, ...], float]]
"""Pairs of label values and a number."""


@dataclass(frozen=True, slots=True)
class SeriesLimits:
    """How many have their own series (`odradek.metrics.max.topics`, `odradek.metrics.max.clients`)."""

    topics: int = 1000
    clients: int = 1000


def first(names: Iterable[K], most: int) -> frozenset[K]:
    """The first names that differ, as many as may have their own series."""
    found: dict[K, None] = {}
    for name in names:
        if len(found) == most and name not in found:
            break
        found[name] = None
    return frozenset(found)


def bounded(rows: Rows, most: int, key: slice = FIRST_LABEL) -> Rows:
    """The rows whose labels `key` are among the first; the others as one, `other`: their sum, without more labels."""
    rows = list(rows)
    own = first((labels[key] for labels, _ in rows), most)
    result: dict[tuple[str, ...], float] = defaultdict(float)
    for labels, value in rows:
        if labels[key] in own:
            result[labels] += value
        else:
            places = range(len(labels))
            result[tuple(OTHER if place in places[key] else "" for place in places)] += value
    return result.items()


TIME_BOUNDS_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000)
"""Upper bounds of the buckets of a request's time, in ms; long polls and slow joins fill the upper ones."""

LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
"""Upper bounds of the buckets of the loop's lag, in seconds."""

Labelled = Iterable[tuple[tuple[str, ...], float]]
Values = float | Labelled | Callable[[], Labelled]


class Histogram:
    """Counts of observed values in buckets with fixed upper bounds, which are inclusive."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """For each bound, and last for infinity, the number of values not above it."""
        return list(accumulate(self.counts))


def bound_of(bounds: Sequence[float], counts: Sequence[float], share: float) -> float:
    """The bound of the bucket up to which this share of the values lies, at most the largest; 0 without values."""
    left = sum(counts) * share
    for bound, count in zip((*bounds, bounds[-1]), counts, strict=True):
        left -= count
        if left <= 0 and count:
            return bound
    return 0.0


@dataclass(slots=True)
class TopicCounters:
    """Kafka's `BrokerTopicMetrics` of one topic. A request counts once for each partition that it names."""

    messages_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    total_produce_requests: int = 0
    total_fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0

    def add(self, other: TopicCounters) -> None:
        for field in fields(other):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class RequestCounters:
    """Kafka's `RequestMetrics` of one API.

    Most requests are answered at once, and all of their time is local. Of those that waited for something else (new
    data, other members, other brokers) the histograms `waited_` have all of the time and its two parts.
    """

    __slots__ = ("by_version", "errors", "total_time_ms", "waited_local_ms", "waited_remote_ms", "waited_total_ms")

    def __init__(self) -> None:
        self.by_version: dict[int, int] = defaultdict(int)
        self.errors: dict[ErrorCode, int] = {}
        self.total_time_ms = Histogram(TIME_BOUNDS_MS)
        self.waited_total_ms = Histogram(TIME_BOUNDS_MS)
        self.waited_local_ms = Histogram(TIME_BOUNDS_MS)
        self.waited_remote_ms = Histogram(TIME_BOUNDS_MS)

    def done(self, version: int, total_ms: float) -> None:
        """Count a request that was answered `total_ms` after it was read."""
        self.by_version[version] += 1
        times = self.total_time_ms  # observed in line: for a heartbeat even a call matters
        times.counts[bisect_left(times.bounds, total_ms)] += 1
        times.sum += total_ms

    def waited(self, total_ms: float, remote_ms: float) -> None:
        """Count the time that a request, which is `done`, has waited for something else."""
        self.waited_total_ms.observe(total_ms)
        self.waited_local_ms.observe(total_ms - remote_ms)
        self.waited_remote_ms.observe(remote_ms)

    def local_counts(self) -> list[int]:
        """By bucket, how many requests kept the broker busy for so long."""
        parts = (self.total_time_ms.counts, self.waited_total_ms.counts, self.waited_local_ms.counts)
        return [total - waited + local for total, waited, local in zip(*parts, strict=True)]

    def remote_counts(self) -> list[int]:
        """By bucket, how many requests waited for something else for so long; most waited for nothing."""
        at_once = sum(self.total_time_ms.counts) - sum(self.waited_total_ms.counts)
        first, *others = self.waited_remote_ms.counts
        return [at_once + first, *others]


class MetricKind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric that is read when scraped: a number or, with labels, pairs of label values and a number.

    `read` is called on the loop. It may instead return a function that gives the pairs, which is called in any thread.
    """

    kind: MetricKind
    name: str
    documentation: str
    labels: tuple[str, ...]
    read: Callable[[], Values]
    permanent: bool = False


Labels = tuple[tuple[str, str], ...]
"""Pairs of a label and its value."""


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as it is now, whose name and labels were not known before."""

    kind: MetricKind
    name: str
    documentation: str
    rows: Sequence[tuple[Labels, float]]


class Metrics:
    """All counters of a node, and the readings that its modules registered."""

    def __init__(self, most: SeriesLimits | None = None) -> None:
        self.most = most or SeriesLimits()
        self.topics = defaultdict[str, TopicCounters](TopicCounters)
        self.deleted_topics = TopicCounters()
        """Counts of deleted topics, so that the sums over all topics never fall."""
        self.follower_fetches = 0
        """Fetch requests that followers have sent; the others are of consumers."""
        self._consumer_fetches = 0
        self.requests = defaultdict[str, RequestCounters](RequestCounters)
        self.readings: dict[str, Reading] = {}
        self.families: list[Callable[[], Iterable[Family]]] = []
        """Asked at every scrape for metrics that nobody registered."""
        self.questions: list[Callable[[], Awaitable[None]]] = []
        """Put to other brokers before every scrape."""
        self.walks: list[Callable[[], Iterator[None]]] = []
        """Run through at every scrape before anything is read; the loop gets a turn at each step."""
        self.loop_lag_s = Histogram(LAG_BOUNDS_S)

    # -- while serving requests

    def produced(self, topic: str, messages: int, size: int) -> None:
        """Count a batch of `messages` records in `size` bytes that was appended to a partition."""
        counters = self.topics[topic]
        counters.total_produce_requests += 1
        counters.messages_in += messages
        counters.bytes_in += size

    def produce_failed(self, topic: str) -> None:
        """Count an append that failed in a way that Kafka does not expect (`ReplicaManager.appendToLocalLog`)."""
        counters = self.topics[topic]
        counters.total_produce_requests += 1
        counters.failed_produce_requests += 1

    def fetched(self, topic: str, partitions: int, size: int) -> None:
        """Count a read of partitions of a topic for a client, which gets `size` bytes."""
        counters = self.topics[topic]
        counters.total_fetch_requests += partitions
        counters.bytes_out += size

    def fetch_failed(self, topic: str) -> None:
        """Count a read that failed, after `fetched`, as Kafka does not expect it (`ReplicaManager.readFromLog`)."""
        self.topics[topic].failed_fetch_requests += 1

    def request_error(self, api: str, error: ErrorCode) -> None:
        """Count an error in an answer, or in one entry of it. `api` is its snake-case name."""
        errors = self.requests[api].errors
        errors[error] = errors.get(error, 0) + 1

    # -- elsewhere

    def topic_deleted(self, topic: str) -> None:
        """Stop reporting a topic, as Kafka's `BrokerTopicStats.removeMetrics` does."""
        counters = self.topics.pop(topic, None)
        if counters is not None:
            self.deleted_topics.add(counters)

    def all_topics(self) -> TopicCounters:
        total = TopicCounters()
        total.add(self.deleted_topics)
        for counters in self.topics.values():
            total.add(counters)
        return total

    def fetches_answered(self) -> tuple[int, int]:
        """The Fetch requests of consumers and of followers. A follower's counts from when it was sent.

        So what is left for consumers may be too small for a moment; it never falls.
        """
        left = sum(self.requests["fetch"].by_version.values()) - self.follower_fetches
        self._consumer_fetches = max(self._consumer_fetches, left)
        return self._consumer_fetches, self.follower_fetches

    def by_topic(self) -> dict[str, TopicCounters]:
        """The counters of the topics that have series of their own, and the sums of the others as `other`."""
        own, found = first(self.topics, self.most.topics), defaultdict[str, TopicCounters](TopicCounters)
        for topic, counters in self.topics.items():
            found[topic if topic in own else OTHER].add(counters)
        return found

    def gauge(self, name: str, documentation: str, labels: Sequence[str], read: Callable[[], Values]) -> None:
        """Register a value that may rise and fall; it is read at every scrape.

        `read` returns a number or, with `labels`, pairs of a tuple of label values (in their order) and a number.
        Raises ValueError if the name is taken.
        """
        self._register(Reading(MetricKind.GAUGE, name, documentation, tuple(labels), read))

    def counter(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        read: Callable[[], Values],
        *,
        permanent: bool = False,
    ) -> None:
        """Register, like `gauge`, a count kept elsewhere. Raises ValueError also if the name does not end in `_total`.

        One that is `permanent` belongs to no part of a node that a restored snapshot replaces.
        """
        if not name.endswith("_total"):
            raise ValueError(f"the name of a counter must end in _total: {name}")
        self._register(Reading(MetricKind.COUNTER, name, documentation, tuple(labels), read, permanent))

    def forget_parts(self) -> None:
        """Let go of what the parts of a node registered: others take their place. What is `permanent` stays."""
        self.readings = {name: reading for name, reading in self.readings.items() if reading.permanent}
        self.questions.clear()
        self.walks.clear()
        self.families.clear()

    def _register(self, reading: Reading) -> None:
        if reading.name in self.readings:
            raise ValueError(f"the metric {reading.name} is registered already")
        self.readings[reading.name] = reading


NOTE_MS = 5_000.0
NOTES = 6

Totals = Callable[[], Mapping[tuple[str, ...], float]]


class RecentRates:
    """Notes totals from time to time (`note`, every `NOTE_MS`), and compares them with what they are when asked."""

    def __init__(self, monotonic_ms: Callable[[], float]) -> None:
        self._monotonic_ms = monotonic_ms
        self._noted: list[tuple[Totals, deque[tuple[float, Mapping[tuple[str, ...], float]]]]] = []

    def of(self, totals: Totals) -> Callable[[], Labelled]:
        """A reading of the rates of these totals, by their labels."""
        notes = deque([(self._monotonic_ms(), totals())], NOTES)
        self._noted.append((totals, notes))

        def rates() -> Labelled:
            since_ms, before = notes[0]
            seconds = max(self._monotonic_ms() - since_ms, 1.0) / 1000
            return [(labels, (value - before.get(labels, 0)) / seconds) for labels, value in totals().items()]

        return rates

    async def note(self) -> None:
        """Note all totals as they are now."""
        for totals, notes in self._noted:
            notes.append((self._monotonic_ms(), totals()))

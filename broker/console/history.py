"""What the charts of the console show: rates of the node and of topics, and lags of groups, as they were.

Samples are small, and there are only so many: that bounds the memory. For half an hour there is one every few seconds,
for a day one every few minutes. What a topic does is noted from the time on when somebody first looks at it.
"""

from __future__ import annotations

import asyncio
import importlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import structlog

from broker.node import Node
from broker.observe.metrics import LAG_BOUNDS_S, TIME_BOUNDS_MS, RequestCounters, TopicCounters, bound_of
from protocol.errors import KafkaError
from protocol.topic_partition import PartitionKey

SAMPLE_MS = 5_000
LAG_MS = 10_000

MOST_SAMPLES = 361
"""Half an hour of rates."""

MOST_LAGS = 180
"""Half an hour of lags."""

COARSE_MS = 120_000
MOST_COARSE = 720
"""A day of rates, and of the lags of whole groups."""

MOST_GROUPS = 50
"""Groups whose lags are kept: those that were looked at last and, while these are fewer, any others."""

MOST_TOPICS = 50
"""Topics whose rates are kept: those that were looked at last."""

MOST_PARTITIONS = 32
"""A group with more partitions has only its total kept."""

TOPICS_A_TURN = 500

NO_REQUESTS = RequestCounters()
NOTHING_YET = TopicCounters()


logger = structlog.get_logger(__name__)


class Sample(NamedTuple):
    """Counts since the start, as of `at_ms`, the machine's wall time; `produce` and `loop` are those of buckets."""

    at_ms: int
    messages_in: int
    bytes_in: int
    bytes_out: int
    requests: int
    produce: Sequence[int]
    loop: Sequence[int]


class Rates(NamedTuple):
    """Of the time between two samples: so much a second, and times in ms that 99 of 100 did not exceed."""

    at_ms: int
    messages_in: float
    bytes_in: float
    bytes_out: float
    requests: float
    produce_ms: float
    loop_ms: float


class Lags:
    """The lags of a group, the newest at the end; as many of each partition as of the group, and as there are times.

    `coarse` has the highest lag of the whole group in each few minutes of a day.
    """

    def __init__(self) -> None:
        self.at_ms = array("q")
        self.total = array("q")
        self.partitions: dict[PartitionKey, array[int]] = {}
        self.coarse_at_ms = array("q")
        self.coarse = array("q")

    def add(self, at_ms: int, lags: dict[PartitionKey, int]) -> None:
        if len(lags) > MOST_PARTITIONS:
            self.partitions.clear()
        else:
            before = len(self.total)
            self.partitions = {key: self.partitions.get(key) or array("q", [lag] * before) for key, lag in lags.items()}
            for key, series in self.partitions.items():
                series.append(lags[key])
        total = sum(lags.values())
        self.at_ms.append(at_ms)
        self.total.append(total)
        for series in (self.at_ms, self.total, *self.partitions.values()):
            del series[:-MOST_LAGS]
        if self.coarse and self.coarse_at_ms[-1] // COARSE_MS == at_ms // COARSE_MS:
            self.coarse_at_ms[-1], self.coarse[-1] = at_ms, max(self.coarse[-1], total)
            return
        self.coarse_at_ms.append(at_ms)
        self.coarse.append(total)
        del self.coarse_at_ms[:-MOST_COARSE], self.coarse[:-MOST_COARSE]


class TopicCounts:
    """Counts of a topic since the start, the newest at the end."""

    def __init__(self) -> None:
        self.at_ms, self.messages_in, self.bytes_in, self.bytes_out = (array("q") for _ in range(4))

    def add(self, at_ms: int, counters: TopicCounters) -> None:
        counts = (at_ms, counters.messages_in, counters.bytes_in, counters.bytes_out)
        for series, count in zip((self.at_ms, self.messages_in, self.bytes_in, self.bytes_out), counts, strict=True):
            series.append(count)
            del series[:-MOST_SAMPLES]


class History:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self.coarse: deque[Rates] = deque(maxlen=MOST_COARSE)
        self._coarse_since: Sample | None = None
        self._lags: OrderedDict[str, Lags] = OrderedDict()
        self._topics: OrderedDict[str, TopicCounts] = OrderedDict()

    async def sample(self) -> None:
        """Note the counts as they are now. Thousands of topics are added up in several turns of the loop."""
        metrics = self._node.local.metrics
        deleted = metrics.deleted_topics
        messages_in, bytes_in, bytes_out = deleted.messages_in, deleted.bytes_in, deleted.bytes_out
        for number, counters in enumerate(list(metrics.topics.values())):
            messages_in += counters.messages_in
            bytes_in += counters.bytes_in
            bytes_out += counters.bytes_out
            if number % TOPICS_A_TURN == TOPICS_A_TURN - 1:
                await asyncio.sleep(0)
        requests = sum(sum(one.by_version.values()) for one in metrics.requests.values())
        produce = metrics.requests.get("produce", NO_REQUESTS).total_time_ms.counts
        now_ms = self._node.clock.machine.wall_ms()
        counts = (messages_in, bytes_in, bytes_out, requests, tuple(produce), tuple(metrics.loop_lag_s.counts))
        sample = Sample(now_ms, *counts)
        self.samples.append(sample)
        since = self._coarse_since = self._coarse_since or sample
        if now_ms - since.at_ms >= COARSE_MS:
            self.coarse.append(_rates(since, sample))
            self._coarse_since = sample
        for name in list(self._topics):
            self._sample_topic(name, now_ms)

    def rates(self, *, coarse: bool = False) -> list[Rates]:
        """The rates from each sample to the next, the oldest first; or those of each few minutes of a day."""
        if coarse:
            return list(self.coarse)
        samples = list(self.samples)
        return [_rates(before, after) for before, after in pairwise(samples)]

    # -- topics

    def topic(self, name: str) -> TopicCounts:
        """The counts of a topic that there is, which are kept from now on if they were not yet."""
        if name not in self._topics:
            self._topics[name] = TopicCounts()
            self._sample_topic(name, self._node.clock.machine.wall_ms())
        self._topics.move_to_end(name)
        if len(self._topics) > MOST_TOPICS:
            self._topics.popitem(last=False)
        return self._topics[name]

    def _sample_topic(self, name: str, now_ms: int) -> None:
        """Note the counts of a topic, or forget it if it is gone."""
        if self._node.cluster.cache.topic(name) is None:
            del self._topics[name]
            return
        self._topics[name].add(now_ms, self._node.local.metrics.topics.get(name, NOTHING_YET))

    # -- groups

    def lags(self, group_id: str) -> Lags:
        """The lags of a group, which are kept from now on if they were not yet."""
        found = self._lags.get(group_id)
        if found is None:
            found = self._lags[group_id] = Lags()
        self._lags.move_to_end(group_id)
        if len(self._lags) > MOST_GROUPS:
            self._lags.popitem(last=False)
        return found

    async def sample_lags(self) -> None:
        """Note the lags as they are now; those of groups that are gone are forgotten.

        What reads groups takes a while to load: that waits for the first group, and is done in a thread.
        """
        try:
            if not self._lags and not await self._has_groups():
                return
            await asyncio.to_thread(importlib.import_module, "broker.console.lags")
            from broker.console.lags import lags_of_groups

            found = await lags_of_groups(self._node, list(self._lags), MOST_GROUPS)
        except KafkaError as error:  # a coordinator is loading, or has moved: the next time, then
            logger.debug("lags were not noted for the console", error=str(error))
            return
        for group_id, lags in found.items():
            if lags is None:
                self._lags.pop(group_id, None)
            elif group_id in self._lags or len(self._lags) < MOST_GROUPS:
                self._lags.setdefault(group_id, Lags()).add(self._node.clock.machine.wall_ms(), lags)

    async def _has_groups(self) -> bool:
        for context in self._node.coordinators.groups.runtime.contexts():
            if await context.read(lambda state: any(True for _ in state.groups.all())):
                return True
        return False


def _rates(before: Sample, after: Sample) -> Rates:
    seconds = max(after.at_ms - before.at_ms, 1) / 1000
    return Rates(
        after.at_ms,
        max(after.messages_in - before.messages_in, 0) / seconds,
        max(after.bytes_in - before.bytes_in, 0) / seconds,
        max(after.bytes_out - before.bytes_out, 0) / seconds,
        max(after.requests - before.requests, 0) / seconds,
        _ninety_nine(TIME_BOUNDS_MS, before.produce, after.produce),
        _ninety_nine(LAG_BOUNDS_S, before.loop, after.loop) * 1000,
    )


def _ninety_nine(bounds: Sequence[float], before: Sequence[int], after: Sequence[int]) -> float:
    """The bound that 99 of 100 of the values between two counts did not exceed; 0 without values."""
    counts = [max(now - then, 0) for then, now in zip(before, after, strict=True)]
    return bound_of(bounds, counts, 0.99)

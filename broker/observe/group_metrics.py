"""The group coordinator's metrics: Kafka's own as its JMX exporter names them, and lag as kafka_exporter does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from broker.coordinators.group_coordinator import GroupCoordinator
from broker.membership.metadata_cache import MetadataCache
from broker.observe.metrics import Labelled, Metrics, bounded
from broker.peers.queues import Reach
from broker.replication.partition import Role
from broker.replication.replica_manager import ReplicaManager
from coordinator.group.classic.group import GroupState
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.group.kinds import GroupCounts, GroupType
from coordinator.group.modern.group import ModernGroup
from coordinator.group.share.group import ShareGroup
from coordinator.group.streams.group import StreamsGroup
from protocol.metadata.topics import NO_LEADER
from protocol.topic_partition import PartitionKey

MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATOR = "kafka_server_group_coordinator_metrics_"
EXPORTER = "kafka_consumergroup_"
PARTITION = ("consumergroup", "topic", "partition")
TOPIC = ("consumergroup", "topic")
OFFSETS_A_STEP = 500
MODERN: Mapping[type[ModernGroup[Any, Any]], str] = {
    ConsumerGroup: "Groups of the consumer protocol, by state.",
    ShareGroup: "Share groups, by state.",
    StreamsGroup: "Streams groups, by state.",
}
STATE_LABELS = {"NotReady": "not_ready"}


class GroupOffset(NamedTuple):
    """A group's committed offset in a partition, or the start offset of a share group, and how many records after it
    are done."""

    topic: str
    partition: int
    offset: int
    done: int = 0


class GroupLag(NamedTuple):
    """Such an offset; `lag` is the number of records after it that are not done, None if it is not known."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None


Shards = Callable[[], Iterator[GroupCoordinatorShard]]
"""The shards that are loaded."""


def register_group_metrics(
    metrics: Metrics, coordinator: GroupCoordinator, partitions: ReplicaManager, ends: EndsElsewhere | None
) -> None:
    """Register the metrics for `/metrics`; `ends` if there are other brokers."""
    groups = coordinator.counts

    def shards() -> Iterator[GroupCoordinatorShard]:
        return (context.state for context in coordinator.runtime.contexts() if context.state is not None)

    gauge = metrics.gauge
    gauge(f"{MANAGER}numgroups", "Groups.", (), lambda: sum(groups.groups.values()))
    for state in GroupState:
        name = f"{MANAGER}numgroups{state.value.lower()}"
        gauge(name, f"Groups in state {state.value}.", (), partial(groups.groups.__getitem__, state))
    gauge(f"{MANAGER}numoffsets", "Committed offsets.", (), lambda: sum(len(s.offsets.store) for s in shards()))
    _counts(metrics, groups)
    _modern_groups(metrics, groups, shards)
    _consumer_groups(metrics, partitions, ends, shards)


def _counts(metrics: Metrics, groups: GroupCounts) -> None:
    """Register counts as gauges: Kafka's names for them end in `_count`, not allowed for a Prometheus counter."""
    gauge = metrics.gauge
    gauge(
        f"{COORDINATOR}group_completed_rebalance_count",
        "Rebalances that ended with assignments, since the start.",
        (),
        lambda: groups.completed_rebalances,
    )
    gauge(
        f"{COORDINATOR}offset_commit_count",
        "Offsets committed, since the start.",
        (),
        lambda: groups.offset_commits,
    )
    gauge(
        f"{COORDINATOR}offset_expiration_count",
        "Offsets that expired, since the start.",
        (),
        lambda: groups.offset_expirations,
    )
    gauge(
        f"{COORDINATOR}offset_deletion_count",
        "Offsets deleted by administrators, since the start.",
        (),
        lambda: groups.offset_deletions,
    )
    metrics.counter(
        "odradek_group_expired_members_total",
        "Members removed because nothing was heard of them in time.",
        (),
        lambda: groups.expired_members,
    )


def _modern_groups(metrics: Metrics, counts: GroupCounts, shards: Shards) -> None:
    gauge = metrics.gauge
    gauge(
        f"{COORDINATOR}group_count",
        "Groups, by the protocol that they speak.",
        ("protocol",),
        lambda: _by_kind(shards()),
    )
    for kind, text in MODERN.items():
        gauge(f"{COORDINATOR}{kind.group_type.value}_group_count", text, ("state",), partial(_by_state, shards, kind))
    gauge(
        f"{COORDINATOR}consumer_group_rebalance_count",
        "New epochs of groups of the consumer protocol for other subscriptions or topics, since the start.",
        (),
        lambda: counts.consumer_rebalances,
    )


def _by_kind(shards: Iterable[GroupCoordinatorShard]) -> Labelled:
    found = Counter(group.group_type for shard in shards for group in shard.groups.all())
    return [((kind.value,), found[kind]) for kind in GroupType]


def _by_state(shards: Shards, kind: type[ModernGroup[Any, Any]]) -> Labelled:
    found = Counter(group.state_name for shard in shards() for group in shard.groups.modern.all(kind))
    return [((STATE_LABELS.get(state, state.lower()),), found[state]) for state in kind.state_names]


def _consumer_groups(metrics: Metrics, partitions: ReplicaManager, ends: EndsElsewhere | None, shards: Shards) -> None:
    gauge = metrics.gauge
    gauge(
        f"{EXPORTER}members",
        "Members of the group.",
        ("consumergroup",),
        lambda: bounded(
            (((group.group_id,), len(group.members)) for shard in shards() for group in shard.groups.all()),
            metrics.most.clients,
        ),
    )
    committed = GroupLags(metrics, partitions, ends, lambda: _committed(shards))
    gauge(
        f"{EXPORTER}current_offset",
        "The group's committed offset in the partition.",
        PARTITION,
        lambda: committed.of_partitions(lambda row: row.offset),
    )
    gauge(
        f"{EXPORTER}lag",
        "Records of the partition from the group's committed offset on.",
        PARTITION,
        lambda: committed.of_partitions(lambda row: row.lag),
    )
    gauge(
        f"{EXPORTER}current_offset_sum",
        "The group's committed offsets in all partitions of the topic.",
        TOPIC,
        lambda: committed.of_topics(lambda row: row.offset),
    )
    gauge(
        f"{EXPORTER}lag_sum",
        "The group's lag in all partitions of the topic.",
        TOPIC,
        lambda: committed.of_topics(lambda row: row.lag),
    )


class EndsElsewhere:
    """The ends of partitions that other brokers lead, as these have told them: what a follower has is old.

    A group's coordinator reports its lag, so the sums over all brokers are right. `found` is of the last scrape.
    """

    def __init__(self, node_id: int, cache: MetadataCache, reach: Reach) -> None:
        self._node_id = node_id
        self._cache = cache
        self._reach = reach
        self.found: Mapping[PartitionKey, int] = {}

    async def ask(self, keys: Iterable[PartitionKey]) -> None:
        """Ask for the ends of those that are led elsewhere; one that is not told is left out."""
        from broker.peers.leaders import LATEST, ask_offsets

        by_leader: dict[int, list[PartitionKey]] = {}
        for topic, index in keys:
            image = self._cache.topic(topic)
            known = None if image is None else image.partitions.get(index)
            if known is not None and known.leader not in (self._node_id, NO_LEADER):
                by_leader.setdefault(known.leader, []).append((topic, index))
        answers = await asyncio.gather(
            *(ask_offsets(self._reach, leader, of, LATEST) for leader, of in by_leader.items())
        )
        self.found = {key: end for of in answers for key, end in of.items() if isinstance(end, int)}


def _committed(shards: Shards) -> Iterator[tuple[str, list[GroupOffset]]]:
    """The committed offsets of each group. The caller may wait between two groups."""
    for shard in list(shards()):
        groups = shard.offsets.store.groups()
        for group in list(groups):
            yield (
                group,
                [
                    GroupOffset(topic, index, one.value.offset)
                    for topic, of in groups.get(group, {}).items()
                    for index, one in of.items()
                ],
            )


class GroupLags:
    """All offsets of groups, and their lags, as of the last walk: a scrape walks through thousands, a few in each turn
    of the loop."""

    def __init__(
        self,
        metrics: Metrics,
        partitions: ReplicaManager,
        ends: EndsElsewhere | None,
        offsets: Callable[[], Iterator[tuple[str, Sequence[GroupOffset]]]],
    ) -> None:
        """Let scrapes walk through them. `offsets` gives those of each group."""
        self._most = metrics.most
        self._partitions = partitions
        self._ends = ends
        self._offsets = offsets
        self._rows: list[GroupLag] = []
        if ends is not None:
            metrics.questions.append(self.ask)
        metrics.walks.append(self.walk)

    async def ask(self) -> None:
        """Ask the leaders of partitions elsewhere for their ends."""
        keys: set[PartitionKey] = set()
        for _, offsets in self._offsets():
            keys |= {(row.topic, row.partition) for row in offsets}
            await asyncio.sleep(0)
        if self._ends is not None:
            await self._ends.ask(keys)

    def _end(self, topic: str, index: int) -> int | None:
        """The high watermark, as the leader has it; None if it is not known."""
        partition = self._partitions.get(topic, index)
        if partition is not None and partition.role is Role.LEADER:
            return partition.high_watermark
        return None if self._ends is None else self._ends.found.get((topic, index))

    def walk(self) -> Iterator[None]:
        """Several scrapes may walk at the same time."""
        rows: list[GroupLag] = []
        for group, offsets in self._offsets():
            for number, (topic, index, offset, done) in enumerate(offsets):
                end = self._end(topic, index)
                lag = None if end is None else max(end - offset - done, 0)
                rows.append(GroupLag(group, topic, index, offset, lag))
                if number % OFFSETS_A_STEP == OFFSETS_A_STEP - 1:
                    yield
            yield
        self._rows = rows

    def of_partitions(self, value: Callable[[GroupLag], int | None]) -> Callable[[], Labelled]:
        """The partitions that have a value, to be read in any thread."""
        rows = self._rows
        return lambda: self._bounded(
            ((row.group, row.topic, str(row.partition)), found) for row in rows if (found := value(row)) is not None
        )

    def _bounded(self, rows: Labelled) -> Labelled:
        return bounded(bounded(rows, self._most.clients), self._most.topics, slice(1, 2))

    def of_topics(self, value: Callable[[GroupLag], int | None]) -> Callable[[], Labelled]:
        """The sums over the partitions that have a value, to be read in any thread."""
        rows = self._rows

        def sums() -> Labelled:
            by_topic: Counter[tuple[str, str]] = Counter()
            for row in rows:
                found = value(row)
                if found is not None:
                    by_topic[row.group, row.topic] += found
            return self._bounded(by_topic.items())

        return sums

"""The topology of a streams group: what is wrong with it in itself, and what becomes of it among the topics that exist.

How it works: a topology is checked when a member brings it (Kafka's `StreamsTopology`). Then it is configured (Kafka's
`InternalTopicManager.configureTopics` with `RepartitionTopics`, `CopartitionedTopicsEnforcer` and `ChangelogTopics`):
how many tasks each subtopology has, which internal topics the broker must make, or what is in the way. All is pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

from protocol.coordinator_records.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopicInfo
from protocol.errors import InvalidRequest, StreamsInvalidTopology

NameProblem = Callable[[str], str | None]
"""Why no topic of a topology may have this name; None if it may."""


def check_names(topology: StreamsGroupTopologyValue, name_problem: NameProblem) -> None:
    """Raises StreamsInvalidTopology if a topic may not be called so."""
    for name in named_topics(topology):
        problem = name_problem(name)
        if problem is not None:
            raise StreamsInvalidTopology(problem)


def named_topics(topology: StreamsGroupTopologyValue) -> Iterable[str]:
    """All names of topics in the topology, in order."""
    return dict.fromkeys(name for each in topology.subtopologies for name in _names(each))


def check_topology(topology: StreamsGroupTopologyValue) -> None:
    """Raises InvalidRequest and StreamsInvalidTopology."""
    subtopologies = topology.subtopologies
    if any(each.source_topic_regexes for each in subtopologies):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")
    twice = [name for name, count in Counter(each.subtopology_id for each in subtopologies).items() if count > 1]
    if twice or topology.epoch < 0:
        raise InvalidRequest("The topology names a subtopology twice, or has a negative epoch.")
    for each in subtopologies:
        _check_subtopology(each)
    sinks = {name for each in subtopologies for name in each.repartition_sinks}
    for each in subtopologies:
        for topic in each.repartition_sources:
            if topic.partitions == 0 and topic.name not in sinks:
                raise StreamsInvalidTopology(
                    "Failed to compute number of partitions for all repartition topics, because a repartition source "
                    f"topic is never used as a sink topic: {topic.name}."
                )
    decided = _repartition_counts(subtopologies, lambda _: 1)
    if not all(name in decided for each in subtopologies for name in each.repartition_sinks):
        raise StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved."
        )


def _check_subtopology(each: Subtopology) -> None:
    if not each.source_topics and not each.repartition_sources:
        raise StreamsInvalidTopology(f"No source topics found for subtopology {each.subtopology_id}.")
    for topic in each.changelogs:
        if topic.partitions != 0:
            raise StreamsInvalidTopology(
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                f"{topic.partitions}."
            )
    for group in each.copartition_groups:
        if group.source_topic_regexes or not (
            _within(group.source_topics, len(each.source_topics))
            and _within(group.repartition_source_topics, len(each.repartition_sources))
        ):
            raise InvalidRequest(f"A copartition group of {each.subtopology_id} names topics that it does not have.")


def _within(indexes: Iterable[int], count: int) -> bool:
    return all(0 <= index < count for index in indexes)


def _names(each: Subtopology) -> Iterator[str]:
    yield from each.source_topics
    yield from each.repartition_sinks
    yield from (topic.name for topic in (*each.changelogs, *each.repartition_sources))


def required_topics(topology: StreamsGroupTopologyValue) -> frozenset[str]:
    """The names of all topics that the topology reads or keeps its state in."""
    return frozenset(
        name
        for each in topology.subtopologies
        for name in (*each.source_topics, *(topic.name for topic in internal_topics(each)))
    )


def internal_topics(each: Subtopology) -> tuple[TopicInfo, ...]:
    """The topics that the broker makes for a subtopology."""
    return (*each.repartition_sources, *each.changelogs)


def sources_of(each: Subtopology) -> tuple[str, ...]:
    """All topics that the tasks of a subtopology read."""
    return tuple(dict.fromkeys((*each.source_topics, *(topic.name for topic in each.repartition_sources))))


# -- the topology among the topics that exist

PartitionCount = Callable[[str], int | None]
"""How many partitions a topic has, None if there is no such topic."""

MOST_NAMED = 3


class Status(IntEnum):
    """What a member is told besides its tasks (Kafka's `StreamsGroupHeartbeatResponse.Status`)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class Problem(NamedTuple):
    """Why no tasks can be assigned."""

    status: Status
    detail: str


class InternalTopic(NamedTuple):
    """A topic to make; 0 replicas: as many as the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class ConfiguredSubtopology(NamedTuple):
    """`task_count` tasks, one a partition; `sources` are all topics that they read."""

    task_count: int
    sources: tuple[str, ...]
    is_stateful: bool


NO_SUBTOPOLOGIES: Mapping[str, ConfiguredSubtopology] = {}
NO_COUNTS: Mapping[str, int] = {}


class ConfiguredTopology(NamedTuple):
    """Kafka's `ConfiguredTopology`; without `problem` tasks may be assigned.

    `counts` are the partitions that each internal topic has, or has to have.
    """

    topology_epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] = NO_SUBTOPOLOGIES
    counts: Mapping[str, int] = NO_COUNTS
    to_create: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


class _UnfitError(Exception):
    """Topics that exist have the wrong number of partitions; the text says which."""


def configure(topology: StreamsGroupTopologyValue, partition_count: PartitionCount) -> ConfiguredTopology:
    """The topology among these topics. It has passed `check_topology`."""
    missing = sorted(
        {name for each in topology.subtopologies for name in each.source_topics if partition_count(name) is None}
    )
    if missing:
        text = f"Source topics {summary(missing)} are missing."
        return ConfiguredTopology(topology.epoch, problem=Problem(Status.MISSING_SOURCE_TOPICS, text))
    try:
        counts = _Counts(topology, partition_count)
        to_create = _missing_internal(topology, partition_count, counts.decided)
    except _UnfitError as error:
        problem = Problem(Status.INCORRECTLY_PARTITIONED_TOPICS, str(error))
        return ConfiguredTopology(topology.epoch, problem=problem)
    subtopologies = {
        each.subtopology_id: ConfiguredSubtopology(
            counts.tasks_of(each), sources_of(each), is_stateful=bool(each.changelogs)
        )
        for each in sorted(topology.subtopologies)
    }
    lacking = None
    if to_create:
        text = f"Internal topics are missing: {summary([topic.name for topic in to_create])}"
        lacking = Problem(Status.MISSING_INTERNAL_TOPICS, text)
    return ConfiguredTopology(topology.epoch, subtopologies, counts.decided, to_create, lacking)


def summary(names: Collection[str]) -> str:
    """The first names, and how many more there are."""
    first = ", ".join(sorted(names)[:MOST_NAMED])
    return first if len(names) <= MOST_NAMED else f"{first}, and {len(names) - MOST_NAMED} more"


def _repartition_counts(subtopologies: Sequence[Subtopology], partition_count: PartitionCount) -> dict[str, int]:
    """The sizes of repartition topics: a fixed one, or that of the largest source of a subtopology that writes to it.

    Kafka goes through the subtopologies again and again until all is decided. Here a subtopology is looked at in the
    round in which Kafka finds its first source decided, and not before: a client may send tens of thousands. Topics
    whose sizes depend on each other in a circle are left out.
    """
    counts = _fixed_counts(subtopologies)
    readers: dict[str, list[int]] = {}
    for index, each in enumerate(subtopologies):
        for topic in each.repartition_sources:
            readers.setdefault(topic.name, []).append(index)
    largest: list[int | None] = []
    for each in subtopologies:
        known = (
            *(counts.get(topic.name) for topic in each.repartition_sources),
            *map(partition_count, each.source_topics),
        )
        largest.append(max((count for count in known if count is not None), default=None))
    turns = [(0, index) for index, count in enumerate(largest) if count is not None]
    while turns:
        now, index = heappop(turns)
        for name in subtopologies[index].repartition_sinks:
            if name in counts:
                continue
            count = counts[name] = largest[index] or 0
            for reader in readers.get(name, ()):
                before = largest[reader]
                largest[reader] = count if before is None else max(before, count)
                if before is None:
                    heappush(turns, (now if reader > index else now + 1, reader))
    return counts


def _fixed_counts(subtopologies: Sequence[Subtopology]) -> dict[str, int]:
    return {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_sources
        if topic.partitions != 0
    }


class _Counts:
    """The partition counts of internal topics, decided in the order of Kafka. Raises _UnfitError."""

    def __init__(self, topology: StreamsGroupTopologyValue, partition_count: PartitionCount) -> None:
        self._exists = partition_count
        self._fixed = _fixed_counts(topology.subtopologies)
        self._repartition = {topic.name for each in topology.subtopologies for topic in each.repartition_sources}
        self.decided = _repartition_counts(topology.subtopologies, partition_count)
        for each in topology.subtopologies:
            for group in each.copartition_groups:
                sources = [each.source_topics[index] for index in group.source_topics]
                repartition = [each.repartition_sources[index].name for index in group.repartition_source_topics]
                self._copartition(dict.fromkeys((*sources, *repartition)))
        for each in topology.subtopologies:
            tasks = self.tasks_of(each)
            read = frozenset(sources_of(each))
            self.decided.update({topic.name: tasks for topic in each.changelogs if topic.name not in read})

    def tasks_of(self, each: Subtopology) -> int:
        """As many as the largest topic has partitions."""
        return max(self._count(name) for name in sources_of(each))

    def _count(self, name: str) -> int:
        found = self._exists(name)
        return self.decided[name] if found is None else found

    def _copartition(self, topics: Iterable[str]) -> None:
        """Give repartition topics the count of the others, or, among themselves, the fixed or the largest one."""
        names = list(topics)
        if not names:
            return
        repartition = {name: self._count(name) for name in names if name in self._repartition}
        others = {name: self._count(name) for name in names if name not in self._repartition}
        count = _same(others) if others else self._count_among(repartition)
        for name, present in repartition.items():
            if name in self._fixed and present != count:
                raise _UnfitError(
                    f"Number of partitions [{present}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
            self.decided[name] = count

    def _count_among(self, repartition: Mapping[str, int]) -> int:
        fixed = {name: self._fixed[name] for name in repartition if name in self._fixed}
        return _same(fixed) if fixed else max(repartition.values())


def _same(counts: Mapping[str, int]) -> int:
    """The one count. Raises _UnfitError if there are several."""
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        raise _UnfitError(f"Following topics do not have the same number of partitions: [{{{found}}}]")
    return next(iter(counts.values()))


def _missing_internal(
    topology: StreamsGroupTopologyValue, partition_count: PartitionCount, decided: Mapping[str, int]
) -> tuple[InternalTopic, ...]:
    """The internal topics that do not exist. Raises _UnfitError if one exists with another number of partitions."""
    wanted: dict[str, TopicInfo] = {}
    for each in topology.subtopologies:
        wanted.update({topic.name: topic for topic in internal_topics(each)})
    missing = []
    for name, topic in sorted(wanted.items()):
        found = partition_count(name)
        expected = decided.get(name, found)
        if found is None and expected is not None:
            missing.append(InternalTopic(name, expected, topic.replication_factor, topic.configs))
        elif found != expected:
            raise _UnfitError(
                f"Existing topic {name} has different number of partitions: expected {expected}, found {found}"
            )
    return tuple(missing)

"""What is wrong with a topology in itself (Kafka's `StreamsTopology` and `GroupCoordinatorService`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from protocol.coordinator_records.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopicInfo
from protocol.errors import InvalidRequest, StreamsInvalidTopology, UnknownServerError

NameProblem = Callable[[str], str | None]
"""Why no topic of a topology may have this name; None if it may."""


def check_names(topology: StreamsGroupTopologyValue, name_problem: NameProblem) -> frozenset[str]:
    """All names of topics in the topology. Raises StreamsInvalidTopology if a topic may not be called so."""
    names = [name for each in topology.subtopologies for name in _names(each)]
    for name in names:
        problem = name_problem(name)
        if problem is not None:
            raise StreamsInvalidTopology(problem)
    return frozenset(names)


def check_topology(topology: StreamsGroupTopologyValue) -> None:
    """Raises InvalidRequest, StreamsInvalidTopology, and UnknownServerError where Kafka fails."""
    subtopologies = topology.subtopologies
    if any(each.source_topic_regexes for each in subtopologies):
        raise InvalidRequest("Regular expressions for source topics are not supported yet.")
    twice = [name for name, count in Counter(each.subtopology_id for each in subtopologies).items() if count > 1]
    if twice or topology.epoch < 0:
        raise UnknownServerError
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
    _check_loops(subtopologies)


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
            raise UnknownServerError


def _within(indexes: Iterable[int], count: int) -> bool:
    return all(0 <= index < count for index in indexes)


def _names(each: Subtopology) -> Iterator[str]:
    yield from each.source_topics
    yield from each.repartition_sinks
    yield from (topic.name for topic in (*each.changelogs, *each.repartition_sources))


def _check_loops(subtopologies: tuple[Subtopology, ...]) -> None:
    """Raises StreamsInvalidTopology if partition counts of repartition topics depend on each other in a circle.

    Looks at each subtopology once, however they depend on each other: a client may send tens of thousands.
    """
    known = {topic.name for each in subtopologies for topic in each.repartition_sources if topic.partitions != 0}
    waiting = {index for index, each in enumerate(subtopologies) if not known.issuperset(each.repartition_sinks)}
    readers = readers_of(subtopologies)
    solved = [
        index
        for index in waiting
        if subtopologies[index].source_topics
        or any(topic.name in known for topic in subtopologies[index].repartition_sources)
    ]
    waiting.difference_update(solved)
    while solved:
        for name in subtopologies[solved.pop()].repartition_sinks:
            if name not in known:
                known.add(name)
                found = waiting.intersection(readers.get(name, ()))
                waiting -= found
                solved += found
    if waiting:
        raise StreamsInvalidTopology(
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
            "that cannot be resolved."
        )


def readers_of(subtopologies: tuple[Subtopology, ...]) -> dict[str, list[int]]:
    """The places of the subtopologies that read each repartition topic."""
    found: dict[str, list[int]] = {}
    for index, each in enumerate(subtopologies):
        for topic in each.repartition_sources:
            found.setdefault(topic.name, []).append(index)
    return found


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

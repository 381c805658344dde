"""Topologies: what is refused, how many tasks there are, and which internal topics the broker has to make."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.group.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    Status,
    check_names,
    check_topology,
    configure,
    required_topics,
)
from protocol.coordinator_records.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from protocol.errors import InvalidRequest, KafkaError, StreamsInvalidTopology


def name_problem(name: str) -> str | None:
    return "no such name" if " " in name or name.startswith("__") else None


def topic(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    return TopicInfo(name, partitions, 0, tuple(configs.items()))


def sub(number: str, *sources: str, **fields: Any) -> Subtopology:
    return Subtopology(number, sources, **fields)


def topology(*subtopologies: Subtopology, epoch: int = 0) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(epoch, subtopologies)


def configured(topics: Mapping[str, int], *subtopologies: Subtopology) -> ConfiguredTopology:
    wanted = topology(*subtopologies)
    check_names(wanted, name_problem)
    check_topology(wanted)
    return configure(wanted, topics.get)


def tasks(found: ConfiguredTopology) -> dict[str, int]:
    return {name: each.task_count for name, each in found.subtopologies.items()}


def made(found: ConfiguredTopology) -> dict[str, int]:
    return {each.name: each.partitions for each in found.to_create}


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (topology(sub("0", "a", changelogs=(topic("c", 3),))), StreamsInvalidTopology),
        (topology(sub("0")), StreamsInvalidTopology),
        (topology(sub("0", "a b")), StreamsInvalidTopology),
        (topology(sub("0", "a", repartition_sinks=("r r",))), StreamsInvalidTopology),
        (topology(sub("0", "a", changelogs=(topic("c c"),))), StreamsInvalidTopology),
        (topology(sub("0", "__consumer_offsets")), StreamsInvalidTopology),
        (topology(sub("0", "a", repartition_sources=(topic("r"),))), StreamsInvalidTopology),
        (
            topology(
                sub("0", repartition_sources=(topic("r"),), repartition_sinks=("q",)),
                sub("1", repartition_sources=(topic("q"),), repartition_sinks=("r",)),
            ),
            StreamsInvalidTopology,
        ),
        (topology(sub("0", "a", source_topic_regexes=("b.*",))), InvalidRequest),
        (topology(sub("0", "a"), sub("0", "b")), InvalidRequest),
        (topology(sub("0", "a"), epoch=-1), InvalidRequest),
        (topology(sub("0", "a", copartition_groups=(CopartitionGroup((1,), (), ()),))), InvalidRequest),
        (topology(sub("0", "a", copartition_groups=(CopartitionGroup((), (), (0,)),))), InvalidRequest),
    ],
)
def test_what_is_refused(wrong: StreamsGroupTopologyValue, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        check_names(wrong, name_problem)
        check_topology(wrong)


def test_a_topology_without_subtopologies_is_fine() -> None:
    assert configured({}).is_ready


def test_a_loop_with_a_way_in_is_fine() -> None:
    loop = sub("0", "a", repartition_sources=(topic("r"),), repartition_sinks=("r",))
    found = configured({"a": 3}, loop)
    assert (tasks(found), made(found)) == ({"0": 3}, {"r": 3})


def test_source_topics_that_are_missing_are_named_at_most_three() -> None:
    found = configured({"b": 1}, sub("0", "e", "b", "a", "d"), sub("1", "c", "a"))
    assert found.problem is not None
    assert found.problem == (Status.MISSING_SOURCE_TOPICS, "Source topics a, c, d, and 1 more are missing.")
    assert not found.subtopologies


def test_there_are_as_many_tasks_as_the_largest_source_has_partitions() -> None:
    found = configured({"a": 2, "b": 5}, sub("0", "a", "b"))
    assert found.is_ready
    assert tasks(found) == {"0": 5}
    assert not found.subtopologies["0"].is_stateful


def test_changelogs_have_as_many_partitions_as_there_are_tasks_and_their_configs_are_as_given() -> None:
    found = configured({"a": 2}, sub("0", "a", changelogs=(topic("c", retention="1"), topic("a"))))
    assert found.to_create == (InternalTopic("c", 2, 0, (("retention", "1"),)),)
    assert found.problem == (Status.MISSING_INTERNAL_TOPICS, "Internal topics are missing: c")
    assert found.subtopologies["0"].is_stateful
    assert configured({"a": 2, "c": 2}, sub("0", "a", changelogs=(topic("c"),))).is_ready


def test_a_repartition_topic_has_the_size_of_the_largest_source_of_who_writes_it() -> None:
    chain = (
        sub("0", "a", "b", repartition_sinks=("r",)),
        sub("1", repartition_sources=(topic("r"),), repartition_sinks=("q",), changelogs=(topic("c"),)),
        sub("2", repartition_sources=(topic("q"),)),
    )
    found = configured({"a": 2, "b": 3}, *reversed(chain))
    assert made(found) == {"r": 3, "q": 3, "c": 3}
    assert tasks(found) == {"0": 3, "1": 3, "2": 3}


def test_a_fixed_count_stays() -> None:
    chain = (sub("0", "a", repartition_sinks=("r",)), sub("1", repartition_sources=(topic("r", 7),)))
    found = configured({"a": 2}, *chain)
    assert (made(found), tasks(found)) == ({"r": 7}, {"0": 2, "1": 7})


def joined(*repartition: TopicInfo, sources: tuple[str, ...] = ()) -> tuple[Subtopology, ...]:
    """A subtopology that joins topics, and one for each repartition topic that writes it from `x0`, `x1`, ..."""
    group = CopartitionGroup(tuple(range(len(sources))), (), tuple(range(len(repartition))))
    writers = [sub(f"w{n}", f"x{n}", repartition_sinks=(each.name,)) for n, each in enumerate(repartition)]
    return (*writers, Subtopology("j", sources, repartition_sources=repartition, copartition_groups=(group,)))


def test_copartitioned_sources_must_have_one_count() -> None:
    found = configured({"a": 2, "b": 3}, *joined(sources=("a", "b")))
    assert found.problem is not None
    assert found.problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "{a=2, b=3}" in found.problem.detail
    assert tasks(configured({"a": 3, "b": 3}, *joined(sources=("a", "b")))) == {"j": 3}


def test_repartition_topics_follow_the_sources_that_they_are_joined_with() -> None:
    found = configured({"a": 4, "x0": 9}, *joined(topic("r"), sources=("a",)))
    assert (made(found), tasks(found)["j"]) == ({"r": 4}, 4)


def test_repartition_topics_that_are_joined_have_the_fixed_count_or_the_largest() -> None:
    assert made(configured({"x0": 2, "x1": 5}, *joined(topic("r"), topic("q")))) == {"r": 5, "q": 5}
    assert made(configured({"x0": 2, "x1": 5}, *joined(topic("r", 3), topic("q")))) == {"r": 3, "q": 3}


@pytest.mark.parametrize(
    "parts",
    [joined(topic("r", 3), topic("q", 4)), joined(topic("r", 3), sources=("a",))],
)
def test_fixed_counts_that_do_not_fit(parts: tuple[Subtopology, ...]) -> None:
    problem = configured({"x0": 2, "x1": 5, "a": 4}, *parts).problem
    assert problem is not None
    assert problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS


def test_an_internal_topic_that_exists_must_have_the_right_count() -> None:
    problem = configured({"a": 2, "c": 3}, sub("0", "a", changelogs=(topic("c"),))).problem
    assert problem is not None
    assert problem.status is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert "expected 2, found 3" in problem.detail


def test_required_topics() -> None:
    parts = sub("0", "a", repartition_sinks=("s",), repartition_sources=(topic("r"),), changelogs=(topic("c"),))
    assert required_topics(topology(parts)) == {"a", "r", "c"}


def long_chain(length: int) -> tuple[Subtopology, ...]:
    """Each reads what the next one writes, so that the counts are known from the end on."""
    links = [
        sub(str(n), repartition_sources=(topic(f"r{n + 1}"),), repartition_sinks=(f"r{n}",)) for n in range(length)
    ]
    return (*links, sub("end", "a", repartition_sinks=(f"r{length}",)))


def wide(width: int) -> tuple[Subtopology, ...]:
    """One subtopology that writes and reads a great many repartition topics, and keeps as many states."""
    names = [f"r{n}" for n in range(width)]
    changelogs = tuple(topic(f"c{n}") for n in range(width))
    return (
        sub("0", "a", repartition_sinks=names, repartition_sources=tuple(map(topic, names)), changelogs=changelogs),
    )


@pytest.mark.parametrize("parts", [long_chain(5_000), wide(10_000)], ids=["chain", "wide"])
def test_a_topology_of_a_megabyte_costs_what_its_size_does(parts: tuple[Subtopology, ...]) -> None:
    used = time.process_time()
    assert set(made(configured({"a": 3}, *parts)).values()) == {3}
    assert time.process_time() - used < 1  # 0.1 s; when all was gone through again for each topic, it was 5 to 10 s


def test_a_count_is_decided_in_the_round_of_kafka() -> None:
    """The first sink takes what is known in its turn; a larger source that is decided later does not count."""
    late = (
        sub("0", repartition_sources=(topic("small"), topic("large")), repartition_sinks=("r",)),
        sub("1", "a", repartition_sinks=("small",)),
        sub("2", repartition_sources=(topic("between"),), repartition_sinks=("large",)),
        sub("3", "b", repartition_sinks=("between",)),
        sub("4", repartition_sources=(topic("r"),)),
    )
    assert made(configured({"a": 2, "b": 5}, *late)) == {"small": 2, "between": 5, "r": 2, "large": 5}

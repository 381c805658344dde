"""Members of streams groups and their tasks. Their offsets are those of a consumer group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odradek.cli.connection import Cluster
from odradek.cli.errors import require_no_error
from odradek.cli.group_coordinator import ask_coordinator
from odradek.cli.messages import StreamsGroupDescribeRequest


def members(cluster: Cluster, group: str) -> tuple[list[dict[str, Any]], set[tuple[str, int]]]:
    """Who is in the group, and from where they read; tasks are named as Kafka Streams names them: `0_2`.

    Raises KafkaException, KafkaError.
    """
    request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (about,) = ask_coordinator(cluster, group, request).groups
    require_no_error(about)
    return [
        {
            "member": one.member_id,
            "client": one.client_id,
            "host": one.client_host,
            "process": one.process_id,
            "active": _tasks(one.assignment.active_tasks),
            "standby": _tasks(one.assignment.standby_tasks),
            "warmup": _tasks(one.assignment.warmup_tasks),
        }
        for one in about.members
    ], _read(about)


def _read(about: Any) -> set[tuple[str, int]]:
    """The partitions of the topics that the active tasks read."""
    topics = {
        one.subtopology_id: [*one.source_topics, *(each.name for each in one.repartition_source_topics)]
        for one in (about.topology.subtopologies if about.topology is not None else None) or ()
    }
    return {
        (topic, partition)
        for member in about.members
        for task in member.assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for partition in task.partitions
    }


def _tasks(found: Iterable[Any]) -> list[str]:
    return sorted(f"{one.subtopology_id}_{partition}" for one in found for partition in one.partitions)

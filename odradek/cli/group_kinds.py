"""The kinds of groups: who is a member, which offsets a group has, and how they are set.

Classic and consumer groups commit offsets, and streams groups as they do. A share group commits none: it has a start in
each partition, and all records below it are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import click
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from kafka import TopicPartition as PythonTopicPartition

from odradek.cli.connection import TargetCluster, refusals
from odradek.cli.kafka_python import require_no_error
from odradek.cli.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from odradek.cli.output import Output
from odradek.cli.positions import Offsets, resolve

Rows = list[dict[str, Any]]
Places = set[tuple[str, int]]
"""Topics and partitions."""


@dataclass(frozen=True)
class GroupKind:
    """The functions by which the commands work with a kind of groups."""

    members: Callable[[TargetCluster, str], tuple[Rows, Places]]
    """Returns also the partitions from which they read."""
    offsets: Callable[[TargetCluster, Output, str, Places], Rows]
    """Those partitions are shown too; what is refused of a partition is told."""
    alter: Callable[[TargetCluster, str, Offsets], Offsets]
    """Returns the error codes of the partitions that are refused."""
    delete: Callable[[TargetCluster, str, Places], dict[str, int]]
    """Deletes the offsets; returns the error code, 0 for none, of each partition, or of each topic."""
    standing: str = "committed"
    """The name that `offsets` has for the offset that `alter` sets."""


def ask_coordinator(cluster: TargetCluster, group: str, request: Any) -> Any:
    """The answer of the group's coordinator. Raises KafkaException, KafkaError."""
    with cluster.python_admin() as admin:
        coordinator = admin._manager.run(admin._find_coordinator_id, group)
        return admin._manager.run(admin._manager.send, request, coordinator)


def consumer_members(cluster: TargetCluster, group: str) -> tuple[Rows, Places]:
    """List the members, and the partitions that they read. Raises KafkaException."""
    about = cluster.admin().describe_consumer_groups([group])[group].result()
    assigned = {(each.topic, each.partition) for member in about.members for each in member.assignment.topic_partitions}
    return [
        {
            "member": member.member_id,
            "client": member.client_id,
            "host": member.host,
            "assigned": sorted(f"{each.topic}-{each.partition}" for each in member.assignment.topic_partitions),
        }
        for member in about.members
    ], assigned


def committed_offsets(cluster: TargetCluster, out: Output, group: str, assigned: Iterable[tuple[str, int]]) -> Rows:
    """List the committed offset of each partition, and its lag; a partition without a commit has none.

    Raises KafkaException.
    """
    admin = cluster.admin()
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    found: dict[tuple[str, int], int | None] = dict.fromkeys(assigned)
    for place in answer.topic_partitions:
        with refusals(out, {"partition": f"{place.topic}-{place.partition}"}):
            if place.error is not None:
                raise KafkaException(place.error)
            if place.offset >= 0:
                found[place.topic, place.partition] = place.offset
    ends = resolve(admin, out, (TopicPartition(*key) for key in sorted(found)), OffsetSpec.latest())
    return [
        {
            "topic": key[0],
            "partition": key[1],
            "committed": committed,
            "end": ends.get(key),
            "lag": ends[key] - committed if committed is not None and key in ends else None,
        }
        for key, committed in sorted(found.items())
    ]


def commit_offsets(cluster: TargetCluster, group: str, new: Offsets) -> Offsets:
    """Commit other offsets for the group; returns the error codes of those refused. Raises KafkaException."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*key, offset) for key, offset in new.items()])
    done = cluster.admin().alter_consumer_group_offsets([wanted])[group].result()
    return {
        (place.topic, place.partition): place.error.code() for place in done.topic_partitions if place.error is not None
    }


def delete_committed(cluster: TargetCluster, group: str, places: Places) -> dict[str, int]:
    """Delete the committed offsets; returns the error code of each partition. Raises KafkaError."""
    with cluster.python_admin() as admin:
        errors = admin.delete_group_offsets(group, [PythonTopicPartition(*key) for key in sorted(places)])
    return {f"{place.topic}-{place.partition}": error.errno for place, error in errors.items()}


def _described(cluster: TargetCluster, group: str, request: Callable[..., Any]) -> Any:
    """The group as its coordinator describes it. Raises KafkaException, KafkaError."""
    asked = request(group_ids=[group], include_authorized_operations=False)
    (about,) = ask_coordinator(cluster, group, asked).groups
    require_no_error(about)
    return about


def _who(member: Any) -> dict[str, Any]:
    return {"member": member.member_id, "client": member.client_id, "host": member.client_host}


def share_members(cluster: TargetCluster, group: str) -> tuple[Rows, Places]:
    """List the members; the cluster knows a start, or none, of each partition that they read.

    Raises KafkaException, KafkaError.
    """
    about = _described(cluster, group, ShareGroupDescribeRequest)
    return [
        {
            **_who(member),
            "assigned": sorted(
                f"{topic.topic_name}-{partition}"
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ),
        }
        for member in about.members
    ], set()


def share_offsets(cluster: TargetCluster, out: Output, group: str, assigned: Iterable[tuple[str, int]]) -> Rows:
    """List the start of the group in each partition, and its lag, as far as the cluster knows them."""
    return [
        {
            "topic": topic.topic_name,
            "partition": one.partition_index,
            "start": None if one.error_code else _known(one.start_offset),
            "lag": None if one.error_code else _known(one.lag),
        }
        for topic, one in _partitions(cluster, out, group)
    ]


def start_at_offsets(cluster: TargetCluster, group: str, new: Offsets) -> Offsets:
    """Let the group start at other offsets; returns the error codes of those refused. Raises KafkaError."""
    of_topic, of_partition = (
        AlterShareGroupOffsetsRequest.RequestTopic,
        AlterShareGroupOffsetsRequest.RequestTopic.RequestPartition,
    )
    topics = [
        of_topic(
            topic_name=topic,
            partitions=[of_partition(partition_index=key[1], start_offset=offset) for key, offset in several],
        )
        for topic, several in groupby(sorted(new.items()), key=lambda item: item[0][0])
    ]
    answer = ask_coordinator(cluster, group, AlterShareGroupOffsetsRequest(group_id=group, topics=topics))
    require_no_error(answer)
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
        if partition.error_code
    }


def delete_starts(cluster: TargetCluster, group: str, places: Places) -> dict[str, int]:
    """Let the group forget the topics; returns the error code of each. Raises KafkaError."""
    topics = [
        DeleteShareGroupOffsetsRequest.RequestTopic(topic_name=topic)
        for topic in sorted({topic for topic, _ in places})
    ]
    answer = ask_coordinator(cluster, group, DeleteShareGroupOffsetsRequest(group_id=group, topics=topics))
    require_no_error(answer)
    return {topic.topic_name: topic.error_code for topic in answer.responses}


def _partitions(cluster: TargetCluster, out: Output, group: str) -> list[tuple[Any, Any]]:
    """Each topic that the group has read, with each of its partitions, in order."""
    wanted = DescribeShareGroupOffsetsRequest.RequestGroup(group_id=group, topics=None)
    (about,) = ask_coordinator(cluster, group, DescribeShareGroupOffsetsRequest(groups=[wanted])).groups
    require_no_error(about)
    found = [(topic, partition) for topic in about.topics for partition in topic.partitions]
    for topic, one in found:
        with refusals(out, {"partition": f"{topic.topic_name}-{one.partition_index}"}):
            require_no_error(one)
    return sorted(found, key=lambda pair: (pair[0].topic_name, pair[1].partition_index))


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def streams_members(cluster: TargetCluster, group: str) -> tuple[Rows, Places]:
    """List the members, and the partitions that they read; tasks are named as Kafka Streams names them: `0_2`.

    Raises KafkaException, KafkaError.
    """
    about = _described(cluster, group, StreamsGroupDescribeRequest)
    return [
        {
            **_who(member),
            "process": member.process_id,
            "active": _tasks(member.assignment.active_tasks),
            "standby": _tasks(member.assignment.standby_tasks),
            "warmup": _tasks(member.assignment.warmup_tasks),
        }
        for member in about.members
    ], _read(about)


def _read(about: Any) -> set[tuple[str, int]]:
    """The partitions of the topics that the active tasks read."""
    topics = {
        subtopology.subtopology_id: [
            *subtopology.source_topics,
            *(each.name for each in subtopology.repartition_source_topics),
        ]
        for subtopology in (about.topology.subtopologies if about.topology is not None else None) or ()
    }
    return {
        (topic, partition)
        for member in about.members
        for task in member.assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for partition in task.partitions
    }


def _tasks(tasks: Iterable[Any]) -> list[str]:
    return sorted(f"{task.subtopology_id}_{partition}" for task in tasks for partition in task.partitions)


COMMITTING = GroupKind(consumer_members, committed_offsets, commit_offsets, delete_committed)
KINDS: Mapping[str, GroupKind] = {
    "classic": COMMITTING,
    "consumer": COMMITTING,
    "share": GroupKind(share_members, share_offsets, start_at_offsets, delete_starts, "start"),
    "streams": GroupKind(streams_members, committed_offsets, commit_offsets, delete_committed),
}


def listed(cluster: TargetCluster, out: Output) -> dict[str, dict[str, Any]]:
    """All groups, of each kind, by id; a broker that does not tell its own is told."""
    found: dict[str, dict[str, Any]] = {}
    with cluster.python_admin() as admin:
        for broker in cluster.broker_ids():
            with refusals(out, {"broker": broker}):
                found |= {group["group_id"]: group for group in admin.list_groups(broker_ids=[broker])}
    return found


def kind_of(group: Mapping[str, Any]) -> str:
    """classic, consumer, share or streams; brokers before Kafka 3.8 know classic groups alone, and do not say it."""
    return (group.get("group_type") or "classic").lower()


def require_kind(group: Mapping[str, Any]) -> GroupKind:
    """Return the kind of a group. Raises ClickException for a kind of a newer Kafka's."""
    found = KINDS.get(kind_of(group))
    if found is None:
        raise click.ClickException(unknown_kind(group))
    return found


def unknown_kind(group: Mapping[str, Any]) -> str:
    return f"expected a group of type {', '.join(KINDS)}: it is of type {kind_of(group)}"

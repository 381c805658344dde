"""Share groups: their members, and where they start in each partition.

A share group commits no offsets. It has a start in each partition: all records below it are done.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from odradek.cli.connection import Cluster, refusals
from odradek.cli.errors import require_no_error
from odradek.cli.group_coordinator import ask_coordinator
from odradek.cli.messages import (
    AlterShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from odradek.cli.output import Output
from odradek.cli.positions import Offsets


def members(cluster: Cluster, group: str) -> tuple[list[dict[str, Any]], set[tuple[str, int]]]:
    """Who is in the group; the cluster knows a start, or none, of each partition that they read.

    Raises KafkaException, KafkaError.
    """
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    (about,) = ask_coordinator(cluster, group, request).groups
    require_no_error(about)
    return [
        {
            "member": one.member_id,
            "client": one.client_id,
            "host": one.client_host,
            "assigned": sorted(
                f"{topic.topic_name}-{partition}"
                for topic in one.assignment.topic_partitions
                for partition in topic.partitions
            ),
        }
        for one in about.members
    ], set()


def offsets(cluster: Cluster, out: Output, group: str, assigned: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Where the group starts in each partition, and its lag, as far as the cluster knows them."""
    return [
        {
            "topic": topic.topic_name,
            "partition": one.partition_index,
            "start": None if one.error_code else _known(one.start_offset),
            "lag": None if one.error_code else _known(one.lag),
        }
        for topic, one in _partitions(cluster, out, group)
    ]


def alter(cluster: Cluster, group: str, new: Offsets) -> Offsets:
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
        (topic.topic_name, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
        if one.error_code
    }


def _partitions(cluster: Cluster, out: Output, group: str) -> list[tuple[Any, Any]]:
    """Each topic that the group has read, with each of its partitions, in order."""
    wanted = DescribeShareGroupOffsetsRequest.RequestGroup(group_id=group, topics=None)
    (about,) = ask_coordinator(cluster, group, DescribeShareGroupOffsetsRequest(groups=[wanted])).groups
    require_no_error(about)
    found = [(topic, one) for topic in about.topics for one in topic.partitions]
    for topic, one in found:
        with refusals(out, {"partition": f"{topic.topic_name}-{one.partition_index}"}):
            require_no_error(one)
    return sorted(found, key=lambda pair: (pair[0].topic_name, pair[1].partition_index))


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None

"""Classic and consumer groups: their members, and the offsets that they committed; streams groups commit as they do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import Cluster, refusals
from odradek.cli.output import Output
from odradek.cli.positions import Offsets, resolve


def members(cluster: Cluster, group: str) -> tuple[list[dict[str, Any]], set[tuple[str, int]]]:
    """Who is in the group, and from where they read. Raises KafkaException."""
    about = cluster.admin().describe_consumer_groups([group])[group].result()
    assigned = {(each.topic, each.partition) for one in about.members for each in one.assignment.topic_partitions}
    return [
        {
            "member": one.member_id,
            "client": one.client_id,
            "host": one.host,
            "assigned": sorted(f"{each.topic}-{each.partition}" for each in one.assignment.topic_partitions),
        }
        for one in about.members
    ], assigned


def offsets(cluster: Cluster, out: Output, group: str, assigned: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """What the group committed in each partition, and its lag; a partition without a commit has none.

    Raises KafkaException.
    """
    admin = cluster.admin()
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    found: dict[tuple[str, int], int | None] = dict.fromkeys(assigned)
    for one in answer.topic_partitions:
        with refusals(out, {"partition": f"{one.topic}-{one.partition}"}):
            if one.error is not None:
                raise KafkaException(one.error)
            if one.offset >= 0:
                found[one.topic, one.partition] = one.offset
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


def alter(cluster: Cluster, group: str, new: Offsets) -> Offsets:
    """Commit other offsets for the group; returns the error codes of those refused. Raises KafkaException."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*key, offset) for key, offset in new.items()])
    done = cluster.admin().alter_consumer_group_offsets([wanted])[group].result()
    return {(one.topic, one.partition): one.error.code() for one in done.topic_partitions if one.error is not None}

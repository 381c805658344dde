"""Classic and consumer groups: their members, and the offsets that they committed; streams groups commit as they do."""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from odradek.cli.connection import Cluster
from odradek.cli.positions import Offsets, resolve


def members(cluster: Cluster, group: str) -> list[dict[str, Any]]:
    """Who is in the group. Raises KafkaException."""
    about = cluster.admin().describe_consumer_groups([group])[group].result()
    return [
        {
            "member": one.member_id,
            "client": one.client_id,
            "host": one.host,
            "assigned": sorted(f"{each.topic}-{each.partition}" for each in one.assignment.topic_partitions),
        }
        for one in about.members
    ]


def offsets(cluster: Cluster, group: str) -> list[dict[str, Any]]:
    """What the group committed in each partition, and its lag. Raises KafkaException."""
    admin = cluster.admin()
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    committed = [one for one in found.topic_partitions if one.offset >= 0]
    ends = resolve(admin, committed, OffsetSpec.latest())
    return [
        {
            "topic": one.topic,
            "partition": one.partition,
            "committed": one.offset,
            "end": ends[one.topic, one.partition],
            "lag": ends[one.topic, one.partition] - one.offset,
        }
        for one in sorted(committed, key=lambda one: (one.topic, one.partition))
    ]


def alter(cluster: Cluster, group: str, new: Offsets) -> Offsets:
    """Commit other offsets for the group; returns the error codes of those refused. Raises KafkaException."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(*key, offset) for key, offset in new.items()])
    done = cluster.admin().alter_consumer_group_offsets([wanted])[group].result()
    return {(one.topic, one.partition): one.error.code() for one in done.topic_partitions if one.error is not None}

"""What an observer of the metadata asks the controllers: Fetch and FetchSnapshot of `__cluster_metadata` (KIP-595)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from broker.peers.call import Call, entity_call
from controller.quorum.opening import TOPIC
from controller.quorum.snapshots import SnapshotId
from controller.quorum.survey import TOPIC_ID
from protocol.durations import MILLISECOND

PARTITION = 0
MOST_BYTES = 1 << 20
"""Bytes of one answer: what is applied in one go. A larger batch still comes."""

LOWEST_FETCH = 13
"""The first Fetch that names topics by id. From 17 on answers say where the leader is, from 18 on they come at once
when only the high watermark has moved."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Who asks: node and cluster, and the folder of its copy."""

    node_id: int
    cluster_id: str
    directory_id: UUID


@dataclass(frozen=True, slots=True)
class Position:
    """How far the observer has come: the offset to fetch next, the epoch before it, and what is committed."""

    offset: int
    epoch: int
    log_start: int
    high_watermark: int


def fetch(who: Observer, leader_epoch: int, at: Position, max_wait_ms: int, most_bytes: int = MOST_BYTES) -> Call[Any]:
    """The records from a position on, or where to go on instead."""
    from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState

    partition = FetchPartition(
        partition=PARTITION,
        current_leader_epoch=leader_epoch,
        fetch_offset=at.offset,
        last_fetched_epoch=at.epoch,
        log_start_offset=at.log_start,
        partition_max_bytes=most_bytes,
        replica_directory_id=who.directory_id,
        high_watermark=at.high_watermark,
    )
    request = FetchRequest(
        cluster_id=who.cluster_id,
        replica_state=ReplicaState(replica_id=who.node_id),
        max_wait=max_wait_ms * MILLISECOND,
        min_bytes=0,
        max_bytes=most_bytes,
        topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )
    return entity_call(request, lowest=LOWEST_FETCH)


def fetch_snapshot(who: Observer, leader_epoch: int, snapshot: SnapshotId, position: int) -> Call[Any]:
    """The bytes of a snapshot from a position on."""
    from kio.schema.fetch_snapshot.v1 import request as asked

    partition = asked.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=leader_epoch,
        snapshot_id=asked.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=who.directory_id,
    )
    request = asked.FetchSnapshotRequest(
        cluster_id=who.cluster_id,
        replica_id=who.node_id,
        max_bytes=MOST_BYTES,
        topics=(asked.TopicSnapshot(name=TOPIC, partitions=(partition,)),),
    )
    return entity_call(request, lowest=0)

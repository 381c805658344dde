"""The metadata log as a controller gives it out: Fetch 4-18 and FetchSnapshot 0-1 (KIP-595, KIP-630, KIP-1166).

Observers of the quorum fetch `__cluster_metadata`. There are no sessions. Only what is committed is given out, in the
same answer with the high watermark. A snapshot is read in parts, by position.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18 import FetchRequest, FetchResponse
from kio.schema.fetch.v18.request import FetchPartition
from kio.schema.fetch.v18.response import (
    EpochEndOffset,
    FetchableTopicResponse,
    PartitionData,
)
from kio.schema.fetch.v18.response import (
    LeaderIdAndEpoch as FetchedLeaderIdAndEpoch,
)
from kio.schema.fetch.v18.response import (
    NodeEndpoint as FetchedNodeEndpoint,
)
from kio.schema.fetch.v18.response import (
    SnapshotId as FetchedSnapshotId,
)
from kio.schema.fetch_snapshot.v1 import FetchSnapshotRequest, FetchSnapshotResponse
from kio.schema.fetch_snapshot.v1 import request as asked
from kio.schema.fetch_snapshot.v1.response import (
    LeaderIdAndEpoch as GivenLeaderIdAndEpoch,
)
from kio.schema.fetch_snapshot.v1.response import (
    NodeEndpoint as GivenNodeEndpoint,
)
from kio.schema.fetch_snapshot.v1.response import (
    PartitionSnapshot,
    TopicSnapshot,
)
from kio.schema.fetch_snapshot.v1.response import (
    SnapshotId as GivenSnapshotId,
)

from broker.api.controller import service_of
from broker.request_context import RequestContext
from controller.quorum import snapshots
from controller.quorum.observers import Diverging
from controller.quorum.survey import TOPIC_ID
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.durations import ZERO
from protocol.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    KafkaError,
    UnknownLeaderEpoch,
)

NO_NODE = -1
ANY_EPOCH = -1
FIRST_VERSION_WITH_TOPIC_IDS = 13


async def fetch_of_controller(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Raises InconsistentClusterId, and InvalidRequest for other partitions."""
    if request.cluster_id not in (None, ctx.cluster.id):
        raise InconsistentClusterId
    wanted = _metadata_partition(ctx, request)
    observers = service_of(ctx).observers
    replica = request.replica_state.replica_id
    try:
        check_epoch(ctx, wanted.current_leader_epoch)
        hindrance = observers.check(wanted.fetch_offset, wanted.last_fetched_epoch)
        if hindrance is not None:
            return _fetched_response(ctx, _told(ctx, hindrance))
        if replica != NO_NODE:
            observers.note(replica, wanted.fetch_offset)
        await observers.wait(wanted.fetch_offset, request.max_wait.total_seconds() * 1000)
        records = await observers.read(wanted.fetch_offset, request.max_bytes)
    except KafkaError as error:
        return _fetched_response(ctx, _partition(ctx, error.code))
    return _fetched_response(ctx, _partition(ctx, ErrorCode.none, records=records))


def _metadata_partition(ctx: RequestContext, request: FetchRequest) -> FetchPartition:
    if ctx.version < FIRST_VERSION_WITH_TOPIC_IDS:
        raise InvalidRequest("The metadata log is fetched by its topic id: use version 13 or a newer one.")
    if len(request.topics) != 1 or request.topics[0].topic_id != TOPIC_ID or len(request.topics[0].partitions) != 1:
        raise InvalidRequest("A controller has no partition but that of __cluster_metadata.")
    (partition,) = request.topics[0].partitions
    if partition.partition != 0:
        raise InvalidRequest("The only partition of __cluster_metadata has the index 0.")
    return partition


def check_epoch(ctx: RequestContext, epoch: int) -> None:
    """Raises FencedLeaderEpoch and UnknownLeaderEpoch unless it is the one in which this controller leads."""
    current = service_of(ctx).log.epoch
    if epoch not in (ANY_EPOCH, current):
        raise FencedLeaderEpoch if epoch < current else UnknownLeaderEpoch


def _told(ctx: RequestContext, hindrance: Diverging | snapshots.SnapshotId) -> PartitionData:
    if isinstance(hindrance, Diverging):
        diverging = EpochEndOffset(epoch=hindrance.epoch, end_offset=hindrance.end_offset)
        return _partition(ctx, ErrorCode.none, diverging_epoch=diverging)
    snapshot = FetchedSnapshotId(end_offset=hindrance.offset, epoch=hindrance.epoch)
    return _partition(ctx, ErrorCode.none, snapshot_id=snapshot)


def _partition(ctx: RequestContext, error: ErrorCode, *, records: Any = b"", **more: Any) -> PartitionData:
    log = service_of(ctx).log
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=log.durable_end,
        last_stable_offset=log.durable_end,
        log_start_offset=log.log.log_start_offset,
        current_leader=FetchedLeaderIdAndEpoch(leader_id=ctx.local.node_id, leader_epoch=log.epoch),
        aborted_transactions=(),
        records=records,
        **more,
    )


def _fetched_response(ctx: RequestContext, partition: PartitionData) -> FetchResponse:
    endpoint = service_of(ctx).endpoint
    nodes: tuple[FetchedNodeEndpoint, ...] = ()
    if endpoint is not None:
        nodes = (FetchedNodeEndpoint(node_id=ctx.local.node_id, host=endpoint.host, port=endpoint.port, rack=None),)
    return FetchResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        session_id=0,
        responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(partition,)),),
        node_endpoints=nodes,
    )


MOST_BYTES = 1 << 20
"""Bytes of one answer, whatever is asked."""


async def fetch_snapshot(ctx: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Raises InconsistentClusterId, and InvalidRequest for other partitions."""
    if request.cluster_id not in (None, ctx.cluster.id):
        raise InconsistentClusterId
    named = [(topic.name, [partition.partition for partition in topic.partitions]) for topic in request.topics]
    if named != [(CLUSTER_METADATA_TOPIC_NAME, [0])]:
        raise InvalidRequest("A controller has no partition but that of __cluster_metadata.")
    (wanted,) = request.topics[0].partitions
    try:
        check_epoch(ctx, wanted.current_leader_epoch)
        snapshot = snapshots.SnapshotId(wanted.snapshot_id.end_offset, wanted.snapshot_id.epoch)
        most = max(min(request.max_bytes, MOST_BYTES), 1)
        data, size = await service_of(ctx).log.read_snapshot(snapshot, wanted.position, most)
    except KafkaError as error:
        return _snapshot_response(ctx, wanted, error.code, b"", 0)
    return _snapshot_response(ctx, wanted, ErrorCode.none, data, size)


def _snapshot_response(
    ctx: RequestContext, wanted: asked.PartitionSnapshot, error: ErrorCode, data: bytes, size: int
) -> FetchSnapshotResponse:
    leader = GivenLeaderIdAndEpoch(leader_id=ctx.local.node_id, leader_epoch=service_of(ctx).log.epoch)
    partition = PartitionSnapshot(
        index=0,
        error_code=error,
        snapshot_id=GivenSnapshotId(end_offset=wanted.snapshot_id.end_offset, epoch=wanted.snapshot_id.epoch),
        current_leader=leader,
        size=size,
        position=wanted.position,
        unaligned_records=data,
    )
    endpoint = service_of(ctx).endpoint
    nodes: tuple[GivenNodeEndpoint, ...] = ()
    if endpoint is not None:
        nodes = (GivenNodeEndpoint(node_id=ctx.local.node_id, host=endpoint.host, port=endpoint.port),)
    topics = (TopicSnapshot(name=CLUSTER_METADATA_TOPIC_NAME, partitions=(partition,)),)
    return FetchSnapshotResponse(throttle_time=ZERO, error_code=ErrorCode.none, topics=topics, node_endpoints=nodes)

"""FetchSnapshot 0-1 (KIP-630): a part of a snapshot of the metadata log, by position."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
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

from broker.handlers.controller.fetch import check_epoch
from broker.handlers.controller.service import service_of
from broker.request_context import RequestContext
from controller.quorum import snapshots
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.durations import ZERO
from protocol.errors import InconsistentClusterId, InvalidRequest, KafkaError

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
        return _response(ctx, wanted, error.code, b"", 0)
    return _response(ctx, wanted, ErrorCode.none, data, size)


def _response(
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

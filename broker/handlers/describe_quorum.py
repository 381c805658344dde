"""DescribeQuorum 0-2 (KIP-595, KIP-836, KIP-853): this node is the only voter of the metadata, and its leader.

With `kraft.version` 0 voters have no directory ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kio.schema.describe_quorum.v2 import DescribeQuorumRequest, DescribeQuorumResponse
from kio.schema.describe_quorum.v2 import request as asked
from kio.schema.describe_quorum.v2.response import Listener, Node, PartitionData, ReplicaState, TopicData
from kio.schema.errors import ErrorCode

from broker.cluster.controller_port import decided_elsewhere
from broker.request_context import RequestContext
from controller.quorum.metadata_log import MetadataLog
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.errors import UnknownTopicOrPartition

METADATA_PARTITION = 0
NO_MESSAGE = ""


def handle(
    ctx: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | Awaitable[DescribeQuorumResponse]:
    if not _is_metadata_alone(request.topics):
        return _response(
            tuple(
                TopicData(topic_name=topic.topic_name, partitions=tuple(map(_unknown, topic.partitions)))
                for topic in request.topics
            )
        )
    log = ctx.cluster.metadata_log
    if log is None:
        return ctx.controller.submit(decided_elsewhere, ctx)
    leader = ctx.local.node_id
    broker = ctx.image.cluster.brokers[leader]
    listeners = tuple(Listener(name=one.name, host=one.host, port=one.port) for one in broker.listeners.values())
    return _response(
        (TopicData(topic_name=CLUSTER_METADATA_TOPIC_NAME, partitions=(_metadata_partition(ctx, log),)),),
        (Node(node_id=leader, listeners=listeners),),
    )


def _is_metadata_alone(topics: Sequence[asked.TopicData]) -> bool:
    named = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in topics]
    return named == [(CLUSTER_METADATA_TOPIC_NAME, [METADATA_PARTITION])]


def _metadata_partition(ctx: RequestContext, log: MetadataLog) -> PartitionData:
    end_offset = log.durable_end
    now_ms = ctx.local.clock.wall_ms()
    leader = ReplicaState(
        replica_id=ctx.local.node_id,
        replica_directory_id=None,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionData(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.none,
        error_message=NO_MESSAGE,
        leader_id=ctx.local.node_id,
        leader_epoch=log.epoch,
        high_watermark=end_offset,
        current_voters=(leader,),
        observers=(),
    )


def _unknown(partition: asked.PartitionData) -> PartitionData:
    error = UnknownTopicOrPartition()
    return PartitionData(
        partition_index=partition.partition_index,
        error_code=error.code,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )


def _response(topics: tuple[TopicData, ...], nodes: tuple[Node, ...] = ()) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=ErrorCode.none, error_message=NO_MESSAGE, topics=topics, nodes=nodes)

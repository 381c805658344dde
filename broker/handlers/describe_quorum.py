"""DescribeQuorum 0-2 (KIP-595, KIP-836, KIP-853): this node is the only voter of the metadata, and its leader.

With `kraft.version` 0 voters have no directory ids. Brokers that read the metadata of this node are its observers, as
long as they have fetched within five minutes.

Deviation: the directory ids of observers are left out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence

from kio.schema.describe_quorum.v2 import DescribeQuorumRequest, DescribeQuorumResponse
from kio.schema.describe_quorum.v2 import request as asked
from kio.schema.describe_quorum.v2.response import Listener, Node, PartitionData, ReplicaState, TopicData
from kio.schema.errors import ErrorCode

from broker.request_context import RequestContext
from controller.quorum.metadata_log import MetadataLog
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.errors import UnknownTopicOrPartition
from protocol.metadata.brokers import Endpoint

METADATA_PARTITION = 0
NO_MESSAGE = ""


def describe_quorum(
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
    assert log is not None, "a controller that is not elsewhere has it"
    leader = ctx.local.node_id
    listeners = tuple(
        Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port) for endpoint in _endpoints(ctx)
    )
    return _response(
        (TopicData(topic_name=CLUSTER_METADATA_TOPIC_NAME, partitions=(_metadata_partition(ctx, log),)),),
        (Node(node_id=leader, listeners=listeners),),
    )


def _endpoints(ctx: RequestContext) -> Iterable[Endpoint]:
    """Where the leader is reached: by its controller's listener, if it has one."""
    service = ctx.cluster.controller_service
    if service is not None and service.endpoint is not None:
        return (service.endpoint,)
    return ctx.image.cluster.brokers[ctx.local.node_id].listeners.values()


def _observers(ctx: RequestContext) -> Iterator[ReplicaState]:
    service = ctx.cluster.controller_service
    if service is None:
        return
    for node_id, observer in sorted(service.observers.known.items()):
        yield ReplicaState(
            replica_id=node_id,
            replica_directory_id=None,
            log_end_offset=observer.offset,
            last_fetch_timestamp=observer.fetched_ms,
            last_caught_up_timestamp=observer.caught_up_ms,
        )


def _is_metadata_alone(topics: Sequence[asked.TopicData]) -> bool:
    named = [(topic.topic_name, [partition.partition_index for partition in topic.partitions]) for topic in topics]
    return named == [(CLUSTER_METADATA_TOPIC_NAME, [METADATA_PARTITION])]


def _metadata_partition(ctx: RequestContext, log: MetadataLog) -> PartitionData:
    end_offset = log.durable_end
    now_ms = ctx.local.clock.machine.wall_ms()  # as the fetches of observers
    leader = ReplicaState(
        replica_id=ctx.local.node_id,
        replica_directory_id=log.voter_directory_id,
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
        observers=tuple(_observers(ctx)),
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

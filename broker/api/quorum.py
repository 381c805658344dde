"""The cluster and its controllers: DescribeCluster 0-2, DescribeQuorum 0-2, UpdateFeatures 0-2, UnregisterBroker 0,
UnregisterController 0, AddRaftVoter 0-1, RemoveRaftVoter 0.

KIP-584, KIP-595, KIP-631, KIP-700, KIP-836, KIP-853, KIP-1022, KIP-1312. A controller of ours is the only voter of the
metadata, and its leader: voters are neither added nor removed. With `kraft.version` 0 voters have no directory ids.
Brokers that read the metadata are its observers, as long as they have fetched within five minutes. Versions 0 and 1 of
UpdateFeatures answer each feature by name.

Deviations: the directory ids of observers are left out. Only the levels of `group.version` and `transaction.version`
change this broker's behaviour. A broker that runs with the controller cannot be unregistered; in Kafka it can.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import NoReturn
from uuid import UUID

from kio.schema.add_raft_voter.v1 import AddRaftVoterRequest
from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker
from kio.schema.describe_quorum.v2 import DescribeQuorumRequest, DescribeQuorumResponse
from kio.schema.describe_quorum.v2 import request as asked
from kio.schema.describe_quorum.v2.response import Listener, Node, PartitionData, ReplicaState, TopicData
from kio.schema.errors import ErrorCode
from kio.schema.remove_raft_voter.v0 import RemoveRaftVoterRequest
from kio.schema.unregister_broker.v0 import UnregisterBrokerRequest, UnregisterBrokerResponse
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as ResponseWithResults
from kio.schema.update_features.v2 import UpdateFeaturesRequest, UpdateFeaturesResponse

from broker.api.metadata import operations_on_cluster
from broker.config.broker_config import split_list
from broker.membership.metadata_cache import controller_id
from broker.request_context import RequestContext
from controller.decision import Decision
from controller.features import FeatureUpdate
from controller.features import decide as decide_features
from controller.quorum.metadata_log import MetadataLog
from controller.unregister_controller import decide as decide_unregistration
from metadata.image import MetadataImage
from metadata.topic_names import CLUSTER_METADATA_TOPIC_NAME
from protocol.durations import ZERO
from protocol.errors import (
    BrokerIdNotRegistered,
    InconsistentClusterId,
    InvalidRequest,
    InvalidUpdateVersion,
    MismatchedEndpointType,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
    UnsupportedVersion,
)
from protocol.metadata.brokers import Endpoint, VoterEndpoint
from protocol.newer.admin import UnregisterControllerRequest, UnregisterControllerResponse

BROKERS = 1
CONTROLLERS = 2


def describe_cluster(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    return DescribeClusterResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        cluster_id=ctx.cluster.id,
        controller_id=controller_id(ctx.image),
        brokers=tuple(_brokers(ctx.image, ctx.connection.listener_name, request.include_fenced_brokers)),
        cluster_authorized_operations=operations_on_cluster(ctx, request.include_cluster_authorized_operations),
    )


def _brokers(image: MetadataImage, listener_name: str, include_fenced: bool) -> Iterator[DescribeClusterBroker]:
    brokers = image.cluster.brokers
    for node_id in sorted(brokers):
        broker = brokers[node_id]
        endpoint = broker.listeners.get(listener_name)
        if endpoint is not None and (include_fenced or not broker.fenced):
            yield DescribeClusterBroker(
                broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
            )


METADATA_PARTITION = 0
NO_MESSAGE = ""


def describe_quorum(
    ctx: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse | Awaitable[DescribeQuorumResponse]:
    if not _is_metadata_alone(request.topics):
        return _describe_quorum_response(
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
    return _describe_quorum_response(
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


def _describe_quorum_response(topics: tuple[TopicData, ...], nodes: tuple[Node, ...] = ()) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=ErrorCode.none, error_message=NO_MESSAGE, topics=topics, nodes=nodes)


LAST_VERSION_WITH_RESULTS = 1


async def update_features(
    ctx: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | ResponseWithResults:
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type) for each in request.feature_updates
    ]
    schema, validate_only = ctx.controller.around.schema, request.validate_only
    raised: asyncio.Future[None] | None = None

    def decision(image: MetadataImage) -> Decision[UpdateFeaturesResponse | ResponseWithResults]:
        nonlocal raised
        kraft_version = ctx.cluster.cache.kraft_version()
        found = decide_features(image, updates, schema, kraft_version=kraft_version, validate_only=validate_only)
        if found.response:  # appended before the other features, in the same turn of the loop
            log, voter = _voter(ctx)
            raised = log.become_dynamic(VoterEndpoint(name=voter.name, host=voter.host, port=voter.port))
        return found.map(lambda _: _done(ctx, updates))

    response = await ctx.controller.submit(decision)
    if raised is not None:
        await asyncio.shield(raised)  # others may wait for it too
    return response


def _voter(ctx: RequestContext) -> tuple[MetadataLog, Endpoint]:
    """The metadata log, and where its controller is reached. Raises InvalidUpdateVersion if it is not."""
    service = ctx.cluster.controller_service
    if service is None or service.endpoint is None:
        raise InvalidUpdateVersion(
            "No feature was changed: kraft.version 1 needs a listener that controller.listener.names has, "
            "where the voter is reached."
        )
    return service.log, service.endpoint


def _done(ctx: RequestContext, updates: Sequence[FeatureUpdate]) -> UpdateFeaturesResponse | ResponseWithResults:
    if ctx.version > LAST_VERSION_WITH_RESULTS:
        return UpdateFeaturesResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message=None)
    return ResponseWithResults(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        results=tuple(
            UpdatableFeatureResult(feature=each.name, error_code=ErrorCode.none, error_message="NONE")
            for each in updates
        ),
    )


async def unregister_broker(ctx: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Raises InvalidRequest, BrokerIdNotRegistered."""
    broker_id = request.broker_id
    if broker_id == ctx.local.node_id:
        raise InvalidRequest(f"Broker {broker_id} runs with the controller, and cannot leave its cluster.")
    service = ctx.cluster.controller_service
    if service is None:
        raise BrokerIdNotRegistered("No broker of that id is registered.")
    await service.unregister(broker_id)
    return UnregisterBrokerResponse(throttle_time=ZERO, error_code=ErrorCode.none, error_message=None)


CONTROLLER_ID_NOT_REGISTERED = 136
"""Kafka 4.4's newest error, which `ErrorCode` does not have yet."""


def unregister_controller(
    ctx: RequestContext, request: UnregisterControllerRequest
) -> Awaitable[UnregisterControllerResponse]:
    """Raises InvalidRequest, UnsupportedVersion."""

    def answer(was_registered: bool) -> UnregisterControllerResponse:
        if was_registered:
            return _unregister_controller_response(ErrorCode.none, "")
        message = f"Controller ID {request.controller_id} is not currently registered."
        return _unregister_controller_response(CONTROLLER_ID_NOT_REGISTERED, message)

    return ctx.controller.submit(
        lambda image: decide_unregistration(image, request.controller_id, ctx.local.node_id).map(answer)
    )


def _unregister_controller_response(error_code: int, message: str) -> UnregisterControllerResponse:
    return UnregisterControllerResponse(throttle_time=ZERO, error_code=int(error_code), error_message=message)


# -- voters: the controller of a cluster is the only one (KIP-853)


def add_raft_voter(ctx: RequestContext, request: AddRaftVoterRequest) -> NoReturn:
    """Raises UnsupportedVersion, or what is wrong with the request."""
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Add")
    configured = split_list(ctx.local.config.optional_string("controller.listener.names") or "")
    default = configured[0].upper() if configured else "CONTROLLER"
    if default not in {listener.name.upper() for listener in request.listeners}:
        raise InvalidRequest(f"The request has no endpoint for the controller listener {default}.")
    raise UnsupportedVersion(_ONLY_VOTER.format("adding"))


def remove_raft_voter(ctx: RequestContext, request: RemoveRaftVoterRequest) -> NoReturn:
    """Raises UnsupportedVersion, or what is wrong with the request."""
    _check_voter(ctx, request.cluster_id, request.voter_id, request.voter_directory_id, "Remove")
    raise UnsupportedVersion(_ONLY_VOTER.format("removing"))


_ONLY_VOTER = "Cluster doesn't support {} voter: the controller of this cluster is the only one."


def _check_voter(
    ctx: RequestContext, cluster_id: str | None, voter_id: int, directory_id: UUID | None, request: str
) -> None:
    """Raises InconsistentClusterId, and InvalidRequest for an invalid voter."""
    ours = ctx.cluster.id
    if cluster_id is not None and cluster_id != ours:
        raise InconsistentClusterId(f'The given id "{cluster_id}" doesn\'t match the cluster id "{ours}"')
    if voter_id < 0 or directory_id is None:
        raise InvalidRequest(f"{request} voter request didn't include a valid voter")

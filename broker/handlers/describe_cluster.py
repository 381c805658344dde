"""DescribeCluster 0-2 (KIP-700, KIP-919, KIP-1073). There is no controller listener: only brokers are listed."""

from __future__ import annotations

from collections.abc import Iterator

from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker
from kio.schema.errors import ErrorCode

from broker.cluster.endpoints import controller_id
from broker.request_context import RequestContext
from broker.security import authorized_operations
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import MismatchedEndpointType, UnsupportedEndpointType

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


def operations_on_cluster(ctx: RequestContext, asked: bool) -> int:
    """What the client may do to the cluster, nothing if it may not describe it."""
    if not asked:
        return authorized_operations.UNKNOWN
    if not ctx.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return ctx.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _brokers(image: MetadataImage, listener_name: str, include_fenced: bool) -> Iterator[DescribeClusterBroker]:
    brokers = image.cluster.brokers
    for node_id in sorted(brokers):
        broker = brokers[node_id]
        endpoint = broker.listeners.get(listener_name)
        if endpoint is not None and (include_fenced or not broker.fenced):
            yield DescribeClusterBroker(
                broker_id=node_id, host=endpoint.host, port=endpoint.port, rack=broker.rack, is_fenced=broker.fenced
            )

"""DescribeCluster 0-2 (KIP-700, KIP-919, KIP-1073). There is no controller listener: only brokers are listed."""

from __future__ import annotations

from kio.schema.describe_cluster.v2 import DescribeClusterRequest, DescribeClusterResponse
from kio.schema.describe_cluster.v2.response import DescribeClusterBroker
from kio.schema.errors import ErrorCode

from broker.network.context import RequestContext
from broker.security import authorized_operations
from protocol.durations import ZERO
from protocol.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType

BROKERS = 1
CONTROLLERS = 2


def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointType(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    node = ctx.node
    listener = node.advertised[ctx.connection.listener_name]
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=(
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=listener.host,
                port=listener.port,
                rack=node.config.optional_string("broker.rack"),
                is_fenced=False,
            ),
        ),
        cluster_authorized_operations=authorized_operations.CLUSTER if asked else authorized_operations.UNKNOWN,
    )


def error_response(ctx: RequestContext, request: DescribeClusterRequest, error: KafkaError) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time=ZERO, error_code=error.code, error_message=error.message, cluster_id="", brokers=()
    )

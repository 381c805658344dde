"""AlterConfigs 0-2 (KIP-133; Kafka's `ConfigAdminManager` and `ConfigurationControlManager`).

What is given replaces all that was set. Deviation: a resource named twice gets INVALID_REQUEST, as in
IncrementalAlterConfigs; Kafka never answers such a request.
"""

from __future__ import annotations

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse
from kio.schema.alter_configs.v2.request import AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse
from kio.schema.errors import ErrorCode

from broker.config.alter import AlterOp, Change
from broker.config_changes import ResourceChange, change_configs
from broker.context import RequestContext
from broker.error_responses import ZERO
from protocol.errors import KafkaError


async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    wanted = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, AlterOp.SET, config.value) for config in resource.configs],
            incremental=False,
        )
        for resource in request.resources
    ]
    errors = await change_configs(ctx.node, wanted, validate_only=request.validate_only)
    return AlterConfigsResponse(
        throttle_time=ZERO,
        responses=tuple(_result(*pair) for pair in zip(request.resources, errors, strict=True)),
    )


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.explicit_message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def error_response(ctx: RequestContext, request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        throttle_time=ZERO, responses=tuple(_result(resource, error) for resource in request.resources)
    )

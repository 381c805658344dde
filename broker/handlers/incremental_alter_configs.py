"""IncrementalAlterConfigs 0-1 (KIP-339, KIP-412; Kafka's `ConfigAdminManager` and `ConfigurationControlManager`)."""

from __future__ import annotations

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource
from kio.schema.incremental_alter_configs.v1.response import AlterConfigsResourceResponse

from broker.config.alter import Change
from broker.config_changes import ResourceChange, change_configs
from broker.context import RequestContext
from broker.error_responses import ZERO
from protocol.errors import KafkaError


async def handle(ctx: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    wanted = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in resource.configs],
            incremental=True,
        )
        for resource in request.resources
    ]
    errors = await change_configs(ctx.node, wanted, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
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


def error_response(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        throttle_time=ZERO, responses=tuple(_result(resource, error) for resource in request.resources)
    )

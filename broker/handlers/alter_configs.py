"""AlterConfigs 0-2 (KIP-133; Kafka's `ConfigAdminManager` and `ConfigurationControlManager`).

The configurations given replace all that were set. Deviation: a resource named twice gets INVALID_REQUEST, as in
IncrementalAlterConfigs; Kafka never answers such a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse
from kio.schema.errors import ErrorCode

from broker.config.alter import AlterOp, Change
from broker.metadata.config_changes import ResourceChange, change_configs
from broker.network.context import RequestContext
from protocol.durations import ZERO
from protocol.errors import KafkaError

_Response = TypeVar("_Response")


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
    return response_of(AlterConfigsResponse, AlterConfigsResourceResponse, request.resources, errors)


def error_response(ctx: RequestContext, request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    errors = [error] * len(request.resources)
    return response_of(AlterConfigsResponse, AlterConfigsResourceResponse, request.resources, errors)


def response_of(
    response: Callable[..., _Response],
    result: Callable[..., object],
    resources: Sequence[Any],
    errors: Iterable[KafkaError | None],
) -> _Response:
    """A response of this API or of IncrementalAlterConfigs, whose classes differ only in name."""
    return response(
        throttle_time=ZERO,
        responses=tuple(
            result(
                error_code=ErrorCode.none if error is None else error.code,
                error_message=None if error is None else error.explicit_message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, error in zip(resources, errors, strict=True)
        ),
    )

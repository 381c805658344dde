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

from broker.config.alter import changed_config
from broker.config.preprocess import preprocess
from broker.request_context import RequestContext
from broker.security.errors import SecurityError
from controller.configs import AlterOp, Change, ResourceChange, decide
from metadata.configs import ResourceType
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError

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
    errors = await change_configs(ctx, wanted, validate_only=request.validate_only)
    return response_of(AlterConfigsResponse, AlterConfigsResourceResponse, request.resources, errors)


async def change_configs(
    ctx: RequestContext, wanted: Sequence[ResourceChange], *, validate_only: bool
) -> list[KafkaError | None]:
    """Make every change that can be made; return each one's error, in the order of the changes."""
    errors, sent_on = preprocess(ctx.local.config, wanted, validate_only=validate_only)
    await _refuse_bad_security(ctx, errors, sent_on)
    controller, changes = ctx.controller, list(sent_on.values())
    decided = await controller.submit(
        lambda image: decide(image, changes, controller.around, validate_only=validate_only)
    )
    for place, error in zip(sent_on, decided, strict=True):
        errors[place] = error
    return errors


async def _refuse_bad_security(
    ctx: RequestContext, errors: list[KafkaError | None], sent_on: dict[int, ResourceChange]
) -> None:
    """Take out changes that name keys, certificates or users that cannot be used: their files are read for that."""
    for place, change in tuple(sent_on.items()):
        if change.resource_type == ResourceType.BROKER and ctx.local.security.listeners:
            try:
                await ctx.local.security.check(changed_config(ctx.local.config, change))
            except SecurityError as error:
                errors[place] = InvalidRequest(str(error))
                del sent_on[place]


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

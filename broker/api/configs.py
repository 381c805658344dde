"""Changes of configurations: AlterConfigs 0-2 (KIP-133), IncrementalAlterConfigs 0-1 (KIP-339, KIP-412), and
ListConfigResources 0-1 (KIP-714, KIP-1142), whose version 0 lists only client metrics.

As in Kafka's `ConfigAdminManager`, the broker that is asked checks its own part, and the controller decides on the rest
(`ConfigurationControlManager`); on a controller's listener only the second is done. AlterConfigs replaces all that was
set for a resource.

Deviation: a resource named twice gets INVALID_REQUEST, as in IncrementalAlterConfigs; Kafka never answers such an
AlterConfigs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kio.schema.alter_configs.v2 import AlterConfigsRequest, AlterConfigsResponse
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse as ReplacedAlterConfigsResourceResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as ChangedAlterConfigsResourceResponse,
)
from kio.schema.list_config_resources.v1 import ListConfigResourcesRequest, ListConfigResourcesResponse
from kio.schema.list_config_resources.v1.response import ConfigResource

from broker.api.broker_changes import changed_config, preprocess
from broker.network.ports import Handler
from broker.request_context import RequestContext
from broker.security.sources import SecurityError
from controller.configs import AlterOp, ConfigChange, ResourceChange, decide
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion

_Response = TypeVar("_Response")


async def _alter_configs(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    return await change_configs(ctx, request, replaced_wanted(request), replaced_respond)


def replaced_wanted(request: AlterConfigsRequest) -> list[ResourceChange]:
    """The changes of the request's resources, in their order."""
    return [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, AlterOp.SET, config.value) for config in resource.configs],
            incremental=False,
        )
        for resource in request.resources
    ]


async def change_configs(
    ctx: RequestContext,
    request: Any,
    replaced_wanted: Sequence[ResourceChange],
    replaced_respond: Callable[[Sequence[Any], Iterable[KafkaError | None]], _Response],
) -> _Response:
    """Make every change that can be made; `wanted` are those of the request's resources, in their order.

    `respond` makes the API's response of resources and their errors. Some changes are refused here. The controller is
    asked for the others, and for nothing if there are none.
    """
    errors, sent_on = preprocess(ctx.local.config, replaced_wanted, validate_only=request.validate_only)
    await _refuse_bad_security(ctx, errors, sent_on)
    answered: Any = replaced_respond(request.resources, errors)
    if not sent_on:
        return replaced_respond(request.resources, errors)
    responses = list(answered.responses)
    by_controller = await decided(ctx, request, sent_on, replaced_respond)
    by_resource = {(each.resource_type, each.resource_name): each for each in by_controller.responses}  # in any order
    for place, change in sent_on.items():
        named = request.resources[place].resource_name
        responses[place] = replace(by_resource[change.resource_type, change.name], resource_name=named)
    done: _Response = replace(answered, responses=tuple(responses))
    return done


async def decided(
    ctx: RequestContext, request: Any, sent_on: Mapping[int, ResourceChange], replaced_respond: Callable[..., Any]
) -> Any:
    """The controller's response for these changes of the request, by their places in it."""
    controller, changes = ctx.controller, list(sent_on.values())
    resources = tuple(replace(request.resources[place], resource_name=each.name) for place, each in sent_on.items())
    if controller.is_elsewhere:
        return await controller.forward(ctx, replace(request, resources=resources))
    return await controller.submit(
        lambda image: decide(image, changes, controller.around, validate_only=request.validate_only).map(
            lambda errors: replaced_respond(resources, errors)
        )
    )


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


def replaced_respond(resources: Sequence[Any], errors: Iterable[KafkaError | None]) -> AlterConfigsResponse:
    return response_of(AlterConfigsResponse, ReplacedAlterConfigsResourceResponse, resources, errors)


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


alter_configs = Handler(_alter_configs, forwards=True)


async def _incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    return await change_configs(ctx, request, changed_wanted(request), changed_respond)


def changed_wanted(request: IncrementalAlterConfigsRequest) -> list[ResourceChange]:
    """The changes of the request's resources, in their order."""
    return [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs],
            incremental=True,
        )
        for resource in request.resources
    ]


def changed_respond(resources: Sequence[Any], errors: Iterable[KafkaError | None]) -> IncrementalAlterConfigsResponse:
    return response_of(IncrementalAlterConfigsResponse, ChangedAlterConfigsResourceResponse, resources, errors)


incremental_alter_configs = Handler(_incremental_alter_configs, forwards=True)


async def alter_configs_of_controller(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    changes = dict(enumerate(replaced_wanted(request)))
    response: AlterConfigsResponse = await decided(ctx, request, changes, replaced_respond)
    return response


async def incremental_alter_configs_of_controller(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    changes = dict(enumerate(changed_wanted(request)))
    response: IncrementalAlterConfigsResponse = await decided(ctx, request, changes, changed_respond)
    return response


def list_config_resources(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    wanted = set(request.resource_types or ResourceType) if ctx.version else {ResourceType.CLIENT_METRICS}
    if not wanted.issubset(ResourceType):
        raise UnsupportedVersion
    return ListConfigResourcesResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=int(resource_type))
            for resource_type in map(ResourceType, sorted(wanted))
            for name in sorted(_names(ctx.image, resource_type))
        ),
    )


def _names(image: MetadataImage, resource_type: ResourceType) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return (topic.name for topic in image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, image.cluster.brokers)
        case ResourceType.GROUP | ResourceType.CLIENT_METRICS:
            return image.configs.names(resource_type)

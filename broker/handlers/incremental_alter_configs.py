"""IncrementalAlterConfigs 0-1 (KIP-339, KIP-412; Kafka's `ConfigAdminManager` and `ConfigurationControlManager`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kio.schema.incremental_alter_configs.v1 import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse as ChangedAlterConfigsResourceResponse,
)

from broker.handlers.alter_configs import change_configs, response_of
from broker.network.handler import Handler
from broker.request_context import RequestContext
from controller.configs import Change, ResourceChange
from protocol.errors import KafkaError


async def _incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    return await change_configs(ctx, request, wanted(request), respond)


def wanted(request: IncrementalAlterConfigsRequest) -> list[ResourceChange]:
    """The changes of the request's resources, in their order."""
    return [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [Change(config.name, config.config_operation, config.value) for config in resource.configs],
            incremental=True,
        )
        for resource in request.resources
    ]


def respond(resources: Sequence[Any], errors: Iterable[KafkaError | None]) -> IncrementalAlterConfigsResponse:
    return response_of(IncrementalAlterConfigsResponse, ChangedAlterConfigsResourceResponse, resources, errors)


incremental_alter_configs = Handler(_incremental_alter_configs, forwards=True)

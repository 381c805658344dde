"""ListConfigResources 0-1 (KIP-714, KIP-1142); version 0 lists only client metrics."""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode
from kio.schema.list_config_resources.v1 import ListConfigResourcesRequest, ListConfigResourcesResponse
from kio.schema.list_config_resources.v1.response import ConfigResource

from broker.request_context import RequestContext
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import UnsupportedVersion


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

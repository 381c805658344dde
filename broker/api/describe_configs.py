"""DescribeConfigs 1-4 (KIP-133, KIP-226, KIP-524, KIP-569; Kafka's `ConfigHelper`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kio.schema.describe_configs.v4 import DescribeConfigsRequest, DescribeConfigsResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode

from broker.config.client_metrics_configs import CLIENT_METRICS_CONFIGS
from broker.config.definition import ConfigDef, to_text
from broker.config.describe import (
    ConfigEntry,
    TopicDescriber,
    broker_synonyms,
    describe_broker,
    describe_broker_default,
    node_id_of,
    require_this_broker,
)
from broker.config.resource_configs import brokers_name, group_configs
from broker.logging import logger_levels
from broker.request_context import RequestContext
from metadata import topic_names
from metadata.configs import ResourceType
from metadata.image import MetadataImage
from protocol.durations import ZERO
from protocol.errors import (
    InvalidConfiguration,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownServerError,
    UnknownTopicOrPartition,
)

KNOWN_TYPES = frozenset(map(int, ResourceType))
DEFAULT_SOURCE = 5
LOGGER_SOURCE = 6
CLIENT_METRICS_SOURCE = 7
GROUP_SOURCE = 8


def describe_configs(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(resource.resource_type not in KNOWN_TYPES for resource in request.resources):
        raise InvalidRequest(InvalidRequest.default_message)  # for all resources, as in Kafka
    # A resource named twice is answered twice, but looked up once: a small request may name thousands.
    describer = TopicDescriber(ctx.local.config)
    results = {resource: _result(ctx, request, resource, describer) for resource in dict.fromkeys(request.resources)}
    return DescribeConfigsResponse(
        throttle_time=ZERO, results=tuple(results[resource] for resource in request.resources)
    )


def _result(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource, describer: TopicDescriber
) -> DescribeConfigsResult:
    configs: list[DescribeConfigsResourceResult] = []
    error: KafkaError | None = None
    try:
        configs = _configs(ctx, request, resource, describer)
    except KafkaError as refused:
        error = refused
    return DescribeConfigsResult(
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if isinstance(error, UnknownServerError) else (error and error.explicit_message) or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(configs),
    )


def _configs(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource, describer: TopicDescriber
) -> list[DescribeConfigsResourceResult]:
    keys, name = resource.configuration_keys, resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return [_described(request, entry) for entry in _topic(ctx.image, name, keys, describer)]
        case ResourceType.BROKER:
            return [_described(request, entry) for entry in _broker(ctx, name, keys)]
        case ResourceType.BROKER_LOGGER:
            return _loggers(ctx, name, keys)
        case ResourceType.GROUP:
            if not name:
                raise InvalidRequest("Group name must not be empty")
            values = ctx.image.configs.of(ResourceType.GROUP, name)
            configs = _of_resource(request, group_configs(ctx.local.config), values, keys, GROUP_SOURCE)
            return [_with_brokers(ctx, request, config) for config in configs]
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise InvalidRequest("Client metrics subscription name must not be empty")
            values = ctx.image.configs.of(ResourceType.CLIENT_METRICS, name)
            return _of_resource(request, CLIENT_METRICS_CONFIGS, values, keys, CLIENT_METRICS_SOURCE)
    raise InvalidRequest(InvalidRequest.default_message)


def _topic(
    image: MetadataImage, name: str, keys: Collection[str] | None, describer: TopicDescriber
) -> list[ConfigEntry]:
    reason = topic_names.invalid_reason(name)
    if reason is not None:
        raise InvalidTopic(reason)
    if image.topics.get(name) is None:
        raise UnknownTopicOrPartition
    try:
        return describer.describe(image.configs.of(ResourceType.TOPIC, name), keys)
    except InvalidConfiguration as error:  # inherited from the broker; Kafka fails
        raise UnknownServerError from error


def _broker(ctx: RequestContext, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
    if not name:
        return describe_broker_default(ctx.local.config, keys)
    require_this_broker(ctx.local.config, name)
    return describe_broker(ctx.local.config, keys)


def _loggers(ctx: RequestContext, name: str, keys: Collection[str] | None) -> list[DescribeConfigsResourceResult]:
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    if node_id_of(name, called="Broker") != ctx.local.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {ctx.local.node_id} but received {name}")
    return [
        DescribeConfigsResourceResult(
            name=logger,
            value=level,
            read_only=False,
            config_source=LOGGER_SOURCE,
            is_sensitive=False,
            synonyms=(),
            documentation="",
        )
        for logger, level in logger_levels().items()
        if not keys or logger in keys
    ]


def _of_resource(
    request: DescribeConfigsRequest,
    definitions: Mapping[str, ConfigDef],
    values: Mapping[str, str],
    keys: Collection[str] | None,
    source: int,
) -> list[DescribeConfigsResourceResult]:
    described: list[DescribeConfigsResourceResult] = []
    for name in sorted(name for name in definitions if not keys or name in keys):
        definition = definitions[name]
        is_set = name in values
        if definition.internal and not is_set:
            continue
        value = to_text(definition.parse(values[name])) if is_set else definition.default_text
        synonyms = [DescribeConfigsSynonym(name=name, value=value, source=source)] if is_set else []
        if source == GROUP_SOURCE:  # Kafka names a group's defaults as synonyms, but not a subscription's
            synonyms.append(DescribeConfigsSynonym(name=name, value=definition.default_text, source=DEFAULT_SOURCE))
        described.append(
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=False,
                config_source=source if is_set else DEFAULT_SOURCE,
                is_sensitive=False,
                synonyms=tuple(synonyms) if request.include_synonyms else (),
                config_type=int(definition.type),
                documentation=definition.doc if request.include_documentation else None,
            )
        )
    return described


def _with_brokers(
    ctx: RequestContext, request: DescribeConfigsRequest, config: DescribeConfigsResourceResult
) -> DescribeConfigsResourceResult:
    """A group's configuration; if a broker's configuration gives its default, that is named as the source."""
    name = brokers_name(config.name)
    if name is None:
        return config
    own = [synonym for synonym in config.synonyms if synonym.source == GROUP_SOURCE]
    brokers = [
        DescribeConfigsSynonym(name=each.name, value=each.value, source=int(each.source))
        for each in broker_synonyms(ctx.local.config, name)
    ]
    source = config.config_source if config.config_source == GROUP_SOURCE or not brokers else brokers[0].source
    synonyms = (*own, *brokers) if request.include_synonyms else ()
    return replace(config, config_source=source, synonyms=synonyms)


def _described(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=int(synonym.source))
            for synonym in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )

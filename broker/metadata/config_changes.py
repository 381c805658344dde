"""The changes of AlterConfigs and IncrementalAlterConfigs, resource by resource (Kafka's `ConfigAdminManager`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.config import alter
from broker.config.alter import AlterOp, Change, UnknownOperationError
from broker.config.broker_config import BrokerConfig
from broker.config.resource_defs import parse_client_metrics_configs, parse_group_configs
from broker.config.resource_names import node_id_of
from broker.config.topic_config import parse_topic_configs
from broker.metadata.resource_configs import Resource, ResourceConfigs, ResourceType
from broker.metadata.store import retrying
from broker.metadata.topics import Topics
from metadata import topic_names
from protocol.errors import (
    InvalidConfiguration,
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    UnknownServerError,
    UnknownTopicOrPartition,
)

LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


class ConfiguredNode(Protocol):
    """The node as changes of its configurations see it."""

    config: BrokerConfig
    node_id: int
    topics: Topics
    resource_configs: ResourceConfigs


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """The change requested for one resource; `incremental` ones modify what is set, others replace it."""

    resource_type: int
    name: str
    changes: Sequence[Change]
    incremental: bool


async def change_configs(
    node: ConfiguredNode, wanted: Sequence[ResourceChange], *, validate_only: bool
) -> list[KafkaError | None]:
    """Make every change that can be made; return each one's error, in the order of the changes."""

    async def attempt() -> list[KafkaError | None]:
        named = Counter((change.resource_type, change.name) for change in wanted)
        topics: dict[str, Mapping[str, str]] = {}
        others: dict[Resource, Mapping[str, str]] = {}

        def check_first(change: ResourceChange) -> None:
            """Check what Kafka's broker checks before it sends the other resources on to the controller."""
            if named[change.resource_type, change.name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            alter.require_well_formed(change.changes)
            match _type_of(change):
                case ResourceType.BROKER_LOGGER:
                    _logger(node, change, validate_only=validate_only)
                case ResourceType.BROKER:
                    others[ResourceType.BROKER, _key(node, change)] = _broker(node, change)

        def plan(change: ResourceChange) -> None:
            match ResourceType(change.resource_type):
                case ResourceType.TOPIC:
                    topics[change.name] = _topic(node, change)
                case ResourceType.GROUP | ResourceType.CLIENT_METRICS as resource_type:
                    others[resource_type, change.name] = _other(node, change)

        errors = [_error_of(check_first, change) for change in wanted]
        sent_on = [
            number
            for number, change in enumerate(wanted)
            if errors[number] is None and change.resource_type != ResourceType.BROKER_LOGGER
        ]
        for number in sent_on:
            errors[number] = _error_of(plan, wanted[number])
        if any(isinstance(errors[number], UnknownOperationError) for number in sent_on):
            return [UnknownServerError() if number in sent_on else error for number, error in enumerate(errors)]
        if not validate_only:
            await node.topics.set_configs(topics)
            await node.resource_configs.set(others)
        return errors

    return await retrying(attempt)


def _error_of(check: Callable[[ResourceChange], None], change: ResourceChange) -> KafkaError | None:
    try:
        check(change)
    except KafkaError as error:
        return error
    return None


def _type_of(change: ResourceChange) -> ResourceType:
    known = change.resource_type in ResourceType.__members__.values()
    if not known or (change.resource_type == ResourceType.BROKER_LOGGER and not change.incremental):
        raise InvalidRequest(f"Unknown resource type {change.resource_type}")
    return ResourceType(change.resource_type)


def _topic(node: ConfiguredNode, change: ResourceChange) -> Mapping[str, str]:
    topic = node.topics.get(change.name)
    overrides = topic.configs if topic is not None and change.incremental else {}
    altered = alter.changed_topic(overrides, change.changes)
    if not change.name:
        raise InvalidRequest("Default topic resources are not allowed.")
    reason = topic_names.invalid_reason(change.name)
    if reason is not None:
        raise InvalidTopic(reason)
    parse_topic_configs(node.config, altered)
    if topic is None:
        raise UnknownTopicOrPartition(f"The topic '{change.name}' does not exist.")
    return altered


def _key(node: ConfiguredNode, change: ResourceChange) -> str:
    """A broker's name as stored: an alias of this broker's id (`+1`, `01`) becomes the id."""
    return str(node.node_id) if alter.is_per_broker(node.config, change.name) else change.name


def _broker(node: ConfiguredNode, change: ResourceChange) -> Mapping[str, str]:
    per_broker = alter.is_per_broker(node.config, change.name)
    return alter.changed_broker(node.config, change.changes, per_broker=per_broker, incremental=change.incremental)


def _other(node: ConfiguredNode, change: ResourceChange) -> Mapping[str, str]:
    resource_type = ResourceType(change.resource_type)
    current = node.resource_configs.get(resource_type, change.name) if change.incremental else {}
    altered = alter.changed_scalars(current, change.changes)
    if resource_type is ResourceType.GROUP:
        if not change.name:
            raise InvalidRequest("Default group resources are not allowed.")
        parse_group_configs(node.config, altered)
    else:
        if not change.name:
            raise InvalidRequest("Subscription name can't be empty")
        parse_client_metrics_configs(altered)
    return altered


def _logger(node: ConfiguredNode, change: ResourceChange, *, validate_only: bool) -> None:
    """Check a change of log levels. Deviation: it has no effect; `odradek.log.level` sets levels at startup."""
    node_id = node_id_of(change.name, called="Node")
    if node_id != node.node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {node.node_id}, but received {node_id}")
    for each in change.changes:
        alter.known_operation(each)
        if each.operation == AlterOp.DELETE and each.name == "root":
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if each.operation in {AlterOp.APPEND, AlterOp.SUBTRACT}:
            operation = AlterOp(each.operation).name
            raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if each.name not in loggers():
            raise InvalidConfiguration(f"Logger {each.name} does not exist!")
        if each.operation == AlterOp.SET and each.value not in LOG_LEVELS:
            raise InvalidConfiguration(
                f"Cannot set the log level of {each.name} to {each.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LOG_LEVELS)}"
            )
    if change.changes and not validate_only:
        raise InvalidRequest("The log level is set by odradek.log.level when the broker starts")


def loggers() -> dict[str, str]:
    """The level of each logger, in Kafka's words."""
    level = logging.getLogger().getEffectiveLevel()
    names = {logging.CRITICAL: "FATAL", logging.WARNING: "WARN"}
    return {"root": names.get(level, logging.getLevelName(level))}

"""The part of a request for changes that this broker answers itself (Kafka's `ConfigAdminManager.preprocess`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from broker import log_levels
from broker.config import alter
from broker.config.broker_config import BrokerConfig
from broker.config.resource_names import node_id_of
from controller.configs import AlterOp, Change, ResourceChange, known_operation
from metadata.configs import ResourceType
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError


def preprocess(
    config: BrokerConfig, wanted: Sequence[ResourceChange], *, validate_only: bool
) -> tuple[list[KafkaError | None], dict[int, ResourceChange]]:
    """Each change's error so far, and by their place those changes that the controller is to decide on."""
    named = Counter((change.resource_type, change.name) for change in wanted)
    errors: list[KafkaError | None] = []
    sent_on: dict[int, ResourceChange] = {}
    for place, change in enumerate(wanted):
        try:
            if named[change.resource_type, change.name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            sent = _checked(config, change, validate_only=validate_only)
        except KafkaError as error:
            errors.append(error)
        else:
            errors.append(None)
            if sent is not None:
                sent_on[place] = sent
    return errors, sent_on


def _checked(config: BrokerConfig, change: ResourceChange, *, validate_only: bool) -> ResourceChange | None:
    """The change as the controller is asked for it; None for one that is no business of its."""
    alter.require_well_formed(change.changes)
    match _type_of(change):
        case ResourceType.BROKER_LOGGER:
            _check_loggers(config, change)
            if not validate_only:
                _change_loggers(change.changes)
            return None
        case ResourceType.BROKER:
            per_broker = alter.is_per_broker(config, change.name)
            alter.check_broker(config, change.changes, per_broker=per_broker, incremental=change.incremental)
            # An alias of this broker's id (`+1`, `01`) becomes the id.
            return replace(change, name=str(config.node_id)) if per_broker else change
    return change


def _type_of(change: ResourceChange) -> ResourceType:
    known = change.resource_type in ResourceType.__members__.values()
    if not known or (change.resource_type == ResourceType.BROKER_LOGGER and not change.incremental):
        raise InvalidRequest(f"Unknown resource type {change.resource_type}")
    return ResourceType(change.resource_type)


def _check_loggers(config: BrokerConfig, change: ResourceChange) -> None:
    """Check a change of log levels (Kafka's `RuntimeLoggerManager`)."""
    node_id = node_id_of(change.name, called="Node")
    if node_id != config.node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {config.node_id}, but received {node_id}")
    known = log_levels.levels()
    for each in change.changes:
        known_operation(each)
        if each.operation == AlterOp.DELETE and each.name == log_levels.ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if each.operation in {AlterOp.APPEND, AlterOp.SUBTRACT}:
            operation = AlterOp(each.operation).name
            raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if each.name not in known:
            raise InvalidConfiguration(f"Logger {each.name} does not exist!")
        if each.operation == AlterOp.SET and each.value not in log_levels.LEVELS:
            valid = ", ".join(log_levels.LEVELS)
            raise InvalidConfiguration(
                f"Cannot set the log level of {each.name} to {each.value}. Valid levels are: {valid}"
            )


def _change_loggers(changes: Sequence[Change]) -> None:
    """Make a checked change of log levels. It lasts until the process ends."""
    for each in changes:
        if each.operation == AlterOp.DELETE:
            log_levels.unset_level(each.name)
        else:
            assert each.value is not None
            log_levels.set_level(each.name, each.value)

"""What a broker checks of AlterConfigs and IncrementalAlterConfigs before the controller decides on them.

Rules are those of Kafka's `ConfigAdminManager` and `DynamicBrokerConfig`. As in Kafka, APPEND or SUBTRACT of an unknown
broker name, or of `process.roles`, fails with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.cross_checks import broken_rules
from broker.config.definition import ConfigDef, ConfigType, InvalidValueError, UpdateMode, to_text
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.kafka_names import alterable, base_name, mode_of
from broker.config.listeners import parse_listeners
from broker.config.reconfigure import refused_change
from broker.config.resource_names import node_id_of
from controller.configs import AlterOp, Change, ResourceChange, apply_changes
from protocol.errors import InvalidConfiguration, InvalidRequest, UnknownServerError

_BROKER: Mapping[str, ConfigDef] = {**NOT_NEEDED, **BROKER_CONFIGS}
_WITHOUT_A_DEFINITION = "process.roles"
"""Kafka's broker finds no definition for it when it appends to a value."""


def require_well_formed(changes: Sequence[Change]) -> None:
    """The first checks, for every kind of resource. Raises InvalidRequest."""
    if len({change.name for change in changes}) < len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != AlterOp.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


def check_broker(config: BrokerConfig, changes: Sequence[Change], *, per_broker: bool, incremental: bool) -> None:
    """Check changes of this broker's dynamic configurations, or of the cluster's.

    Raises InvalidRequest and InvalidConfiguration.
    """
    current = config.dynamic_broker if per_broker else config.dynamic_default
    for change in changes:
        if change.operation not in AlterOp.__members__.values():
            raise InvalidRequest(f"Unknown operations type {change.operation}")
    for change in changes:
        _require_list(change)
    altered = apply_changes(current if incremental else {}, changes, _default_of_list)
    _check_altered(config, altered, per_broker=per_broker)


def changed_config(config: BrokerConfig, change: ResourceChange) -> BrokerConfig:
    """The node's configuration after a change of its own or the cluster's that `check_broker` lets through."""
    per_broker = bool(change.name)
    current = config.dynamic_broker if per_broker else config.dynamic_default
    altered = apply_changes(current if change.incremental else {}, change.changes, _default_of_list)
    return _with_altered(config, altered, per_broker=per_broker)


def _with_altered(config: BrokerConfig, altered: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
    if per_broker:
        return config.with_dynamic(altered, config.dynamic_default)
    return config.with_dynamic(config.dynamic_broker, altered)


def _default_of_list(name: str) -> str | None:
    definition = _BROKER.get(name)
    is_list = definition is not None and definition.type is ConfigType.LIST
    return to_text(definition.default) or "" if definition is not None and is_list else None


def is_per_broker(config: BrokerConfig, resource_name: str) -> bool:
    """Whether an altered BROKER resource is this broker; '' is the cluster. Raises InvalidRequest for any other."""
    if not resource_name:
        return False
    if node_id_of(resource_name, called="Node") != config.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {config.node_id}, but received {resource_name}")
    return True


def _require_list(change: Change) -> None:
    if change.operation not in (AlterOp.APPEND, AlterOp.SUBTRACT):
        return
    definition = _BROKER.get(change.name)
    if definition is None or change.name == _WITHOUT_A_DEFINITION:
        raise UnknownServerError
    if definition.type is not ConfigType.LIST:
        word = AlterOp(change.operation).name.lower()
        raise InvalidConfiguration(f"Config value {word} is not allowed for config key: {change.name}")


def _check_altered(config: BrokerConfig, altered: Mapping[str, str], *, per_broker: bool) -> None:
    """Raises InvalidRequest for what cannot be altered, and for values that a running broker cannot take."""
    by_mode: dict[UpdateMode | None, list[str]] = {}
    for name in altered:
        by_mode.setdefault(mode_of(name), []).append(name)
    if names := by_mode.get(UpdateMode.READ_ONLY):
        raise InvalidRequest(f"These take effect only at a start, set them in the file: {', '.join(names)}")
    if names := by_mode.get(UpdateMode.PER_LISTENER):
        raise InvalidRequest(f"Set these per listener, as listener.name.<name>.<config>: {', '.join(names)}")
    _check_values(altered)
    if (names := by_mode.get(UpdateMode.PER_BROKER)) and not per_broker:
        raise InvalidRequest(f"Name a broker, since these cannot be set for the whole cluster: {', '.join(names)}")
    try:
        if config.resolve is not None:
            config.resolve(altered)
        changed = _with_altered(config, altered, per_broker=per_broker)
        parse_listeners(changed)
    except ConfigurationError as error:
        raise InvalidRequest("; ".join(error.problems)) from error
    broken = next((rule.line for rule in broken_rules(changed) if rule.when_altered), None)
    complaint = broken or refused_change(config, changed)
    if complaint:
        raise InvalidRequest(complaint)


def _check_values(altered: Mapping[str, str]) -> None:
    """Check each value by itself, a listener's like the broker's; a listener's unalterable ones are not checked."""
    definitions = alterable()
    try:
        for name, text in altered.items():
            if (definition := definitions.get(base_name(name))) is not None:
                value = definition.parse(text)
                if definition.check is None and isinstance(value, tuple) and len(set(value)) < len(value):
                    raise InvalidValueError(name, text, "entries must not be repeated")
    except InvalidValueError as error:
        raise InvalidRequest(str(error)) from error

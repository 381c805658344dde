"""What AlterConfigs and IncrementalAlterConfigs may change, and the configuration after the change.

The rules are those of Kafka's `ConfigAdminManager`, `DynamicBrokerConfig` and `ConfigurationControlManager`.
Nothing is stored here: each function returns the new overrides, or raises InvalidRequest or InvalidConfiguration.

As in Kafka, an operation that does not exist (except on a broker) fails with UNKNOWN_SERVER_ERROR, and so does APPEND
or SUBTRACT of an unknown broker name or of `process.roles`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.cross_checks import broken_rules
from broker.config.definition import ConfigDef, ConfigType, InvalidValueError, UpdateMode, to_text
from broker.config.defs import BROKER_CONFIGS, TOPIC_CONFIGS
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.kafka_names import alterable, base_name, mode_of
from broker.config.listeners import parse_listeners
from broker.config.reconfigure import refused_change
from broker.config.resource_names import node_id_of
from protocol.errors import InvalidConfiguration, InvalidRequest, UnknownServerError
from protocol.java_strings import utf16_length

_BROKER: Mapping[str, ConfigDef] = {**NOT_NEEDED, **BROKER_CONFIGS}
_MIN_ISR = "min.insync.replicas"
_WITHOUT_A_DEFINITION = "process.roles"
"""Kafka's broker finds no definition for it when it appends to a value."""
_LONGEST_VALUE = 32_767
"""In characters, counted as UTF-16 does."""


class AlterOp(enum.IntEnum):
    """The operations of IncrementalAlterConfigs, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One incremental change; `operation` is the number on the wire."""

    name: str
    operation: int
    value: str | None


def require_well_formed(changes: Sequence[Change]) -> None:
    """The first checks, for every kind of resource. Raises InvalidRequest."""
    if len({change.name for change in changes}) < len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != AlterOp.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


class UnknownOperationError(UnknownServerError):
    """An operation that does not exist, which Kafka's controller does not expect: all that it was sent fails."""


def known_operation(change: Change) -> AlterOp:
    """Raises UnknownOperationError for one that does not exist."""
    try:
        return AlterOp(change.operation)
    except ValueError:
        raise UnknownOperationError from None


def changed_topic(overrides: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A topic's overrides after the changes; only the size of the values is checked."""
    return _of_sizes_allowed(_changed(overrides, changes, TOPIC_CONFIGS))


def changed_scalars(overrides: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The overrides of a group or a client metrics resource, where Kafka treats nothing as a list; unchecked."""
    return _changed(overrides, changes, {})


def changed_broker(
    config: BrokerConfig, changes: Sequence[Change], *, per_broker: bool, incremental: bool
) -> dict[str, str]:
    """This broker's dynamic configurations, or the cluster's, after the changes (all replaced unless incremental)."""
    current = config.dynamic_broker if per_broker else config.dynamic_default
    for change in changes:
        if change.operation not in AlterOp.__members__.values():
            raise InvalidRequest(f"Unknown operations type {change.operation}")
    for change in changes:
        _require_list(change)
    altered = _changed(current if incremental else {}, changes, _BROKER)
    _check_broker(config, altered, per_broker=per_broker)
    _check_min_isr(current, altered, {change.name for change in changes}, per_broker=per_broker)
    return _of_sizes_allowed(altered)


def is_per_broker(config: BrokerConfig, resource_name: str) -> bool:
    """Whether an altered BROKER resource is this broker; '' is the cluster. Raises InvalidRequest for any other."""
    if not resource_name:
        return False
    if node_id_of(resource_name, called="Node") != config.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {config.node_id}, but received {resource_name}")
    return True


def _changed(
    current: Mapping[str, str], changes: Iterable[Change], definitions: Mapping[str, ConfigDef]
) -> dict[str, str]:
    altered = dict(current)
    for change in {change.name: change for change in changes}.values():
        operation, value = known_operation(change), change.value or ""
        match operation:
            case AlterOp.SET:
                altered[change.name] = value
            case AlterOp.DELETE:
                altered.pop(change.name, None)
            case AlterOp.APPEND | AlterOp.SUBTRACT:
                definition = definitions.get(change.name)
                if definition is None or definition.type is not ConfigType.LIST:
                    raise InvalidConfiguration(
                        f"Can't {operation.name} to key {change.name} because its type is not LIST."
                    )
                text = altered.get(change.name)
                parts = _parts(to_text(definition.default) or "" if text is None else text)
                altered[change.name] = ",".join(_combined([part for part in parts if part], operation, value))
    return altered


def _of_sizes_allowed(altered: dict[str, str]) -> dict[str, str]:
    """The same. Raises InvalidConfiguration if appending made a value too long for Kafka's records of metadata."""
    if any(utf16_length(value) > _LONGEST_VALUE for value in altered.values()):
        raise InvalidConfiguration(f"A configuration value may have {_LONGEST_VALUE} characters at most.")
    return altered


def _combined(parts: list[str], operation: AlterOp, value: str) -> list[str]:
    for part in _parts(value):
        if operation is AlterOp.APPEND and part not in parts:
            parts.append(part)
        elif operation is AlterOp.SUBTRACT and part in parts:
            parts.remove(part)
    return parts


def _parts(text: str) -> list[str]:
    """Java's `split(",")`: empty parts at the end are dropped, unless the text is empty."""
    parts = text.split(",")
    while text and parts and not parts[-1]:
        parts.pop()
    return parts


def _require_list(change: Change) -> None:
    if change.operation not in (AlterOp.APPEND, AlterOp.SUBTRACT):
        return
    definition = _BROKER.get(change.name)
    if definition is None or change.name == _WITHOUT_A_DEFINITION:
        raise UnknownServerError
    if definition.type is not ConfigType.LIST:
        word = AlterOp(change.operation).name.lower()
        raise InvalidConfiguration(f"Config value {word} is not allowed for config key: {change.name}")


def _check_broker(config: BrokerConfig, altered: Mapping[str, str], *, per_broker: bool) -> None:
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
    if per_broker:
        changed = config.with_dynamic(altered, config.dynamic_default)
    else:
        changed = config.with_dynamic(config.dynamic_broker, altered)
    try:
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
                definition.parse(text)
    except InvalidValueError as error:
        raise InvalidRequest(str(error)) from error


def _check_min_isr(
    current: Mapping[str, str], altered: Mapping[str, str], touched: Iterable[str], *, per_broker: bool
) -> None:
    """KIP-966, which a 4.1 cluster starts with: `min.insync.replicas` is set for the whole cluster, and stays set."""
    if per_broker and _MIN_ISR in touched:
        raise InvalidConfiguration("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    if not per_broker and _MIN_ISR in current and _MIN_ISR not in altered:
        raise InvalidConfiguration("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")

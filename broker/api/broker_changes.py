"""What a broker checks of AlterConfigs and IncrementalAlterConfigs before the controller decides on them.

Changes of log levels, and what is wrong with changes of the broker's own settings, it answers itself
(`ConfigAdminManager.preprocess`, `DynamicBrokerConfig`). APPEND or SUBTRACT of `process.roles`, which makes Kafka fail,
is INVALID_REQUEST.

Values that are valid by themselves may still not replace those of a running broker (`DynamicThreadPool`,
`DynamicLogConfig`, `DynamicListenerConfig`, `DynamicRemoteLogConfig`, `LogCleaner`, `ConnectionQuotas`,
`DataPlaneAcceptor`). Clients see these refusals, so they are Kafka's, also of settings that have no effect here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from broker.config.broker_config import BrokerConfig, ConfigurationError
from broker.config.cross_checks import broken_rules
from broker.config.definition import ConfigType, InvalidValueError, UpdateMode, Value, to_text
from broker.config.defs import KNOWN_CONFIGS, TOPIC_CONFIGS, alterable, base_name, definition_of, mode_of
from broker.config.describe import node_id_of
from broker.config.listeners import Listener, parse_listeners
from broker.logging import LEVELS, ROOT, logger_levels, set_level, unset_level
from controller.configs import AlterOp, ConfigChange, ResourceChange, apply_changes, known_operation
from metadata.configs import ResourceType
from protocol.errors import InvalidConfiguration, InvalidRequest, KafkaError

_WITHOUT_A_DEFINITION = "process.roles"
"""Kafka's broker finds no definition for it when it appends to a value."""
_QUOTAS = ("max.connections", "max.connection.creation.rate")
_NETWORK_THREADS = "num.network.threads"
_OF_LISTENER = (*_QUOTAS, _NETWORK_THREADS)
_REPORTER = "org.apache.kafka.common.metrics.JmxReporter"
_AS_RETENTION = -2
"""What `log.local.retention.ms` and `.bytes` are where the whole retention is meant."""
_POOLS = (
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "background.threads",
    "num.io.threads",
    "log.cleaner.threads",
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
)


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
    require_well_formed(change.changes)
    match _type_of(change):
        case ResourceType.BROKER_LOGGER:
            _check_loggers(config, change)
            if not validate_only:
                _change_loggers(change.changes)
            return None
        case ResourceType.BROKER:
            per_broker = is_per_broker(config, change.name)
            check_broker(config, change.changes, per_broker=per_broker, incremental=change.incremental)
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
    known = logger_levels()
    for each in change.changes:
        known_operation(each)
        if each.operation == AlterOp.DELETE and each.name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if each.operation in {AlterOp.APPEND, AlterOp.SUBTRACT}:
            operation = AlterOp(each.operation).name
            raise InvalidRequest(f"{operation} operation is not allowed for the BROKER_LOGGER resource")
        if each.name not in known:
            raise InvalidConfiguration(f"Logger {each.name} does not exist!")
        if each.operation == AlterOp.SET and each.value not in LEVELS:
            valid = ", ".join(LEVELS)
            raise InvalidConfiguration(
                f"Cannot set the log level of {each.name} to {each.value}. Valid levels are: {valid}"
            )


def _change_loggers(changes: Sequence[ConfigChange]) -> None:
    """Make a checked change of log levels. It lasts until the process ends."""
    for each in changes:
        if each.operation == AlterOp.DELETE:
            unset_level(each.name)
        else:
            assert each.value is not None
            set_level(each.name, each.value)


def require_well_formed(changes: Sequence[ConfigChange]) -> None:
    """The first checks, for every kind of resource. Raises InvalidRequest."""
    if len({change.name for change in changes}) < len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != AlterOp.DELETE]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


def check_broker(config: BrokerConfig, changes: Sequence[ConfigChange], *, per_broker: bool, incremental: bool) -> None:
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
    definition = KNOWN_CONFIGS.get(name)
    is_list = definition is not None and definition.type is ConfigType.LIST
    return to_text(definition.default) or "" if definition is not None and is_list else None


def is_per_broker(config: BrokerConfig, resource_name: str) -> bool:
    """Whether an altered BROKER resource is this broker; '' is the cluster. Raises InvalidRequest for any other."""
    if not resource_name:
        return False
    if node_id_of(resource_name, called="Node") != config.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {config.node_id}, but received {resource_name}")
    return True


def _require_list(change: ConfigChange) -> None:
    if change.operation not in (AlterOp.APPEND, AlterOp.SUBTRACT):
        return
    definition = KNOWN_CONFIGS.get(change.name)
    if change.name == _WITHOUT_A_DEFINITION:
        raise InvalidRequest(f"{change.name} is no config with a list of values.")
    if definition is None or definition.type is not ConfigType.LIST:
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


def refused_change(old: BrokerConfig, new: BrokerConfig) -> str | None:
    """The first objection to `new` while `old` is in use; None if there is none."""
    changed = {name for name in {*old.given, *new.given} if old.given.get(name) != new.given.get(name)}
    return next(_complaints(old, new, changed), None) if changed else None


def _complaints(old: BrokerConfig, new: BrokerConfig, changed: set[str]) -> Iterator[str]:
    for listener in parse_listeners(old).bound:
        yield from _listener_limits(listener, old, new)
    if "metric.reporters" in changed:
        yield from _reporters(new)
    for name in _POOLS:
        yield from _pool(name, _integer(old, name), _integer(new, name))
    yield from _local_retention(new, changed)
    yield from _listeners(old, new, changed)


def _listener_limits(listener: Listener, old: BrokerConfig, new: BrokerConfig) -> Iterator[str]:
    try:
        before, after = _values_of(listener, old), _values_of(listener, new)
    except InvalidValueError as error:
        yield str(error)
        return
    if any(before[name] != after[name] for name in _QUOTAS):
        yield from (f"Invalid {name} {after[name]}" for name in _QUOTAS if after[name] == 0)
    yield from _pool(_NETWORK_THREADS, before[_NETWORK_THREADS], after[_NETWORK_THREADS])


def _values_of(listener: Listener, config: BrokerConfig) -> dict[str, int]:
    """The listener's limits: its own, else the broker's. Raises InvalidValueError for anything under its prefix."""
    values = {name: _integer(config, name) for name in _OF_LISTENER}
    for name, text in _under_prefix(listener, config.given).items():
        definition = definition_of(name) or definition_of(name.partition(".")[2])
        value = definition.parse(text) if definition else None
        if name in values:
            assert isinstance(value, int)
            values[name] = value
    return values


def _under_prefix(listener: Listener, given: Mapping[str, str]) -> dict[str, str]:
    prefix = f"listener.name.{listener.name.lower()}."
    return {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}


def _reporters(new: BrokerConfig) -> Iterator[str]:
    reporters = _value(new, "metric.reporters")
    assert isinstance(reporters, tuple)
    if not {*reporters} <= {_REPORTER}:
        yield f"metric.reporters = {','.join(reporters)!r}: expected none but {_REPORTER}"


def _pool(name: str, before: int, after: int) -> Iterator[str]:
    """Check that a pool's size at most halves or doubles."""
    if after == before:
        return
    low, high = max(before // 2, 1), before * 2
    if not low <= after <= high:
        yield f"{name} = {after}: expected from {low} to {high}, half to double of the current {before}"


def _local_retention(new: BrokerConfig, changed: set[str]) -> Iterator[str]:
    """Check that what a tiered log would keep here is within its retention, and its delay of copies within that."""
    if not changed & {definition.synonyms[0].name for definition in TOPIC_CONFIGS.values() if definition.synonyms}:
        return
    for unit in ("ms", "bytes"):
        retention = new.topic_default(f"retention.{unit}")
        assert isinstance(retention, int)
        key = f"log.local.retention.{unit}"
        local = new.integer(key)
        if retention > -1 and (local == -1 or local > retention):
            yield f"{key} = {local}: expected at most log.retention.{unit}, {retention}"
        kept = retention if local == _AS_RETENTION else local
        lag = new.integer(f"log.remote.copy.lag.{unit}")
        if kept > -1 and lag > kept:
            yield f"log.remote.copy.lag.{unit} = {lag}: expected at most {kept}, the local retention"


def _listeners(old: BrokerConfig, new: BrokerConfig, changed: set[str]) -> Iterator[str]:
    if not any(name in _OF_LISTENER or _mode(name) is UpdateMode.PER_BROKER for name in changed):
        return
    before, after = ({listener.name: listener for listener in _all_listeners(config)} for config in (old, new))
    for name in (name for name in before if name in after):
        # Kafka forgets what was set at run time, so it blocks every later change.
        if _fixed(before[name], old.static) != _fixed(after[name], new.given):
            yield f"The settings of listener {name} take effect only at a start: set them in the file"
        if before[name].protocol != after[name].protocol:
            yield f"The protocol of listener {name} cannot be changed while the broker runs"


def _all_listeners(config: BrokerConfig) -> tuple[Listener, ...]:
    parsed = parse_listeners(config)
    return parsed.bound + parsed.left_out


def _fixed(listener: Listener, given: Mapping[str, str]) -> dict[str, str]:
    """What is set for a listener and takes effect only when it starts."""
    return {
        name: text
        for name, text in _under_prefix(listener, given).items()
        if name not in _OF_LISTENER and _mode(name) is not UpdateMode.PER_LISTENER
    }


def _mode(name: str) -> UpdateMode | None:
    definition = definition_of(name)
    return None if definition is None else definition.mode


def _value(config: BrokerConfig, name: str) -> Value:
    """The value of any Kafka configuration, also of one that is not needed here."""
    if name in config.values:
        return config.values[name]
    definition = KNOWN_CONFIGS[name]
    return definition.parse(config.given.get(name, str(definition.default)))


def _integer(config: BrokerConfig, name: str) -> int:
    value = _value(config, name)
    assert isinstance(value, int)
    return value

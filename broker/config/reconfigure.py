"""Whether a running broker accepts changed configurations (Kafka's reconfigurables).

Each checks whether values that are valid by themselves may replace the current ones (`DynamicBrokerConfig`,
`DynamicThreadPool`, `DynamicLogConfig`, `DynamicListenerConfig`, `DynamicRemoteLogConfig`, `LogCleaner`,
`ConnectionQuotas`, `DataPlaneAcceptor`). The first complaint is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.config.broker_config import BrokerConfig
from broker.config.definition import InvalidValueError, UpdateMode, Value
from broker.config.defs import TOPIC_CONFIGS
from broker.config.defs.not_needed import NOT_NEEDED
from broker.config.kafka_names import definition_of
from broker.config.listeners import Listener, parse_listeners

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
    definition = NOT_NEEDED[name]
    return definition.parse(config.given.get(name, str(definition.default)))


def _integer(config: BrokerConfig, name: str) -> int:
    value = _value(config, name)
    assert isinstance(value, int)
    return value

"""Rules that join several configurations (`KafkaConfig.validateValues`), for the values a broker starts with."""

from __future__ import annotations

from collections.abc import Iterator

from broker.config.broker_config import BrokerConfig


def broken_rules(config: BrokerConfig) -> Iterator[str]:
    """A line for each rule that is broken: key, value and what was expected."""
    yield from _identity(config)
    yield from _log(config)
    yield from _sockets(config)
    yield from _groups(config)


def _identity(config: BrokerConfig) -> Iterator[str]:
    broker_id = config.integer("broker.id")
    if broker_id not in (-1, config.node_id):
        yield f"broker.id = {broker_id}: expected the same as node.id, {config.node_id}"
    if "broker" not in config.list_("process.roles"):
        yield f"process.roles = {','.join(config.list_('process.roles'))!r}: expected it to have broker"
    if not config.log_dirs:
        yield "log.dirs = '': expected at least one folder"


def _log(config: BrokerConfig) -> Iterator[str]:
    for topic_name, key, low in (("segment.ms", "log.roll.ms", 1), ("segment.jitter.ms", "log.roll.jitter.ms", 0)):
        value = config.topic_default(topic_name)
        if isinstance(value, int) and value < low:
            yield f"{key} = {value}: expected at least {low}"
    if config.topic_default("retention.ms") == 0:
        yield "log.retention.ms = 0: expected at least 1, or -1 for no limit"
    low_lag = config.integer("log.cleaner.min.compaction.lag.ms")
    if low_lag > config.integer("log.cleaner.max.compaction.lag.ms"):
        yield f"log.cleaner.min.compaction.lag.ms = {low_lag}: expected at most log.cleaner.max.compaction.lag.ms"
    threads = config.integer("log.cleaner.threads")
    buffer = config.integer("log.cleaner.dedupe.buffer.size")
    if threads < 1:
        yield "log.cleaner.threads = 0: expected at least 1"
    elif buffer // threads <= 1 << 20:
        yield f"log.cleaner.dedupe.buffer.size = {buffer}: expected more than 1 MB for each of {threads} threads"


def _sockets(config: BrokerConfig) -> Iterator[str]:
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    if 0 < queued < largest:
        yield f"queued.max.request.bytes = {queued}: expected at least socket.request.max.bytes, {largest}"
    key = "max.connections.per.ip.overrides"
    try:
        overrides = config.max_connections_per_ip_overrides
    except ValueError:
        yield f"{key} = {config.string(key)!r}: expected host:count pairs"
        return
    if config.integer("max.connections.per.ip") == 0 and not overrides:
        yield f"max.connections.per.ip = 0: expected at least 1, or {key} to be set"
    wait, timeout = config.integer("replica.fetch.wait.max.ms"), config.integer("replica.socket.timeout.ms")
    if wait > timeout:
        yield f"replica.fetch.wait.max.ms = {wait}: expected at most replica.socket.timeout.ms, {timeout}"
    lag = config.integer("replica.lag.time.max.ms")
    if wait > lag:
        yield f"replica.fetch.wait.max.ms = {wait}: expected at most replica.lag.time.max.ms, {lag}"


def _groups(config: BrokerConfig) -> Iterator[str]:
    for kind in ("session.timeout", "heartbeat.interval"):
        low, high = (config.integer(f"group.consumer.{end}.{kind}.ms") for end in ("min", "max"))
        key = f"group.consumer.{kind}.ms"
        value = config.integer(key)
        if low > high:
            yield f"group.consumer.min.{kind}.ms = {low}: expected at most group.consumer.max.{kind}.ms, {high}"
        if not low <= value <= high:
            yield f"{key} = {value}: expected from {low} to {high}, its minimum and maximum"
    session, heartbeat = (
        config.integer(f"group.consumer.{key}.ms") for key in ("session.timeout", "heartbeat.interval")
    )
    if heartbeat >= session:
        yield f"group.consumer.heartbeat.interval.ms = {heartbeat}: expected less than the session timeout, {session}"
    codec = config.integer("offsets.topic.compression.codec")
    if codec not in range(5):
        yield f"offsets.topic.compression.codec = {codec}: expected from 0 to 4"
    protocols = config.list_("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        yield f"group.coordinator.rebalance.protocols = {','.join(protocols)!r}: expected it to have classic"

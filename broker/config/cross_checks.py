"""Rules that involve several configurations (`KafkaConfig.validateValues`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig
from broker.config.control_address import control_address
from broker.config.controllers import broken_cluster_rules
from broker.config.defs.authorization import STANDARD_AUTHORIZER
from broker.config.defs.followers import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from broker.config.start_acls import parse_start_acls
from broker.config.start_topics import parse_start_topics
from broker.config.super_users import super_users
from coordinator.group.consumer.assignors import ASSIGNORS

_HOST = r"[0-9a-zA-Z\-%._:]*"


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """`line` has the key, the value and what was expected; `when_altered`: a change at run time must not break it."""

    line: str
    when_altered: bool = False


def broken_rules(config: BrokerConfig) -> Iterator[BrokenRule]:
    """The broken rules."""
    yield from map(BrokenRule, _identity(config))
    yield from map(BrokenRule, broken_cluster_rules(config))
    yield from _log(config)
    yield from map(BrokenRule, _replication(config))
    yield from _connections(config)
    yield from map(BrokenRule, _groups(config))


def _identity(config: BrokerConfig) -> Iterator[str]:
    broker_id = config.integer("broker.id")
    if broker_id not in (-1, config.node_id):
        yield f"broker.id = {broker_id}: expected the same as node.id, {config.node_id}"
    if not config.list_("process.roles"):
        yield "process.roles = '': expected broker, controller, or both"
    if not config.log_dirs:
        yield "log.dirs = '': expected at least one folder"
    try:
        parse_start_topics(config.string("odradek.create.topics"))
    except ValueError as error:
        yield f"odradek.create.topics: {error}"
    try:
        control_address(config)
    except ValueError as error:
        yield str(error)
    authorizer = config.string("authorizer.class.name")
    if authorizer not in ("", STANDARD_AUTHORIZER):
        yield f"authorizer.class.name = {authorizer!r}: expected {STANDARD_AUTHORIZER}, or nothing for no authorizer"
    try:
        acls = parse_start_acls(config.string("odradek.create.acls"))
    except ValueError as error:
        yield f"odradek.create.acls: {error}"
    else:
        if acls and not authorizer:
            yield f"odradek.create.acls: expected authorizer.class.name={STANDARD_AUTHORIZER} with it"
        if acls and config.is_in_cluster:
            yield "odradek.create.acls: expected none on a node whose controllers are other nodes"
    for principal in super_users(config):
        if not principal.partition(":")[2]:
            yield f"super.users = {principal!r}: expected principals such as User:{principal}, separated by semicolons"


def _log(config: BrokerConfig) -> Iterator[BrokenRule]:
    for topic_name, key, low in (("segment.ms", "log.roll.ms", 1), ("segment.jitter.ms", "log.roll.jitter.ms", 0)):
        value = config.topic_default(topic_name)
        if isinstance(value, int) and value < low:
            yield BrokenRule(f"{key} = {value}: expected at least {low}", when_altered=True)
    if config.topic_default("retention.ms") == 0:
        yield BrokenRule("log.retention.ms = 0: expected at least 1, or -1 for no limit", when_altered=True)
    threads = config.integer("log.cleaner.threads")
    buffer = config.integer("log.cleaner.dedupe.buffer.size")
    if threads < 1:
        yield BrokenRule("log.cleaner.threads = 0: expected at least 1", when_altered=True)
    elif buffer // threads <= 1 << 20:
        yield BrokenRule(
            f"log.cleaner.dedupe.buffer.size = {buffer}: expected more than 1 MB for each of {threads} threads",
            when_altered=True,
        )
    low_lag = config.integer("log.cleaner.min.compaction.lag.ms")
    if low_lag > config.integer("log.cleaner.max.compaction.lag.ms"):
        yield BrokenRule(
            f"log.cleaner.min.compaction.lag.ms = {low_lag}: expected at most log.cleaner.max.compaction.lag.ms"
        )


def _replication(config: BrokerConfig) -> Iterator[str]:
    wait, timeout = config.integer("replica.fetch.wait.max.ms"), config.integer("replica.socket.timeout.ms")
    if wait > timeout:
        yield f"replica.fetch.wait.max.ms = {wait}: expected at most replica.socket.timeout.ms, {timeout}"
    lag = config.integer("replica.lag.time.max.ms")
    if wait > lag:
        yield f"replica.fetch.wait.max.ms = {wait}: expected at most replica.lag.time.max.ms, {lag}"
    selector = config.optional_string("replica.selector.class")
    if selector not in (None, "", RACK_AWARE_SELECTOR, LEADER_SELECTOR):
        yield f"replica.selector.class = {selector!r}: expected {RACK_AWARE_SELECTOR} or {LEADER_SELECTOR}"
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    if 0 < queued < largest:
        yield f"queued.max.request.bytes = {queued}: expected at least socket.request.max.bytes, {largest}"


def _connections(config: BrokerConfig) -> Iterator[BrokenRule]:
    key = "max.connections.per.ip.overrides"
    wrong = BrokenRule(f"{key} = {config.string(key)!r}: expected host:count pairs", when_altered=True)
    try:
        overrides = config.max_connections_per_ip_overrides
    except ValueError:
        yield wrong
        return
    if config.integer("max.connections.per.ip") == 0 and not overrides:
        yield BrokenRule(f"max.connections.per.ip = 0: expected at least 1, or {key} to be set", when_altered=True)
    if not all(re.fullmatch(_HOST, host) for host in overrides):
        yield wrong


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
    assignors = config.list_("group.consumer.assignors")
    if not assignors or not ASSIGNORS.keys() >= set(assignors):
        known = ", ".join(ASSIGNORS)
        yield f"group.consumer.assignors = {','.join(assignors)!r}: expected one or more of {known}"
    codec = config.integer("offsets.topic.compression.codec")
    if codec not in range(5):
        yield f"offsets.topic.compression.codec = {codec}: expected from 0 to 4"
    protocols = config.list_("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        yield f"group.coordinator.rebalance.protocols = {','.join(protocols)!r}: expected it to have classic"

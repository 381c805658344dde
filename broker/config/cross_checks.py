"""Rules that involve several configurations (`KafkaConfig.validateValues`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from broker.config.broker_config import BrokerConfig
from broker.config.controllers import broken_cluster_rules
from broker.config.defs import BROKER_CONFIGS
from broker.config.defs.node import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from broker.config.defs.security import STANDARD_AUTHORIZER
from broker.config.structured import control_address, parse_start_acls, parse_start_topics, super_users

_HOST = r"[0-9a-zA-Z\-%._:]*"
_OF_GROUPS = r"(?m)^(group\.(consumer|share|streams)\.((?!min\.|max\.).*))$"
CONSUMER_ASSIGNORS = ("uniform", "range")
"""The assignors of the group coordinator, which this package does not import."""
_ONLY_ASSIGNORS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "group.share.assignors": frozenset({"simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"}),
        "group.streams.assignors": frozenset(
            {"sticky", "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor"}
        ),
    }
)
"""The names of the one assignor that there is."""


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """`line` has the key, the value and what was expected; `when_altered`: a change at run time must not break it."""

    line: str
    when_altered: bool = False


def broken_rules(config: BrokerConfig) -> Iterator[BrokenRule]:
    """The broken rules."""
    yield from map(BrokenRule, _identity(config))
    yield from map(BrokenRule, broken_cluster_rules(config))
    yield from map(BrokenRule, _policies(config))
    yield from _log(config)
    yield from _cordoned(config)
    yield from map(BrokenRule, _replication(config))
    yield from _connections(config)
    yield from _limits(config)
    yield from map(BrokenRule, _groups(config))
    if config.boolean("remote.log.storage.system.enable"):
        from broker.config.tier_checks import broken_rules_of_store

        yield from map(BrokenRule, broken_rules_of_store(config))


def _identity(config: BrokerConfig) -> Iterator[str]:
    broker_id = config.integer("broker.id")
    if broker_id not in (-1, config.node_id):
        yield f"broker.id = {broker_id}: expected the same as node.id, {config.node_id}"
    if not config.list_("process.roles"):
        yield "process.roles = '': expected broker, controller, or both"
    if not config.log_dirs:
        yield "log.dirs = '': expected at least one folder"
    yield from _backups(config)
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


def _backups(config: BrokerConfig) -> Iterator[str]:
    """A backup in a folder of `log.dirs` would be taken for a part of it."""
    folder = config.optional_string("odradek.backup.folder")
    if folder is not None:
        if not os.path.isabs(folder):
            yield f"odradek.backup.folder = {folder!r}: expected an absolute path"
        place = os.path.join(os.path.realpath(folder), "")
        if any(place.startswith(os.path.join(os.path.realpath(log_dir), "")) for log_dir in config.log_dirs):
            yield f"odradek.backup.folder = {folder!r}: expected a folder outside of log.dirs"


def _policies(config: BrokerConfig) -> Iterator[str]:
    """Classes of Java's that would forbid something: to go on without them would allow it."""
    controls = () if config.is_in_cluster else ("create.topic.policy.class.name", "alter.config.policy.class.name")
    serves = ("client.quota.callback.class",) if config.is_broker else ()
    for key in (*controls, *serves):
        if value := config.given.get(key, "").strip():
            yield (
                f"{key} = {value!r}: expected none, since no class of Java's can be run here. Leave it out if what it "
                "forbids may be allowed; ACLs and quotas are enforced here"
            )


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


def _cordoned(config: BrokerConfig) -> Iterator[BrokenRule]:
    named = config.list_("cordoned.log.dirs")
    shown = f"cordoned.log.dirs = {','.join(named)!r}"
    if "*" in named:
        if len(named) > 1:
            yield BrokenRule(f"{shown}: expected * alone, or folders of log.dirs", when_altered=True)
    elif unknown := [path for path in named if path not in config.log_dirs]:
        yield BrokenRule(f"{shown}: expected folders of log.dirs, which has no {', '.join(unknown)}", when_altered=True)
    elif len(set(named)) < len(named):
        yield BrokenRule(f"{shown}: expected each folder once", when_altered=True)


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
    delay, idle = config.integer("connection.failed.authentication.delay.ms"), config.integer("connections.max.idle.ms")
    if 0 <= idle <= delay:
        yield BrokenRule(
            f"connection.failed.authentication.delay.ms = {delay}: expected less than connections.max.idle.ms, {idle}"
        )


@cache
def _limited() -> tuple[tuple[str, str | None, str | None], ...]:
    """The defaults of groups that have limits, with the settings that are their least and greatest value."""
    found = []
    for name, kind, rest in re.findall(_OF_GROUPS, "\n".join(BROKER_CONFIGS)):
        low, high = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"
        found.append((name, low if low in BROKER_CONFIGS else None, high if high in BROKER_CONFIGS else None))
    return tuple(found)


def _limits(config: BrokerConfig) -> Iterator[BrokenRule]:
    """Check the defaults of groups against the broker's limits (`GroupCoordinatorConfig`, `ShareGroupConfig`)."""
    for name, low, high in _limited():
        if low and config.integer(name) < config.integer(low):
            line = f"{name} = {config.integer(name)}: expected at least {low}, {config.integer(low)}"
            yield BrokenRule(line, when_altered=True)
        if high and config.integer(name) > config.integer(high):
            line = f"{name} = {config.integer(name)}: expected at most {high}, {config.integer(high)}"
            yield BrokenRule(line, when_altered=True)


def _groups(config: BrokerConfig) -> Iterator[str]:
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = (
            config.integer(f"group.{kind}.{key}.ms") for key in ("session.timeout", "heartbeat.interval")
        )
        if heartbeat >= session:
            yield f"group.{kind}.heartbeat.interval.ms = {heartbeat}: expected less than the session timeout, {session}"
    sessions, members = config.integer("group.share.max.share.sessions"), config.integer("group.share.max.size")
    if sessions < members:
        yield f"group.share.max.share.sessions = {sessions}: expected at least group.share.max.size, {members}"
    assignors = config.list_("group.consumer.assignors")
    if not assignors or not {*CONSUMER_ASSIGNORS} >= {*assignors}:
        known = ", ".join(CONSUMER_ASSIGNORS)
        yield f"group.consumer.assignors = {','.join(assignors)!r}: expected one or more of {known}"
    for key, names in _ONLY_ASSIGNORS.items():
        assignors = tuple(dict.fromkeys(config.list_(key)))
        if len(assignors) != 1 or assignors[0] not in names:
            yield f"{key} = {','.join(assignors)!r}: expected {min(names, key=len)}"
    tags = config.list_("group.streams.rack.aware.assignment.tags")
    if len(set(tags)) < len(tags):
        yield f"group.streams.rack.aware.assignment.tags = {','.join(tags)!r}: expected each key once"
    codec = config.integer("offsets.topic.compression.codec")
    if codec not in range(5):
        yield f"offsets.topic.compression.codec = {codec}: expected from 0 to 4"
    protocols = config.list_("group.coordinator.rebalance.protocols")
    if "classic" not in protocols:
        yield f"group.coordinator.rebalance.protocols = {','.join(protocols)!r}: expected it to have classic"

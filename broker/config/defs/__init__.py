"""All configurations of the broker and of topics, by name, and what a name stands for.

`listener.name.<listener>.<configuration>` sets one for a listener.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from broker.config.definition import ConfigDef, Rows, UpdateMode
from broker.config.defs import groups, log, network, node, odradek, security, topics
from broker.config.defs.not_needed import ALTERED_ONLY, NOT_NEEDED

_SECTIONS: tuple[tuple[str, Rows], ...] = (
    ("Node", node.NODE),
    ("Cluster", node.CLUSTER_OF_NODES),
    ("Followers and their leaders", node.FOLLOWERS),
    ("Network", network.NETWORK),
    ("TLS", security.TLS),
    ("SASL", security.SASL),
    ("Topics", log.TOPICS),
    ("Log", log.LOG),
    ("Compaction", log.CLEANER),
    ("Tiered storage", log.TIERED_STORAGE),
    ("Replication", node.REPLICATION),
    ("Groups", groups.GROUPS),
    ("Committed offsets", groups.OFFSETS),
    ("Transactions", groups.TRANSACTIONS),
    ("Share groups", groups.SHARE_GROUPS),
    ("Streams groups", groups.STREAMS_GROUPS),
    ("Client quotas", network.QUOTAS),
    ("Authorization", security.AUTHORIZATION),
    ("Delegation tokens", security.TOKENS),
    ("Schema registry", odradek.REGISTRY),
    ("Odradek's own", odradek.ODRADEK),
)
BROKER_SECTIONS: tuple[tuple[str, tuple[ConfigDef, ...]], ...] = tuple(
    (title, tuple(row.named(name) for name, row in rows.items())) for title, rows in _SECTIONS
)
BROKER_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {definition.name: definition for _, section in BROKER_SECTIONS for definition in section}
)
"""The configurations whose values a broker has: those that mean something, and the defaults of topics."""
TOPIC_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {name: row.named(name) for name, row in (topics.TOPICS | topics.OF_SCHEMAS).items()}
)
KNOWN_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType({**BROKER_CONFIGS, **NOT_NEEDED})
"""Every configuration of a broker's that Kafka or this broker knows."""

# Where the default here is not Kafka's, and why.
CHANGED_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        "node.id": "Kafka has no default; one node needs no number of its own.",
        "process.roles": "Kafka has no default; a plain start should need no settings.",
        "listeners": "Kafka opens every interface; a plain start should be seen by this machine alone.",
        "log.dir": "Kafka writes to /tmp/kafka-logs, which a reboot empties.",
        "offsets.topic.replication.factor": "3 in Kafka, which one node cannot hold. In a cluster it is 3.",
        "transaction.state.log.replication.factor": "3 in Kafka, which one node cannot hold. In a cluster it is 3.",
        "transaction.state.log.min.isr": "2 in Kafka, which one node cannot reach. In a cluster it is 2.",
        "share.coordinator.state.topic.replication.factor": (
            "3 in Kafka, which one node cannot hold. In a cluster it is 3."
        ),
        "share.coordinator.state.topic.min.isr": "2 in Kafka, which one node cannot reach. In a cluster it is 2.",
    }
)

# Configurations with several names, highest precedence first.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    synonym.name: tuple(other.name for other in definition.synonyms)
    for definition in TOPIC_CONFIGS.values()
    for synonym in definition.synonyms
    if len(definition.synonyms) > 1
} | {"log.flush.scheduler.interval.ms": ("log.flush.scheduler.interval.ms",)}

# Families of names that Kafka passes on to a listener, a plugin or its logging.
_LISTENER_PREFIX = "listener.name."
_PREFIXES = (_LISTENER_PREFIX, "rlmm.config.", "rsm.config.", "config.providers", "log4j")
_OF_LISTENER = r"listener\.name\.[^.]*\.(.*)"
# What may be set for a listener cluster-wide.
_CLUSTER_WIDE_OF_LISTENER = ("max.connections", "max.connection.creation.rate", "num.network.threads")

# What a listener may have for each SASL mechanism, following the mechanism's name.
_OF_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)


def names_of(name: str) -> tuple[str, ...]:
    """Every name for what `name` sets, highest precedence first (`DynamicBrokerConfig.brokerConfigSynonyms`)."""
    return _SYNONYMS.get(name, (name,))


def is_not_needed(name: str) -> bool:
    """Whether Kafka 4.4 knows `name` and this broker does not."""
    return name in NOT_NEEDED or name.startswith(_PREFIXES)


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a broker configuration, even if it is not needed here; None for that of a plugin of Kafka."""
    found = KNOWN_CONFIGS.get(name)
    return None if found is not None and found.of_plugin else found


def base_name(name: str) -> str:
    """The configuration that `listener.name.<listener>.<configuration>` sets; any other name is returned as it is."""
    match = re.fullmatch(_OF_LISTENER, name)
    return match[1] if match else name


def described_names(name: str) -> tuple[str, ...]:
    """Every name for what `name` sets, highest precedence first; the broker's follows a listener's own.

    This is `DynamicBrokerConfig.brokerConfigSynonyms` with `matchListenerOverride`.
    """
    base = base_name(name)
    if base == name:
        return names_of(name)
    return name, next((own for own in _OF_MECHANISM if base.endswith(own)), base)


@cache
def alterable() -> Mapping[str, ConfigDef]:
    """The definitions by which AlterConfigs checks a broker's values."""
    alterable = {
        name: definition
        for name, definition in KNOWN_CONFIGS.items()
        if definition.mode is not UpdateMode.READ_ONLY and not definition.of_plugin
    }
    return MappingProxyType({**ALTERED_ONLY, **alterable})


def mode_of(name: str) -> UpdateMode | None:
    """Where `name` may be altered in Kafka; None for a name unknown to Kafka, which may be set anywhere."""
    base = base_name(name)
    if base != name:
        return UpdateMode.CLUSTER_WIDE if base in _CLUSTER_WIDE_OF_LISTENER else UpdateMode.PER_BROKER
    definition = definition_of(name)
    return None if definition is None else definition.mode

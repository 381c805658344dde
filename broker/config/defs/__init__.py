"""All configurations of the broker and of topics, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.config.definition import ConfigDef, Rows
from broker.config.defs import groups, log, network, node, odradek, security, topics
from broker.config.defs.not_needed import NOT_NEEDED

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
    ("Replication", node.REPLICATION),
    ("Groups", groups.GROUPS),
    ("Committed offsets", groups.OFFSETS),
    ("Transactions", groups.TRANSACTIONS),
    ("Share groups", groups.SHARE_GROUPS),
    ("Streams groups", groups.STREAMS_GROUPS),
    ("Client quotas", network.QUOTAS),
    ("Authorization", security.AUTHORIZATION),
    ("Delegation tokens", security.TOKENS),
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
    {name: row.named(name) for name, row in topics.TOPICS.items()}
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

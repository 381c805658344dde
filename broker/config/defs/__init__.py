"""All configurations of the broker and of topics, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.config.definition import ConfigDef
from broker.config.defs.authorization import AUTHORIZER_DEFS, TOKEN_DEFS
from broker.config.defs.cleaner import CLEANER_DEFS
from broker.config.defs.cluster import CLUSTER_DEFS
from broker.config.defs.followers import FOLLOWER_DEFS
from broker.config.defs.groups import GROUP_DEFS, OFFSET_DEFS
from broker.config.defs.log import LOG_DEFS
from broker.config.defs.network import NETWORK_DEFS
from broker.config.defs.node import NODE_DEFS, REPLICATION_DEFS, TOPIC_DEFAULT_DEFS
from broker.config.defs.odradek import ODRADEK_DEFS
from broker.config.defs.quotas import QUOTA_DEFS
from broker.config.defs.security import SASL_DEFS, TLS_DEFS
from broker.config.defs.share import SHARE_DEFS
from broker.config.defs.streams import STREAMS_DEFS
from broker.config.defs.topics import TOPIC_DEFS
from broker.config.defs.transactions import TRANSACTION_DEFS

BROKER_SECTIONS: tuple[tuple[str, tuple[ConfigDef, ...]], ...] = (
    ("Node", NODE_DEFS),
    ("Cluster", CLUSTER_DEFS),
    ("Followers and their leaders", FOLLOWER_DEFS),
    ("Network", NETWORK_DEFS),
    ("TLS", TLS_DEFS),
    ("SASL", SASL_DEFS),
    ("Topics", TOPIC_DEFAULT_DEFS),
    ("Log", LOG_DEFS),
    ("Compaction", CLEANER_DEFS),
    ("Replication", REPLICATION_DEFS),
    ("Groups", GROUP_DEFS),
    ("Committed offsets", OFFSET_DEFS),
    ("Transactions", TRANSACTION_DEFS),
    ("Share groups", SHARE_DEFS),
    ("Streams groups", STREAMS_DEFS),
    ("Client quotas", QUOTA_DEFS),
    ("Authorization", AUTHORIZER_DEFS),
    ("Delegation tokens", TOKEN_DEFS),
    ("Odradek's own", ODRADEK_DEFS),
)

BROKER_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {definition.name: definition for _, section in BROKER_SECTIONS for definition in section}
)
TOPIC_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType({definition.name: definition for definition in TOPIC_DEFS})

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

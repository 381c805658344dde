"""Broker configurations of a node in a cluster: its controllers, registration and shutdown (`KRaftConfigs`)."""

from __future__ import annotations

from broker.config.definition import MINUTE_MS, SECOND_MS, ConfigDef, ConfigType, at_least, one_of

INT, LIST, STRING = ConfigType.INT, ConfigType.LIST, ConfigType.STRING

CLUSTER_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "controller.quorum.bootstrap.servers",
        LIST,
        (),
        "Controllers of the cluster, as `host:port`, with which to begin. A node with `process.roles=broker`, for "
        "which these or `controller.quorum.voters` are set, is a broker of that cluster.",
    ),
    ConfigDef(
        "controller.quorum.voters",
        LIST,
        (),
        "All controllers of the cluster, as `id@host:port`, where they are configured and not in the metadata log.",
    ),
    ConfigDef(
        "controller.quorum.fetch.timeout.ms",
        INT,
        2 * SECOND_MS,
        "Time without an answer from the active controller after which another one is asked who it is.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "controller.quorum.request.timeout.ms",
        INT,
        2 * SECOND_MS,
        "Time to wait for the answer to one request for metadata.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "controller.quorum.retry.backoff.ms",
        INT,
        20,
        "Pause after a failed request for metadata.",
        at_least(0),
        "ms",
    ),
    ConfigDef(
        "controller.socket.timeout.ms",
        INT,
        30 * SECOND_MS,
        "Time to wait for the answer to one request that is sent on to the active controller.",
        unit="ms",
    ),
    ConfigDef(
        "broker.heartbeat.interval.ms", INT, 2 * SECOND_MS, "Time between two heartbeats to the controller.", unit="ms"
    ),
    ConfigDef(
        "broker.session.timeout.ms",
        INT,
        9 * SECOND_MS,
        "Time without a heartbeat after which the controller takes this node for dead; it is the controller's own "
        "setting that counts there.",
        unit="ms",
    ),
    ConfigDef(
        "auto.leader.rebalance.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a controller gives leaderships back to the first replicas from time to time.",
    ),
    ConfigDef(
        "leader.imbalance.check.interval.seconds",
        ConfigType.LONG,
        300,
        "Time between two such looks at all partitions.",
        at_least(1),
        "s",
    ),
    ConfigDef(
        "initial.broker.registration.timeout.ms",
        INT,
        MINUTE_MS,
        "Time after which a start is given up, if the controller has not registered this node by then.",
        unit="ms",
    ),
    ConfigDef(
        "controlled.shutdown.enable",
        ConfigType.BOOLEAN,
        True,
        "Whether a node that stops first lets the controller move its leaders to other nodes.",
    ),
    ConfigDef(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener that brokers use among themselves; without it, the one named like "
        "`security.inter.broker.protocol`.",
    ),
    ConfigDef(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "Security protocol between brokers, which is also the name of their listener.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
)

DEFAULTS_IN_A_CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""Kafka's defaults, which a node that stands alone could not meet."""

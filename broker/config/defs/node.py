"""Broker configurations of the node, its cluster, and replication (`KRaftConfigs`, `ReplicationConfigs`)."""

from __future__ import annotations

from broker.config.definition import (
    CLUSTER,
    MINUTE_MS,
    SECOND_MS,
    Rows,
    at_least,
    boolean,
    each_of,
    entries,
    integer,
    long,
    one_of,
    string,
)
from broker.config.defs.topics import defaults_of

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"

NODE: Rows = {
    "node.id": integer(
        1, "Id of this node; the same as `broker.id` if both are set. To be set in a cluster.", at_least(0)
    ),
    "broker.id": integer(-1, "Older name of `node.id`; -1 is unset."),
    "process.roles": entries(
        ("broker",),
        "Roles of a KRaft node. With `broker` alone, and controllers named in `controller.quorum.bootstrap.servers` "
        "or `controller.quorum.voters`, the node is a broker of their cluster. With `controller` alone it is the only "
        "controller of other nodes, and no broker. Otherwise it stands alone.",
        each_of("broker", "controller"),
    ),
    "config.providers": entries(
        (),
        "Names of providers of values that are kept elsewhere, written as `${name:path:key}` or `${name:key}`. "
        "`config.providers.<name>.class` is Kafka's `EnvVarConfigProvider` (with `.param.allowlist.pattern`), "
        "`FileConfigProvider` or `DirectoryConfigProvider` (both with `.param.allowed.paths`). What is set at run "
        "time has no effect.",
        mode=CLUSTER,
    ),
    "broker.rack": string(None, "Name of the rack, sent to clients so that they can fetch from a near node."),
}

CLUSTER_OF_NODES: Rows = {
    "controller.quorum.bootstrap.servers": entries(
        (),
        "Controllers of the cluster, as `host:port`, with which to begin. A node with `process.roles=broker`, for "
        "which these or `controller.quorum.voters` are set, is a broker of that cluster.",
    ),
    "controller.quorum.voters": entries(
        (), "All controllers of the cluster, as `id@host:port`, where they are configured and not in the metadata log."
    ),
    "controller.quorum.fetch.timeout.ms": integer(
        2 * SECOND_MS,
        "Time without an answer from the active controller after which another one is asked who it is.",
        at_least(0),
    ),
    "controller.quorum.request.timeout.ms": integer(
        2 * SECOND_MS, "Time to wait for the answer to one request for metadata.", at_least(0)
    ),
    "controller.quorum.retry.backoff.ms": integer(20, "Pause after a failed request for metadata.", at_least(0)),
    "controller.socket.timeout.ms": integer(
        30 * SECOND_MS, "Time to wait for the answer to one request that is sent on to the active controller."
    ),
    "broker.heartbeat.interval.ms": integer(2 * SECOND_MS, "Time between two heartbeats to the controller."),
    "broker.session.timeout.ms": integer(
        9 * SECOND_MS,
        "Time without a heartbeat after which the controller takes this node for dead; it is the controller's own "
        "setting that counts there.",
    ),
    "auto.leader.rebalance.enable": boolean(
        True, "Whether a controller gives leaderships back to the first replicas from time to time."
    ),
    "leader.imbalance.check.interval.seconds": long(300, "Time between two such looks at all partitions.", at_least(1)),
    "initial.broker.registration.timeout.ms": integer(
        MINUTE_MS, "Time after which a start is given up, if the controller has not registered this node by then."
    ),
    "controlled.shutdown.enable": boolean(
        True, "Whether a node that stops first lets the controller move its leaders to other nodes."
    ),
    "inter.broker.listener.name": string(
        None,
        "The listener that brokers use among themselves; without it, the one named like "
        "`security.inter.broker.protocol`.",
    ),
    "security.inter.broker.protocol": string(
        "PLAINTEXT",
        "Security protocol between brokers, which is also the name of their listener.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
}

DEFAULTS_IN_A_CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
"""Kafka's defaults, which a node that stands alone could not meet."""

REPLICATION: Rows = {
    **defaults_of("min.insync.replicas", "unclean.leader.election.enable"),
    "replica.lag.time.max.ms": long(
        30 * SECOND_MS, "Time without having caught up after which a follower leaves the in-sync replicas."
    ),
    "replica.socket.timeout.ms": integer(30 * SECOND_MS, "Time a follower waits for the leader's answer."),
    "replica.fetch.max.bytes": integer(
        1 << 20, "Bytes a follower asks of one partition. A larger batch still comes.", at_least(0)
    ),
    "replica.fetch.wait.max.ms": integer(500, "Longest wait of a follower's fetch at the leader."),
    "replica.fetch.min.bytes": integer(1, "Bytes that end a follower's wait at the leader."),
    "replica.fetch.response.max.bytes": integer(
        10 << 20, "Bytes a follower asks for in one fetch over all its partitions.", at_least(0)
    ),
    "replica.fetch.backoff.ms": integer(SECOND_MS, "Pause of a follower after a failed fetch.", at_least(0)),
    "replica.high.watermark.checkpoint.interval.ms": long(
        5 * SECOND_MS, "Time between two writes of the high watermarks."
    ),
}

FOLLOWERS: Rows = {
    "num.replica.fetchers": integer(
        1,
        "Fetches that are under way to each leader at once: its partitions are shared out to them.",
        at_least(1),
        mode=CLUSTER,
    ),
    "replica.selector.class": string(
        None,
        "Where consumers that name their rack are told to read (KIP-392): "
        f"`{RACK_AWARE_SELECTOR}` sends them to a follower in that rack; without it, or with `{LEADER_SELECTOR}`, they "
        "read from the leader. There is no other here.",
    ),
    "replication.quota.window.num": integer(
        11,
        "Samples over which the rate of throttled replicas is averaged, the current one included (KIP-73).",
        at_least(1),
        "samples",
    ),
    "replication.quota.window.size.seconds": integer(1, "Time that each of these samples covers.", at_least(1)),
}

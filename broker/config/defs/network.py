"""Broker configurations of listeners and connections, and of client quotas (`SocketServerConfigs`, `QuotaConfig`)."""

from __future__ import annotations

from broker.config.definition import (
    CLUSTER,
    INT_MAX,
    MINUTE_MS,
    PER_BROKER,
    Rows,
    at_least,
    entries,
    integer,
    long,
    string,
)

NETWORK: Rows = {
    "listeners": entries(
        ("PLAINTEXT://127.0.0.1:9092",),
        "Comma separated addresses to accept connections on, each `NAME://host:port`. An empty host, 0.0.0.0 and [::] "
        "all mean every IPv4 and IPv6 address, an IPv6 address stands in brackets, and port 0 takes a free one. "
        "Altering it has no effect.",
        mode=PER_BROKER,
    ),
    "advertised.listeners": entries(
        None,
        "Addresses that clients are told to connect to, where they differ from `listeners`: behind a NAT, or from "
        "inside a container.",
    ),
    "listener.security.protocol.map": string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name, as `NAME:PROTOCOL` pairs: PLAINTEXT, SSL, SASL_PLAINTEXT or "
        "SASL_SSL. Altering it has no effect.",
        mode=PER_BROKER,
    ),
    "controller.listener.names": entries(
        None,
        "Names of the controllers' listeners; the first gives, by `listener.security.protocol.map`, the protocol with "
        "which a broker speaks to them. A node that stands alone leaves them out of `listeners`.",
    ),
    "socket.send.buffer.bytes": integer(
        100 << 10, "Send buffer asked of the operating system for each connection; -1 leaves its default."
    ),
    "socket.receive.buffer.bytes": integer(
        100 << 10,
        "Receive buffer asked of the operating system for each connection; with -1 and the default it adapts its own.",
    ),
    "socket.request.max.bytes": integer(
        100 << 20, "Largest request; the connection of a larger one is closed before it is read.", at_least(1)
    ),
    "socket.listen.backlog.size": integer(
        50,
        "Connections that may wait to be accepted, at least 1,024 here; the operating system may allow fewer.",
        at_least(1),
        "connections",
    ),
    "max.connections": integer(
        INT_MAX,
        "Connections at one time; further ones wait for one of these to close.",
        at_least(0),
        "connections",
        mode=CLUSTER,
    ),
    "max.connections.per.ip": integer(
        INT_MAX,
        "Connections at one time from one address; 0 only with `max.connections.per.ip.overrides`.",
        at_least(0),
        "connections",
        mode=CLUSTER,
    ),
    "max.connections.per.ip.overrides": string(
        "", "Limits of single hosts in place of `max.connections.per.ip`, as `host:count` pairs.", mode=CLUSTER
    ),
    "connections.max.idle.ms": long(
        10 * MINUTE_MS, "Time without a request after which a connection is closed; negative never closes one."
    ),
    "queued.max.request.bytes": long(
        -1,
        "Bytes of all requests being read or handled, beyond which reading pauses; -1 for no limit.",
        has_effect=False,
    ),
    "fetch.max.bytes": integer(
        55 << 20,
        "Most bytes of records in one Fetch answer, whatever the request allows. A larger first batch still goes out.",
        at_least(1024),
    ),
    "max.incremental.fetch.session.cache.slots": integer(
        1000, "Incremental fetch sessions (KIP-227) held at one time.", at_least(0), "sessions"
    ),
    "max.request.partition.size.limit": integer(
        2000, "Most partitions in one answer of DescribeTopicPartitions.", at_least(1), "partitions"
    ),
    "telemetry.max.bytes": integer(
        1 << 20, "Largest set of metrics that a client may push, after compression.", at_least(1)
    ),
}

QUOTAS: Rows = {
    "quota.window.num": integer(
        11, "Samples over which the use of a quota is averaged, the current one included.", at_least(1), "samples"
    ),
    "quota.window.size.seconds": integer(
        1,
        "Time that each of these samples covers; also the longest wait over a request or connection quota.",
        at_least(1),
    ),
    "controller.quota.window.num": integer(
        11,
        "Windows over which unused parts of a quota of topic changes are saved up (KIP-599).",
        at_least(1),
        "samples",
    ),
    "controller.quota.window.size.seconds": integer(1, "Time that each of these windows covers.", at_least(1)),
}

"""Broker configurations of sockets, listeners and connections (`SocketServerConfigs`)."""

from __future__ import annotations

from broker.config.definition import INT_MAX, MINUTE_MS, ConfigDef, ConfigType, UpdateMode, at_least

INT, LIST, LONG, STRING = ConfigType.INT, ConfigType.LIST, ConfigType.LONG, ConfigType.STRING

NETWORK_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "listeners",
        LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        "Comma separated addresses to accept connections on, each `NAME://host:port`. An empty host, 0.0.0.0 and "
        "[::] all mean every IPv4 and IPv6 address, an IPv6 address stands in brackets, and port 0 takes a free one. "
        "Altering it has no effect.",
        mode=UpdateMode.PER_BROKER,
    ),
    ConfigDef(
        "advertised.listeners",
        LIST,
        None,
        "Addresses that clients are told to connect to, where they differ from `listeners`: behind a NAT, or from "
        "inside a container.",
    ),
    ConfigDef(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name, as `NAME:PROTOCOL` pairs: PLAINTEXT, SSL, "
        "SASL_PLAINTEXT or SASL_SSL. Altering it has no effect.",
        mode=UpdateMode.PER_BROKER,
    ),
    ConfigDef(
        "controller.listener.names",
        LIST,
        None,
        "Names of the controllers' listeners; the first gives, by `listener.security.protocol.map`, the protocol with "
        "which a broker speaks to them. A node that stands alone leaves them out of `listeners`.",
    ),
    ConfigDef(
        "socket.send.buffer.bytes",
        INT,
        100 << 10,
        "Send buffer asked of the operating system for each connection; -1 leaves its default.",
        unit="bytes",
    ),
    ConfigDef(
        "socket.receive.buffer.bytes",
        INT,
        100 << 10,
        "Receive buffer asked of the operating system for each connection; with -1 and the default it adapts its own.",
        unit="bytes",
    ),
    ConfigDef(
        "socket.request.max.bytes",
        INT,
        100 << 20,
        "Largest request; the connection of a larger one is closed before it is read.",
        at_least(1),
        "bytes",
    ),
    ConfigDef(
        "socket.listen.backlog.size",
        INT,
        50,
        "Connections that may wait to be accepted, at least 1,024 here; the operating system may allow fewer.",
        at_least(1),
        "connections",
    ),
    ConfigDef(
        "max.connections",
        INT,
        INT_MAX,
        "Connections at one time; further ones wait for one of these to close.",
        at_least(0),
        "connections",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigDef(
        "max.connections.per.ip",
        INT,
        INT_MAX,
        "Connections at one time from one address; 0 only with `max.connections.per.ip.overrides`.",
        at_least(0),
        "connections",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigDef(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Limits of single hosts in place of `max.connections.per.ip`, as `host:count` pairs.",
        mode=UpdateMode.CLUSTER_WIDE,
    ),
    ConfigDef(
        "connections.max.idle.ms",
        LONG,
        10 * MINUTE_MS,
        "Time without a request after which a connection is closed; negative never closes one.",
        unit="ms",
    ),
    ConfigDef(
        "queued.max.request.bytes",
        LONG,
        -1,
        "Bytes of all requests being read or handled, beyond which reading pauses; -1 for no limit. No effect here.",
        unit="bytes",
    ),
    ConfigDef(
        "fetch.max.bytes",
        INT,
        55 << 20,
        "Most bytes of records in one Fetch answer, whatever the request allows. A larger first batch still goes out.",
        at_least(1024),
        "bytes",
    ),
    ConfigDef(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "Incremental fetch sessions (KIP-227) held at one time.",
        at_least(0),
        "sessions",
    ),
    ConfigDef(
        "max.request.partition.size.limit",
        INT,
        2000,
        "Most partitions in one answer of DescribeTopicPartitions.",
        at_least(1),
        "partitions",
    ),
    ConfigDef(
        "telemetry.max.bytes",
        INT,
        1 << 20,
        "Largest set of metrics that a client may push, after compression.",
        at_least(1),
        "bytes",
    ),
)

"""IncrementalAlterConfigs 1 and AlterConfigs 2 of the broker and the cluster's default: which values are refused.

Everything is only validated: nothing is set. A step asks for broker 1 and for the default at once. Left out is
`log.cleaner.threads=0`, of which Kafka says "/ by zero" until its JVM has compiled that place, then nothing.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.runner import Talk, scenario

BROKER = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
JMX = "org.apache.kafka.common.metrics.JmxReporter"

# Each by itself.
VALUES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("num.io.threads", ("0", "3", "4", "16", "17", "x")),
    ("num.network.threads", ("0", "6", "7")),
    ("num.replica.fetchers", ("0", "2", "3")),
    ("num.recovery.threads.per.data.dir", ("0", "1", "5")),
    ("background.threads", ("4", "21")),
    ("remote.log.reader.threads", ("0", "4", "21")),
    ("remote.log.manager.copier.thread.pool.size", ("4", "20")),
    ("remote.log.manager.expiration.thread.pool.size", ("5", "21")),
    ("remote.log.index.file.cache.total.size.bytes", ("0", "1")),
    ("remote.log.manager.copy.max.bytes.per.second", ("0", "1")),
    ("remote.fetch.max.wait.ms", ("0", "1")),
    ("log.cleaner.threads", ("-1", "2", "3", "1000")),
    ("log.cleaner.dedupe.buffer.size", ("1048576", "1048577")),
    ("log.cleaner.min.compaction.lag.ms", ("-1", "9223372036854775807")),
    ("max.connections", ("-1", "0", "1")),
    ("max.connections.per.ip", ("0", "1")),
    ("max.connections.per.ip.overrides", ("", "a:1", "a", "a:1,b", "a:x", "a:1:", "a b:1,c:2", "a:99999999999")),
    ("max.connection.creation.rate", ("-1", "0", "1")),
    ("log.retention.ms", ("0", "-1", "-2")),
    ("log.roll.ms", ("0",)),
    ("log.roll.jitter.ms", ("-1",)),
    ("log.local.retention.ms", ("-3", "-2", "-1", "604800000", "604800001")),
    ("log.local.retention.bytes", ("-1", "5")),
    ("leader.replication.throttled.rate", ("-1", "0", "x")),
    ("follower.replication.throttled.rate", ("-1", "0")),
    ("replica.alter.log.dirs.io.max.bytes.per.second", ("-1", "0")),
    ("metric.reporters", ("", JMX, "no.such.Class", f"{JMX},no.such.Class")),
    ("principal.builder.class", ("no.such.Class",)),
    ("ssl.client.auth", ("none", "x")),
    ("ssl.keystore.location", ("x",)),
    ("ssl.protocol", ("TLSv1.3",)),
    ("sasl.login.refresh.buffer.seconds", ("300", "32768")),
    ("listeners", ("x",)),
    ("listener.security.protocol.map", ("x", ":PLAINTEXT", "PLAINTEXT:x")),
    ("listener.name.plaintext.max.connections", ("-1", "0", "1")),
    ("listener.name.plaintext.num.network.threads", ("6", "7")),
    ("listener.name.plaintext.num.io.threads", ("0", "100")),
    ("listener.name.plaintext.ssl.keystore.location", ("x",)),
    ("listener.name.plaintext.node.id", ("1", "x")),
    ("listener.name.plaintext.plain.connections.max.reauth.ms", ("1", "x")),
    ("listener.name.plaintext.no.such", ("x",)),
    ("listener.name.other.max.connections", ("0", "x")),
    ("listener.name.other.node.id", ("x",)),
)

# Several at once: which of them is told.
TOGETHER: tuple[dict[str, str], ...] = (
    {
        "num.io.threads": "x",
        "log.retention.ms": "x",
        "background.threads": "x",
        "leader.replication.throttled.rate": "x",
    },
    {"num.partitions": "1", "node.id": "2", "log.dirs": "3", "broker.rack": "4"},
    {"num.partitions": "1", "ssl.keystore.type": "2"},
    {"ssl.keystore.location": "1", "ssl.keystore.type": "2", "num.io.threads": "x"},
    {"listeners": "1", "ssl.protocol": "2", "listener.name.a.b": "3"},
    {"log.roll.ms": "0", "listeners": "x"},
    {"log.roll.ms": "0", "log.retention.ms": "0", "max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"},
    {"max.connections": "0", "metric.reporters": "x", "num.io.threads": "100"},
    {"max.connections": "0", "listener.name.plaintext.max.connections": "5"},
    {"metric.reporters": "x", "num.io.threads": "100", "log.cleaner.threads": "2"},
    {"num.io.threads": "100", "background.threads": "100", "num.replica.fetchers": "9", "log.local.retention.ms": "-1"},
    {"log.local.retention.ms": "-1", "log.cleaner.threads": "9"},
    {"log.local.retention.ms": "-1", "log.retention.ms": "-1"},
    {"log.retention.bytes": "5", "log.local.retention.bytes": "6"},
    {"log.retention.bytes": "5", "log.local.retention.bytes": "-1"},
    {"max.connections": "5", "listener.name.plaintext.node.id": "3"},
    {"max.connections": "5", "listener.name.plaintext.ssl.keystore.type": "PEM"},
    {"log.cleaner.threads": "9", "remote.log.reader.threads": "100"},
    {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"},
)


def _ask(t: Talk, step: str, api: str, v: int, configs: list[dict[str, Any]]) -> None:
    resources = [{"resource_type": BROKER, "resource_name": name, "configs": configs} for name in ("1", "")]
    t.call(step, api, v, {"resources": resources, "validate_only": True})


@scenario("incremental_alter_configs", (1,))
def broker_values(t: Talk, v: int) -> None:
    def change(key: str, operation: int, value: str | None) -> None:
        step = f"{key} {('SET', 'DELETE', 'APPEND', 'SUBTRACT')[operation]} {value}"
        configs = [{"name": key, "config_operation": operation, "value": value}]
        _ask(t, step, "incremental_alter_configs", v, configs)

    for key, values in VALUES:
        for value in values:
            change(key, SET, value)
        change(key, DELETE, None)
    for key in ("num.io.threads", "node.id", "metric.reporters", "sasl.enabled.mechanisms", "no.such"):
        change(key, APPEND, "x")
        change(key, SUBTRACT, "x")


@scenario("alter_configs", (2,))
def broker_values_together(t: Talk, v: int) -> None:
    for values in TOGETHER:
        step = ", ".join(f"{key}={value}" for key, value in values.items())
        _ask(t, step, "alter_configs", v, [{"name": key, "value": value} for key, value in values.items()])

"""Kafka 4.4's broker configurations that this broker has no use for: each one given causes one warning.

They are listed with type, default and rule, since DescribeConfigs reports them and AlterConfigs refuses what Kafka
refuses; what it accepts is kept, without effect. That is all there is of them: a row. At the end are those that are set
only while the broker runs, of which two have an effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from broker.config.definition import Check, ConfigDef, ConfigType, UpdateMode, at_least, java_class, one_of

BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.CLASS,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.PASSWORD,
    ConfigType.SHORT,
    ConfigType.STRING,
)
POSITIVE, NOT_NEGATIVE = at_least(1), at_least(0)


class _Row(NamedTuple):
    """The default is a text, whatever the type: nobody computes with it."""

    name: str
    type: ConfigType
    default: str | None
    check: Check | None = None


_READ_ONLY: tuple[_Row, ...] = (
    _Row("alter.config.policy.class.name", CLASS, None),
    _Row("alter.log.dirs.replication.quota.window.num", INT, "11", POSITIVE),
    _Row("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", POSITIVE),
    _Row("client.quota.callback.class", CLASS, None),
    _Row("controller.quorum.append.linger.ms", INT, "25", NOT_NEGATIVE),
    _Row("controller.quorum.auto.join.enable", BOOLEAN, "false"),
    _Row("controller.quorum.election.backoff.max.ms", INT, "1000", NOT_NEGATIVE),
    _Row("controller.quorum.election.timeout.ms", INT, "1000", NOT_NEGATIVE),
    _Row("controller.quorum.fetch.max.bytes", INT, "1048576", POSITIVE),
    _Row("controller.quorum.fetch.snapshot.max.bytes", INT, "1048576", POSITIVE),
    _Row("create.topic.policy.class.name", CLASS, None),
    _Row("delete.records.purgatory.purge.interval.requests", INT, "1"),
    _Row("early.start.listeners", LIST, None),
    _Row("fetch.purgatory.purge.interval.requests", INT, "1000"),
    _Row("group.coordinator.background.threads", INT, "2", POSITIVE),
    _Row("group.coordinator.threads", INT, "4", POSITIVE),
    _Row("group.streams.topology.description.plugin.class", CLASS, None),
    _Row("kafka.metrics.polling.interval.secs", INT, "10", POSITIVE),
    _Row("kafka.metrics.reporters", LIST, ""),
    _Row("log.dir.failure.timeout.ms", LONG, "30000", POSITIVE),
    _Row("metadata.log.dir", STRING, None),
    _Row("metadata.log.max.record.bytes.between.snapshots", LONG, "20971520", POSITIVE),
    _Row("metadata.log.max.snapshot.interval.ms", LONG, "3600000", NOT_NEGATIVE),
    _Row("metadata.log.segment.bytes", INT, "1073741824", at_least(8388608)),
    _Row("metadata.log.segment.ms", LONG, "604800000"),
    _Row("metadata.max.idle.interval.ms", INT, "500", NOT_NEGATIVE),
    _Row("metadata.max.retention.bytes", LONG, "104857600"),
    _Row("metadata.max.retention.ms", LONG, "604800000"),
    _Row("metrics.num.samples", INT, "2", POSITIVE),
    _Row("metrics.recording.level", STRING, "INFO"),
    _Row("metrics.sample.window.ms", LONG, "30000", POSITIVE),
    _Row("num.replica.alter.log.dirs.threads", INT, None),
    _Row("producer.purgatory.purge.interval.requests", INT, "1000"),
    _Row("queued.max.requests", INT, "500", POSITIVE),
    _Row("remote.log.manager.thread.pool.size", INT, "2", POSITIVE),
    _Row("remote.log.metadata.custom.metadata.max.bytes", INT, "128", NOT_NEGATIVE),
    _Row(
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    ),
    _Row("remote.log.metadata.manager.class.path", STRING, None),
    _Row("remote.log.metadata.manager.listener.name", STRING, None),
    _Row("remote.log.storage.manager.class.path", STRING, None),
    _Row("replica.socket.receive.buffer.bytes", INT, "65536"),
    _Row("request.timeout.ms", INT, "30000"),
    _Row("sasl.client.callback.handler.class", CLASS, None),
    _Row("sasl.login.callback.handler.class", CLASS, None),
    _Row("sasl.login.class", CLASS, None),
    _Row("sasl.login.connect.timeout.ms", INT, None),
    _Row("sasl.login.read.timeout.ms", INT, None),
    _Row("sasl.login.retry.backoff.max.ms", LONG, "10000"),
    _Row("sasl.login.retry.backoff.ms", LONG, "100"),
    _Row("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", one_of("ES256", "RS256", ignore_case=True)),
    _Row("sasl.oauthbearer.assertion.claim.aud", STRING, None),
    _Row("sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300", at_least(0, 86400)),
    _Row("sasl.oauthbearer.assertion.claim.iss", STRING, None),
    _Row("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false"),
    _Row("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, "60", at_least(0, 3600)),
    _Row("sasl.oauthbearer.assertion.claim.sub", STRING, None),
    _Row("sasl.oauthbearer.assertion.file", STRING, None),
    _Row("sasl.oauthbearer.assertion.private.key.file", STRING, None),
    _Row("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
    _Row("sasl.oauthbearer.assertion.template.file", STRING, None),
    _Row("sasl.oauthbearer.client.credentials.client.id", STRING, None),
    _Row("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
    _Row(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    _Row(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    _Row("sasl.oauthbearer.scope", STRING, None),
    _Row("sasl.oauthbearer.token.endpoint.url", STRING, None),
    _Row("security.providers", STRING, None),
    _Row("share.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
    _Row("share.coordinator.state.topic.compression.codec", INT, "0", at_least(0, 4)),
    _Row("share.coordinator.threads", INT, "1", POSITIVE),
    _Row("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    _Row("socket.connection.setup.timeout.max.ms", LONG, "30000"),
    _Row("socket.connection.setup.timeout.ms", LONG, "10000"),
)
_PER_BROKER: tuple[_Row, ...] = (
    _Row(
        "principal.builder.class", CLASS, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    ),
    _Row("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit"),
    _Row("sasl.kerberos.min.time.before.relogin", LONG, "60000"),
    _Row("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT"),
    _Row("sasl.kerberos.service.name", STRING, None),
    _Row("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05"),
    _Row("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8"),
    _Row("sasl.login.refresh.buffer.seconds", SHORT, "300"),
    _Row("sasl.login.refresh.min.period.seconds", SHORT, "60"),
    _Row("sasl.login.refresh.window.factor", DOUBLE, "0.8"),
    _Row("sasl.login.refresh.window.jitter", DOUBLE, "0.05"),
    _Row("ssl.engine.factory.class", CLASS, None),
    _Row("ssl.keymanager.algorithm", STRING, "SunX509"),
    _Row("ssl.protocol", STRING, "TLSv1.3"),
    _Row("ssl.provider", STRING, None),
    _Row("ssl.secure.random.implementation", STRING, None),
    _Row("ssl.trustmanager.algorithm", STRING, "PKIX"),
)
_CLUSTER_WIDE: tuple[_Row, ...] = (
    _Row("background.threads", INT, "10", POSITIVE),
    _Row("group.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(512 << 10)),
    _Row("max.connection.creation.rate", INT, "2147483647", NOT_NEGATIVE),
    _Row("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter"),
    _Row("num.io.threads", INT, "8", POSITIVE),
    _Row("num.network.threads", INT, "3", POSITIVE),
    _Row("remote.log.manager.follower.thread.pool.size", INT, "2", POSITIVE),
    _Row("share.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(512 << 10)),
)
_INTERNAL = (
    "controller.performance.always.log.threshold.ms",
    "controller.performance.sample.period.ms",
    "group.consumer.assignor.offload.enable",
    "group.share.assignor.offload.enable",
    "group.share.dlq.manager.class.name",
    "group.share.initialize.retry.interval.ms",
    "group.share.persister.class.name",
    "group.streams.acceptable.recovery.lag",
    "group.streams.assignor.offload.enable",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.task.offset.interval.ms",
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes",
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter",
    "server.max.startup.time.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)


def _unused(rows: Iterable[_Row], mode: UpdateMode) -> dict[str, ConfigDef]:
    doc = "A configuration of Kafka's that has no effect here."
    return {
        row.name: ConfigDef(
            row.name,
            row.type,
            row.default,
            doc,
            java_class(row.default) if row.type is CLASS else row.check,
            mode=mode,
            has_effect=False,
        )
        for row in rows
    }


NOT_NEEDED: Mapping[str, ConfigDef] = MappingProxyType(
    _unused(_READ_ONLY, UpdateMode.READ_ONLY)
    | _unused(_PER_BROKER, UpdateMode.PER_BROKER)
    | _unused(_CLUSTER_WIDE, UpdateMode.CLUSTER_WIDE)
    | {name: ConfigDef(name, STRING, None, "Internal to Kafka.", internal=True, has_effect=False) for name in _INTERNAL}
)

_NO_LIMIT = (1 << 63) - 1
ALTERED_ONLY: Mapping[str, ConfigDef] = MappingProxyType(
    {
        f"{role}.replication.throttled.rate": ConfigDef(
            f"{role}.replication.throttled.rate",
            LONG,
            _NO_LIMIT,
            f"Rate of replication, on the {role} side, of what `{role}.replication.throttled.replicas` names.",
            NOT_NEGATIVE,
            "bytes/s",
            UpdateMode.CLUSTER_WIDE,
        )
        for role in ("leader", "follower")
    }
    | _unused(
        [_Row("replica.alter.log.dirs.io.max.bytes.per.second", LONG, str(_NO_LIMIT), NOT_NEGATIVE)],
        UpdateMode.CLUSTER_WIDE,
    )
)
"""Only ever set by AlterConfigs, and unknown to DescribeConfigs (`QuotaConfig.brokerQuotaConfigs`)."""

NOT_ENFORCED: Mapping[str, str] = MappingProxyType(
    {
        "max.connection.creation.rate": ": set the quota connection_creation_rate of addresses",
        "max.connections": " for a single listener: set max.connections",
        "security.providers": ": Python's ssl is used",
        "ssl.provider": ": Python's ssl is used",
        "ssl.trustmanager.algorithm": ": certificates are checked by OpenSSL",
    }
)
"""Settings of Kafka's that limit or forbid something, and have no effect here; with what to do."""

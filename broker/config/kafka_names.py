"""Kafka 4.1's broker configurations that this broker has no use for: given, each draws one warning.

They are listed with type and default, since DescribeConfigs answers them and AlterConfigs refuses what Kafka refuses;
what it takes is kept, without effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from broker.config.definition import ConfigDef, ConfigType, UpdateMode

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
_Row = tuple[str, ConfigType, str | None]

_READ_ONLY: tuple[_Row, ...] = (
    ("alter.config.policy.class.name", CLASS, None),
    ("alter.log.dirs.replication.quota.window.num", INT, "11"),
    ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1"),
    ("authorizer.class.name", STRING, ""),
    ("auto.leader.rebalance.enable", BOOLEAN, "true"),
    ("broker.heartbeat.interval.ms", INT, "2000"),
    ("broker.session.timeout.ms", INT, "9000"),
    ("client.quota.callback.class", CLASS, None),
    ("connection.failed.authentication.delay.ms", INT, "100"),
    ("connections.max.reauth.ms", LONG, "0"),
    ("controlled.shutdown.enable", BOOLEAN, "true"),
    ("controller.quorum.append.linger.ms", INT, "25"),
    ("controller.quorum.bootstrap.servers", LIST, ""),
    ("controller.quorum.election.backoff.max.ms", INT, "1000"),
    ("controller.quorum.election.timeout.ms", INT, "1000"),
    ("controller.quorum.fetch.timeout.ms", INT, "2000"),
    ("controller.quorum.request.timeout.ms", INT, "2000"),
    ("controller.quorum.retry.backoff.ms", INT, "20"),
    ("controller.quorum.voters", LIST, ""),
    ("controller.quota.window.num", INT, "11"),
    ("controller.quota.window.size.seconds", INT, "1"),
    ("controller.socket.timeout.ms", INT, "30000"),
    ("create.topic.policy.class.name", CLASS, None),
    ("delegation.token.expiry.check.interval.ms", LONG, "3600000"),
    ("delegation.token.expiry.time.ms", LONG, "86400000"),
    ("delegation.token.max.lifetime.ms", LONG, "604800000"),
    ("delegation.token.secret.key", PASSWORD, None),
    ("delete.records.purgatory.purge.interval.requests", INT, "1"),
    ("early.start.listeners", STRING, None),
    ("fetch.purgatory.purge.interval.requests", INT, "1000"),
    ("group.coordinator.threads", INT, "4"),
    ("group.share.assignors", LIST, "simple"),
    ("group.share.delivery.count.limit", INT, "5"),
    ("group.share.heartbeat.interval.ms", INT, "5000"),
    ("group.share.max.heartbeat.interval.ms", INT, "15000"),
    ("group.share.max.record.lock.duration.ms", INT, "60000"),
    ("group.share.max.session.timeout.ms", INT, "60000"),
    ("group.share.max.share.sessions", INT, "2000"),
    ("group.share.max.size", INT, "200"),
    ("group.share.min.heartbeat.interval.ms", INT, "5000"),
    ("group.share.min.record.lock.duration.ms", INT, "15000"),
    ("group.share.min.session.timeout.ms", INT, "45000"),
    ("group.share.partition.max.record.locks", INT, "2000"),
    ("group.share.record.lock.duration.ms", INT, "30000"),
    ("group.share.session.timeout.ms", INT, "45000"),
    ("group.streams.heartbeat.interval.ms", INT, "5000"),
    ("group.streams.max.heartbeat.interval.ms", INT, "15000"),
    ("group.streams.max.session.timeout.ms", INT, "60000"),
    ("group.streams.max.size", INT, "2147483647"),
    ("group.streams.max.standby.replicas", INT, "2"),
    ("group.streams.min.heartbeat.interval.ms", INT, "5000"),
    ("group.streams.min.session.timeout.ms", INT, "45000"),
    ("group.streams.num.standby.replicas", INT, "0"),
    ("group.streams.session.timeout.ms", INT, "45000"),
    ("initial.broker.registration.timeout.ms", INT, "60000"),
    ("inter.broker.listener.name", STRING, None),
    ("kafka.metrics.polling.interval.secs", INT, "10"),
    ("kafka.metrics.reporters", LIST, ""),
    ("leader.imbalance.check.interval.seconds", LONG, "300"),
    ("log.dir.failure.timeout.ms", LONG, "30000"),
    ("metadata.log.dir", STRING, None),
    ("metadata.log.max.record.bytes.between.snapshots", LONG, "20971520"),
    ("metadata.log.max.snapshot.interval.ms", LONG, "3600000"),
    ("metadata.log.segment.bytes", INT, "1073741824"),
    ("metadata.log.segment.ms", LONG, "604800000"),
    ("metadata.max.idle.interval.ms", INT, "500"),
    ("metadata.max.retention.bytes", LONG, "104857600"),
    ("metadata.max.retention.ms", LONG, "604800000"),
    ("metrics.num.samples", INT, "2"),
    ("metrics.recording.level", STRING, "INFO"),
    ("metrics.sample.window.ms", LONG, "30000"),
    ("num.replica.alter.log.dirs.threads", INT, None),
    ("producer.purgatory.purge.interval.requests", INT, "1000"),
    ("queued.max.requests", INT, "500"),
    ("quota.window.num", INT, "11"),
    ("quota.window.size.seconds", INT, "1"),
    ("remote.log.manager.copy.quota.window.num", INT, "11"),
    ("remote.log.manager.copy.quota.window.size.seconds", INT, "1"),
    ("remote.log.manager.fetch.quota.window.num", INT, "11"),
    ("remote.log.manager.fetch.quota.window.size.seconds", INT, "1"),
    ("remote.log.manager.task.interval.ms", LONG, "30000"),
    ("remote.log.manager.thread.pool.size", INT, "2"),
    ("remote.log.metadata.custom.metadata.max.bytes", INT, "128"),
    (
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    ),
    ("remote.log.metadata.manager.class.path", STRING, None),
    ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config."),
    ("remote.log.metadata.manager.listener.name", STRING, None),
    ("remote.log.reader.max.pending.tasks", INT, "100"),
    ("remote.log.storage.manager.class.name", STRING, None),
    ("remote.log.storage.manager.class.path", STRING, None),
    ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config."),
    ("remote.log.storage.system.enable", BOOLEAN, "false"),
    ("replica.selector.class", STRING, None),
    ("replica.socket.receive.buffer.bytes", INT, "65536"),
    ("replication.quota.window.num", INT, "11"),
    ("replication.quota.window.size.seconds", INT, "1"),
    ("request.timeout.ms", INT, "30000"),
    ("sasl.client.callback.handler.class", CLASS, None),
    ("sasl.login.callback.handler.class", CLASS, None),
    ("sasl.login.class", CLASS, None),
    ("sasl.login.connect.timeout.ms", INT, None),
    ("sasl.login.read.timeout.ms", INT, None),
    ("sasl.login.retry.backoff.max.ms", LONG, "10000"),
    ("sasl.login.retry.backoff.ms", LONG, "100"),
    ("sasl.mechanism.controller.protocol", STRING, "GSSAPI"),
    ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256"),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None),
    ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300"),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None),
    ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false"),
    ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, "60"),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None),
    ("sasl.oauthbearer.assertion.file", STRING, None),
    ("sasl.oauthbearer.assertion.private.key.file", STRING, None),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
    ("sasl.oauthbearer.assertion.template.file", STRING, None),
    ("sasl.oauthbearer.client.credentials.client.id", STRING, None),
    ("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
    ("sasl.oauthbearer.clock.skew.seconds", INT, "30"),
    ("sasl.oauthbearer.expected.audience", LIST, None),
    ("sasl.oauthbearer.expected.issuer", STRING, None),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, "3600000"),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, "10000"),
    ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, "100"),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None),
    ("sasl.oauthbearer.jwt.retriever.class", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    ("sasl.oauthbearer.jwt.validator.class", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    ("sasl.oauthbearer.scope", STRING, None),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope"),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub"),
    ("sasl.oauthbearer.token.endpoint.url", STRING, None),
    ("sasl.server.callback.handler.class", CLASS, None),
    ("sasl.server.max.receive.size", INT, "524288"),
    ("security.inter.broker.protocol", STRING, "PLAINTEXT"),
    ("security.providers", STRING, None),
    ("share.coordinator.append.linger.ms", INT, "5"),
    ("share.coordinator.load.buffer.size", INT, "5242880"),
    ("share.coordinator.snapshot.update.records.per.snapshot", INT, "500"),
    ("share.coordinator.state.topic.compression.codec", INT, "0"),
    ("share.coordinator.state.topic.min.isr", SHORT, "2"),
    ("share.coordinator.state.topic.num.partitions", INT, "50"),
    ("share.coordinator.state.topic.replication.factor", SHORT, "3"),
    ("share.coordinator.state.topic.segment.bytes", INT, "104857600"),
    ("share.coordinator.threads", INT, "1"),
    ("share.coordinator.write.timeout.ms", INT, "5000"),
    ("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    ("socket.connection.setup.timeout.max.ms", LONG, "30000"),
    ("socket.connection.setup.timeout.ms", LONG, "10000"),
    ("ssl.allow.dn.changes", BOOLEAN, "false"),
    ("ssl.allow.san.changes", BOOLEAN, "false"),
    ("ssl.principal.mapping.rules", STRING, "DEFAULT"),
)
_PER_BROKER: tuple[_Row, ...] = (
    ("principal.builder.class", CLASS, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    ("sasl.enabled.mechanisms", LIST, "GSSAPI"),
    ("sasl.jaas.config", PASSWORD, None),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit"),
    ("sasl.kerberos.min.time.before.relogin", LONG, "60000"),
    ("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT"),
    ("sasl.kerberos.service.name", STRING, None),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05"),
    ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8"),
    ("sasl.login.refresh.buffer.seconds", SHORT, "300"),
    ("sasl.login.refresh.min.period.seconds", SHORT, "60"),
    ("sasl.login.refresh.window.factor", DOUBLE, "0.8"),
    ("sasl.login.refresh.window.jitter", DOUBLE, "0.05"),
    ("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI"),
    ("ssl.cipher.suites", LIST, ""),
    ("ssl.client.auth", STRING, "none"),
    ("ssl.enabled.protocols", LIST, "TLSv1.2,TLSv1.3"),
    ("ssl.endpoint.identification.algorithm", STRING, "https"),
    ("ssl.engine.factory.class", CLASS, None),
    ("ssl.key.password", PASSWORD, None),
    ("ssl.keymanager.algorithm", STRING, "SunX509"),
    ("ssl.keystore.certificate.chain", PASSWORD, None),
    ("ssl.keystore.key", PASSWORD, None),
    ("ssl.keystore.location", STRING, None),
    ("ssl.keystore.password", PASSWORD, None),
    ("ssl.keystore.type", STRING, "JKS"),
    ("ssl.protocol", STRING, "TLSv1.3"),
    ("ssl.provider", STRING, None),
    ("ssl.secure.random.implementation", STRING, None),
    ("ssl.trustmanager.algorithm", STRING, "PKIX"),
    ("ssl.truststore.certificates", PASSWORD, None),
    ("ssl.truststore.location", STRING, None),
    ("ssl.truststore.password", PASSWORD, None),
    ("ssl.truststore.type", STRING, "JKS"),
)
_CLUSTER_WIDE: tuple[_Row, ...] = (
    ("background.threads", INT, "10"),
    ("max.connection.creation.rate", INT, "2147483647"),
    ("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter"),
    ("num.io.threads", INT, "8"),
    ("num.network.threads", INT, "3"),
    ("num.replica.fetchers", INT, "1"),
    ("remote.fetch.max.wait.ms", INT, "500"),
    ("remote.list.offsets.request.timeout.ms", LONG, "30000"),
    ("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824"),
    ("remote.log.manager.copier.thread.pool.size", INT, "10"),
    ("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807"),
    ("remote.log.manager.expiration.thread.pool.size", INT, "10"),
    ("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807"),
    ("remote.log.reader.threads", INT, "10"),
)
_INTERNAL = (
    "controller.performance.always.log.threshold.ms",
    "controller.performance.sample.period.ms",
    "group.share.enable",
    "group.share.persister.class.name",
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes",
    "internal.metadata.max.fetch.size.in.bytes",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter",
    "server.max.startup.time.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.state.topic.prune.interval.ms",
    "unclean.leader.election.interval.ms",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
)


def _definitions(rows: tuple[_Row, ...], mode: UpdateMode) -> dict[str, ConfigDef]:
    doc = "A configuration of Kafka's that has no effect here."
    return {name: ConfigDef(name, kind, default, doc, mode=mode) for name, kind, default in rows}


# Their defaults are texts, whatever their type: nobody computes with them.
NOT_NEEDED: Mapping[str, ConfigDef] = MappingProxyType(
    _definitions(_READ_ONLY, UpdateMode.READ_ONLY)
    | _definitions(_PER_BROKER, UpdateMode.PER_BROKER)
    | _definitions(_CLUSTER_WIDE, UpdateMode.CLUSTER_WIDE)
    | {name: ConfigDef(name, STRING, None, "Internal to Kafka.", internal=True) for name in _INTERNAL}
)

# Families of names that Kafka hands on to a listener, a plugin or its logging.
_LISTENER_PREFIX = "listener.name."
_PREFIXES = (_LISTENER_PREFIX, "rlmm.config.", "rsm.config.", "config.providers", "log4j")


def is_not_needed(name: str) -> bool:
    """Whether Kafka 4.1 knows `name` and this broker does not."""
    return name in NOT_NEEDED or name.startswith(_PREFIXES)


def mode_of(name: str) -> UpdateMode | None:
    """Who may alter `name` in Kafka; None for a name that is no configuration of Kafka's, which anyone may set."""
    if name.startswith(_LISTENER_PREFIX):
        return UpdateMode.PER_BROKER
    return NOT_NEEDED[name].mode if name in NOT_NEEDED else None

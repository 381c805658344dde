"""Configurations of the authorizer (`ServerConfigs`) and of delegation tokens (`DelegationTokenManagerConfigs`)."""

from __future__ import annotations

from broker.config.definition import DAY_MS, HOUR_MS, Check, ConfigDef, ConfigType, at_least

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

AUTHORIZER_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "authorizer.class.name",
        ConfigType.STRING,
        "",
        "What decides what clients may do: empty for nothing, so that all may do everything, or the one that there is, "
        f"`{STANDARD_AUTHORIZER}` ([ACLs](acls.md)).",
        Check(lambda _: None, "non-null string"),  # the rule is one of `cross_checks`, as in Kafka
    ),
    ConfigDef(
        "super.users",
        ConfigType.STRING,
        "",
        "Principals that may do everything, separated by semicolons: `User:admin;User:CN=broker,O=Example`.",
        of_plugin=True,
    ),
    ConfigDef(
        "allow.everyone.if.no.acl.found",
        ConfigType.BOOLEAN,
        False,
        "Whether all clients may do everything to a resource that no ACL concerns.",
        of_plugin=True,
    ),
)

TOKEN_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "delegation.token.secret.key",
        ConfigType.PASSWORD,
        None,
        "Key that delegation tokens are made with, the same on all nodes of a cluster; without it there are none.",
    ),
    ConfigDef(
        "delegation.token.master.key",
        ConfigType.PASSWORD,
        None,
        "The name of `delegation.token.secret.key` before Kafka 4.0.",
        of_plugin=True,
    ),
    ConfigDef(
        "delegation.token.max.lifetime.ms",
        ConfigType.LONG,
        7 * DAY_MS,
        "The longest life of a delegation token, renewals included.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "delegation.token.expiry.time.ms",
        ConfigType.LONG,
        DAY_MS,
        "The time after which a delegation token must have been renewed.",
        at_least(1),
        "ms",
    ),
    ConfigDef(
        "delegation.token.expiry.check.interval.ms",
        ConfigType.LONG,
        HOUR_MS,
        "Time between two looks for delegation tokens that have expired. A token is useless as soon as it expires.",
        at_least(1),
        "ms",
    ),
)

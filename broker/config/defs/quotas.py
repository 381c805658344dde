"""Broker configurations of client quotas (`QuotaConfig`)."""

from __future__ import annotations

from broker.config.definition import ConfigDef, ConfigType, at_least

INT = ConfigType.INT

QUOTA_DEFS: tuple[ConfigDef, ...] = (
    ConfigDef(
        "quota.window.num",
        INT,
        11,
        "Samples over which the use of a quota is averaged, the current one included.",
        at_least(1),
        "samples",
    ),
    ConfigDef(
        "quota.window.size.seconds",
        INT,
        1,
        "Time that each of these samples covers; also the longest wait over a request or connection quota.",
        at_least(1),
        "s",
    ),
    ConfigDef(
        "controller.quota.window.num",
        INT,
        11,
        "Windows over which unused parts of a quota of topic changes are saved up (KIP-599).",
        at_least(1),
        "samples",
    ),
    ConfigDef(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "Time that each of these windows covers.",
        at_least(1),
        "s",
    ),
)

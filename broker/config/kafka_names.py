"""Kafka's configurations that this broker does not have: their names, and where they may be altered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from broker.config.broker_config import names_of
from broker.config.definition import ConfigDef, UpdateMode
from broker.config.defs import KNOWN_CONFIGS
from broker.config.defs.not_needed import ALTERED_ONLY, NOT_NEEDED

# Families of names that Kafka passes on to a listener, a plugin or its logging.
_LISTENER_PREFIX = "listener.name."
_PREFIXES = (_LISTENER_PREFIX, "rlmm.config.", "rsm.config.", "config.providers", "log4j")
_OF_LISTENER = r"listener\.name\.[^.]*\.(.*)"
# What may be set for a listener cluster-wide.
_CLUSTER_WIDE_OF_LISTENER = ("max.connections", "max.connection.creation.rate", "num.network.threads")

# What a listener may have for each SASL mechanism, following the mechanism's name.
_OF_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)


def is_not_needed(name: str) -> bool:
    """Whether Kafka 4.4 knows `name` and this broker does not."""
    return name in NOT_NEEDED or name.startswith(_PREFIXES)


def definition_of(name: str) -> ConfigDef | None:
    """The definition of a broker configuration, even if it is not needed here; None for that of a plugin of Kafka."""
    found = KNOWN_CONFIGS.get(name)
    return None if found is not None and found.of_plugin else found


def base_name(name: str) -> str:
    """The configuration that `listener.name.<listener>.<configuration>` sets; any other name is returned as it is."""
    match = re.fullmatch(_OF_LISTENER, name)
    return match[1] if match else name


def described_names(name: str) -> tuple[str, ...]:
    """Every name for what `name` sets, highest precedence first; the broker's follows a listener's own.

    This is `DynamicBrokerConfig.brokerConfigSynonyms` with `matchListenerOverride`.
    """
    base = base_name(name)
    if base == name:
        return names_of(name)
    return name, next((own for own in _OF_MECHANISM if base.endswith(own)), base)


@cache
def alterable() -> Mapping[str, ConfigDef]:
    """The definitions by which AlterConfigs checks a broker's values."""
    alterable = {
        name: definition
        for name, definition in KNOWN_CONFIGS.items()
        if definition.mode is not UpdateMode.READ_ONLY and not definition.of_plugin
    }
    return MappingProxyType({**ALTERED_ONLY, **alterable})


def mode_of(name: str) -> UpdateMode | None:
    """Where `name` may be altered in Kafka; None for a name unknown to Kafka, which may be set anywhere."""
    base = base_name(name)
    if base != name:
        return UpdateMode.CLUSTER_WIDE if base in _CLUSTER_WIDE_OF_LISTENER else UpdateMode.PER_BROKER
    definition = definition_of(name)
    return None if definition is None else definition.mode

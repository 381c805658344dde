"""Configurations of client metrics subscriptions (Kafka's `ClientMetricsConfigs`), and what of them is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from broker.config.definition import ConfigDef, Value, entries, integer, integer_of
from broker.config.resource_configs import parsed
from protocol.errors import InvalidConfiguration, InvalidRequest

CLIENT_METRICS_CONFIGS: Mapping[str, ConfigDef] = MappingProxyType(
    {
        name: row.named(name)
        for name, row in {
            "interval.ms": integer(300_000, "Time between two pushes of a client's metrics."),
            "match": entries((), "Which clients: attribute=regular expression, all of which must match."),
            "metrics": entries((), "Prefixes of the names of metrics that are asked for, or *."),
        }.items()
    }
)

MATCH_ATTRIBUTES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def effective_client_metrics_configs(configs: Mapping[str, str]) -> dict[str, Value]:
    """Every subscription configuration's value that counts under those in the metadata."""
    return parsed(CLIENT_METRICS_CONFIGS, {name: configs[name] for name in CLIENT_METRICS_CONFIGS if name in configs})


def parse_client_metrics_configs(overrides: Mapping[str, str]) -> dict[str, Value]:
    """Every subscription configuration's value. Raises InvalidRequest and InvalidConfiguration as Kafka does."""
    for name in overrides:
        if name not in CLIENT_METRICS_CONFIGS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    values = parsed(CLIENT_METRICS_CONFIGS, overrides)
    interval = integer_of(values, "interval.ms")
    if not 100 <= interval <= 3_600_000:
        raise InvalidRequest(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    parse_match(values["match"])
    return values


def parse_match(patterns: Value) -> dict[str, re.Pattern[str]]:
    """The `match` list by attribute. Raises InvalidConfiguration."""
    from broker.config.java_patterns import JavaPatternError, compile_java  # few nodes have a subscription

    assert isinstance(patterns, tuple)
    matches: dict[str, re.Pattern[str]] = {}
    for pattern in patterns:
        attribute, _, expression = pattern.partition("=")
        attribute, expression = attribute.strip(), expression.strip()
        try:
            if attribute not in MATCH_ATTRIBUTES or not expression or "=" in expression:
                raise InvalidConfiguration(f"Illegal client matching pattern: {pattern}")
            matches[attribute] = compile_java(expression)
        except JavaPatternError as error:
            raise InvalidConfiguration(f"Illegal client matching pattern: {pattern}: {error}") from error
    return matches

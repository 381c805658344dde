"""The settings of delegation tokens."""

from __future__ import annotations

from broker.config.broker_config import BrokerConfig
from controller.delegation_tokens import TokenSettings


def token_settings(config: BrokerConfig) -> TokenSettings | None:
    """The settings of tokens; None without a key, and then there are none."""
    key = config.optional_string("delegation.token.secret.key") or config.optional_string("delegation.token.master.key")
    if not key:
        return None
    return TokenSettings(
        key.encode(),
        config.integer("delegation.token.max.lifetime.ms"),
        config.integer("delegation.token.expiry.time.ms"),
        config.integer("odradek.delegation.token.max.per.owner"),
        config.integer("odradek.delegation.token.max.renewers"),
    )

"""The setting `super.users`."""

from __future__ import annotations

from broker.config.broker_config import BrokerConfig


def super_users(config: BrokerConfig) -> list[str]:
    """The principals that may do everything, such as `User:admin`; they are separated by semicolons."""
    return [each for part in config.string("super.users").split(";") if (each := part.strip())]

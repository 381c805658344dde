"""The one place that has a node's configuration as it is now."""

from __future__ import annotations

from broker.config.broker_config import BrokerConfig


class CurrentConfig:
    """Holds the configuration, which is replaced by another when a dynamic configuration of the broker changes."""

    __slots__ = ("config",)

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config

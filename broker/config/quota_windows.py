"""The windows over which the rates of quotas are measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.rate import Windows

if TYPE_CHECKING:
    from broker.config.broker_config import BrokerConfig


def windows_of(config: BrokerConfig, prefix: str = "") -> Windows:
    """The windows that `<prefix>quota.window.num` and `<prefix>quota.window.size.seconds` give."""
    num = config.integer(f"{prefix}quota.window.num")
    return Windows(num, config.integer(f"{prefix}quota.window.size.seconds") * 1000)

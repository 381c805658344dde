"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.process import Broker, BrokerStartError

__version__ = version("odradek")

__all__ = ["Broker", "BrokerStartError", "__version__"]

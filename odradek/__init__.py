"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.control import ControlError
from odradek.controls import RemoteBroker
from odradek.faults import Crash, Fault
from odradek.process import Broker, BrokerStartError
from odradek.waits import WaitTimeoutError

__version__ = version("odradek")

__all__ = [
    "Broker",
    "BrokerStartError",
    "ControlError",
    "Crash",
    "Fault",
    "RemoteBroker",
    "WaitTimeoutError",
    "__version__",
]

"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.control import ControlError, WaitTimeoutError
from odradek.controls import RemoteBroker
from odradek.process import Broker, BrokerStartError
from odradek.record import Record
from odradek.snapshot import Snapshot
from odradek.topic import Topic

__version__ = version("odradek")

__all__ = [
    "Broker",
    "BrokerStartError",
    "ControlError",
    "Record",
    "RemoteBroker",
    "Snapshot",
    "Topic",
    "WaitTimeoutError",
    "__version__",
]

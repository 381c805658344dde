"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.control import ControlError, ControlUnavailableError, WaitTimeoutError
from odradek.controls import RemoteBroker
from odradek.groups import Group, Lag, Member
from odradek.journal import Journal, JournalEntry
from odradek.process import Broker, BrokerStartError
from odradek.transactions import Transaction

__version__ = version("odradek")

__all__ = [
    "Broker",
    "BrokerStartError",
    "ControlError",
    "ControlUnavailableError",
    "Group",
    "Journal",
    "JournalEntry",
    "Lag",
    "Member",
    "RemoteBroker",
    "Transaction",
    "WaitTimeoutError",
    "__version__",
]

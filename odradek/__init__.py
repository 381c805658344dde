"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.clock import Clock
from odradek.cluster.broker import ClusterBroker
from odradek.cluster.cluster import Cluster
from odradek.control import ControlError, ControlUnavailableError, WaitTimeoutError
from odradek.controls import RemoteBroker
from odradek.explanation import Explanation, Finding
from odradek.faults import Crash, Fault
from odradek.groups import Delivery, Group, Lag, Member
from odradek.history import History, HistoryError
from odradek.journal import Journal, JournalEntry
from odradek.process import Broker, BrokerStartError
from odradek.record import Record
from odradek.snapshot import Snapshot
from odradek.topic import Topic
from odradek.transactions import Transaction

__version__ = version("odradek")

__all__ = [
    "Broker",
    "BrokerStartError",
    "Clock",
    "Cluster",
    "ClusterBroker",
    "ControlError",
    "ControlUnavailableError",
    "Crash",
    "Delivery",
    "Explanation",
    "Fault",
    "Finding",
    "Group",
    "History",
    "HistoryError",
    "Journal",
    "JournalEntry",
    "Lag",
    "Member",
    "Record",
    "RemoteBroker",
    "Snapshot",
    "Topic",
    "Transaction",
    "WaitTimeoutError",
    "__version__",
]

"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library."""

from __future__ import annotations

from importlib.metadata import version

from odradek.assertions import History, HistoryError
from odradek.clock import Clock, Snapshot
from odradek.cluster.cluster import Cluster
from odradek.cluster.nodes import ClusterBroker
from odradek.control import ControlError, ControlUnavailableError, WaitTimeoutError
from odradek.controls import RemoteBroker
from odradek.faults import Crash, Fault
from odradek.group_kinds import DeadLetter, Delivery, Member, Task
from odradek.groups import Group, Lag, Transaction
from odradek.process import Broker, BrokerStartError
from odradek.record import Record
from odradek.report import Explanation, Finding, Journal, JournalEntry
from odradek.topic import Topic

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
    "DeadLetter",
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
    "Task",
    "Topic",
    "Transaction",
    "WaitTimeoutError",
    "__version__",
]

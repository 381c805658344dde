"""Odradek for a user's own process: start, stop and kill a Kafka broker, using only the standard library.

A name is imported when it is first used: the command line and a broker's start need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.assertions import History as History
    from odradek.assertions import HistoryError as HistoryError
    from odradek.clock import Clock as Clock
    from odradek.clock import Snapshot as Snapshot
    from odradek.cluster.cluster import Cluster as Cluster
    from odradek.cluster.nodes import ClusterBroker as ClusterBroker
    from odradek.control import ControlError as ControlError
    from odradek.control import ControlUnavailableError as ControlUnavailableError
    from odradek.control import WaitTimeoutError as WaitTimeoutError
    from odradek.controls import RemoteBroker as RemoteBroker
    from odradek.faults import Crash as Crash
    from odradek.faults import Fault as Fault
    from odradek.group_kinds import DeadLetter as DeadLetter
    from odradek.group_kinds import Delivery as Delivery
    from odradek.group_kinds import Member as Member
    from odradek.group_kinds import Task as Task
    from odradek.groups import Group as Group
    from odradek.groups import Lag as Lag
    from odradek.groups import Transaction as Transaction
    from odradek.process import Broker as Broker
    from odradek.process import BrokerStartError as BrokerStartError
    from odradek.record import Record as Record
    from odradek.record import Schema as Schema
    from odradek.registry import Registry as Registry
    from odradek.report import Explanation as Explanation
    from odradek.report import Finding as Finding
    from odradek.report import Journal as Journal
    from odradek.report import JournalEntry as JournalEntry
    from odradek.topic import Topic as Topic

    __version__: str

_NAMES_BY_MODULE = {
    "assertions": ("History", "HistoryError"),
    "clock": ("Clock", "Snapshot"),
    "cluster.cluster": ("Cluster",),
    "cluster.nodes": ("ClusterBroker",),
    "control": ("ControlError", "ControlUnavailableError", "WaitTimeoutError"),
    "controls": ("RemoteBroker",),
    "faults": ("Crash", "Fault"),
    "group_kinds": ("DeadLetter", "Delivery", "Member", "Task"),
    "groups": ("Group", "Lag", "Transaction"),
    "process": ("Broker", "BrokerStartError"),
    "record": ("Record", "Schema"),
    "registry": ("Registry",),
    "report": ("Explanation", "Finding", "Journal", "JournalEntry"),
    "topic": ("Topic",),
}
_MODULES = {name: f"odradek.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("odradek")
    elif name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    else:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

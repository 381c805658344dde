"""Faults of the schema registry: what its clients are answered, or that they are not, by the call and the subject.

They strike where a client's request comes in over HTTP, before it is answered here or by another node; what the test
kit itself asks for is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from broker.faults.spec import Counted, Drop, FaultError, Given

ACTIONS = ("error", "delay", "drop", "observe")
ERRORS = range(400, 600)
CODES = range(40000, 60000)
"""The statuses and Confluent's codes that an answer may have."""


class Call(StrEnum):
    """What is asked of a registry."""

    REGISTER = "register"
    LOOK_UP = "look_up"
    GET = "get"
    LIST = "list"
    CHECK = "check"
    DELETE = "delete"
    CONFIG = "config"
    MODE = "mode"


def call_of(method: str, path: str) -> Call:
    """What a request asks for, by its path without the query."""
    parts = path.strip("/").split("/")
    if parts[0] == "contexts" and len(parts) > 2:
        parts = parts[2:]
    match parts[0]:
        case "compatibility":
            return Call.CHECK
        case "config":
            return Call.CONFIG
        case "mode":
            return Call.MODE
        case "subjects" if method == "DELETE":
            return Call.DELETE
        case "subjects" if method == "POST":
            return Call.REGISTER if len(parts) == 3 else Call.LOOK_UP
        case "subjects" if len(parts) >= 4:
            return Call.GET
        case "schemas" if len(parts) >= 3:
            return Call.GET
    return Call.LIST


@dataclass(eq=False, slots=True, kw_only=True)
class RegistryFault(Counted):
    """A selector that is None matches all. `error` is a status, or Confluent's code."""

    call: Call | None = None
    subject: str | None = None
    error: int | None = None
    delay_ms: float = 0.0
    drop: Drop | None = None
    skip: int = 0
    count: int | None = None
    skipped: int = 0

    @property
    def active(self) -> bool:
        return not self.removed and (self.count is None or self.hits < self.count)

    def strikes(self, call: Call, subject: str) -> bool:
        """Whether it strikes a request; one that is skipped counts as skipped."""
        if not self.active or self.call not in (None, call) or self.subject not in (None, subject):
            return False
        if self.skipped < self.skip:
            self.skipped += 1
            return False
        return True

    @property
    def described(self) -> dict[str, Any]:
        """What it selects and does."""
        return {
            "kind": "registry",
            "call": self.call,
            "subject": self.subject,
            "error": self.error,
            "delay": self.delay_ms / 1000 or None,
            "drop": self.drop,
            "skip": self.skip or None,
            "count": self.count,
        }


class RegistryFaults:
    """Those that are set."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._by_id: dict[str, RegistryFault] = {}

    def __iter__(self) -> Iterator[RegistryFault]:
        return iter(list(self._by_id.values()))

    def get(self, fault_id: str) -> RegistryFault | None:
        return self._by_id.get(fault_id)

    def set(self, given: Given) -> RegistryFault:
        """Raises FaultError."""
        if not any(given.get(name) for name in ACTIONS):
            raise FaultError(f"the fault does nothing: expected one of {', '.join(ACTIONS)}", "error")
        error = given.get("error")
        if error is not None and error not in ERRORS and error not in CODES:
            raise FaultError(
                f"error = {error}: expected a status from 400 to 599, or a code of Confluent's, such as 50001", "error"
            )
        if error is not None and given.get("drop"):
            raise FaultError("drop: a fault has only one of error and drop", "drop")
        fault = RegistryFault(
            id=self._new_id(),
            call=Call(given["call"]) if "call" in given else None,
            subject=given.get("subject"),
            error=error,
            delay_ms=given.get("delay", 0) * 1000,
            drop=Drop(given["drop"]) if given.get("drop") else None,
            skip=given.get("skip", 0),
            count=given.get("count"),
        )
        self._by_id[fault.id] = fault
        return fault

    def remove(self, fault: RegistryFault) -> None:
        self._by_id.pop(fault.id, None)

    def struck(self, call: Call, subject: str) -> list[RegistryFault]:
        """The faults that strike a request; each has counted it."""
        found = [fault for fault in self if fault.strikes(call, subject)]
        for fault in found:
            fault.hit()
        return found

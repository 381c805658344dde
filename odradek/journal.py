"""The journal of a broker: what was asked and answered last, who connected, and what the broker warned of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_TEXT = 240
"""How much of a request or an answer a line shows."""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry; `str()` of it is a line.

    Attributes:
        kind: "request", "connection opened", "connection closed" or "warning".
        time: seconds since the Unix epoch.
        client: the client's host:port.
        request: the decoded request; None if it was too large to keep.
        answer: the decoded answer; None if there is none, or it was too large to keep.
        outcome: "answered", "waiting", "not answered" or "connection closed".
        took: seconds from the request to its answer; None if it did not have to wait.
        error: why the broker closed the connection.
        text: of a warning, with `level` and `fields`.
    """

    time: float
    kind: str
    client: str | None = None
    listener: str | None = None
    client_id: str | None = None
    api: str | None = None
    version: int | None = None
    request: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    outcome: str | None = None
    took: float | None = None
    error: str | None = None
    request_bytes: int = 0
    answer_bytes: int = 0
    level: str | None = None
    text: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """The time of day."""
        return f"{time.strftime('%H:%M:%S', time.localtime(self.time))}.{int(self.time * 1000) % 1000:03d}"

    def __str__(self) -> str:
        at = self.at
        if self.kind == "warning":
            return f"{at} {self.level}: {self.text} {_brief(self.fields)}".rstrip()
        if self.kind != "request":
            return f"{at} {self.kind}: {self.client}"
        who = self.client_id if self.client_id else self.client
        asked = f"{self.request_bytes} bytes" if self.request is None else _brief(self.request)
        return f"{at} {who} {self.api} v{self.version} {asked} -> {self._outcome()}"

    def _outcome(self) -> str:
        took = "" if self.took is None else f" (waited {self.took:.3f} s)"
        if self.outcome != "answered":
            return f"{self.outcome}{f': {self.error}' if self.error else ''}"
        return f"{f'{self.answer_bytes} bytes' if self.answer is None else _brief(self.answer)}{took}"


class Journal(list[JournalEntry]):
    """Entries, the oldest first. `mark` stands for the present: give it as `since` to see what came later."""

    mark: int = 0


def read(answer: Mapping[str, Any]) -> Journal:
    """The journal of an answer of the control interface."""
    found = Journal(JournalEntry(**entry) for entry in answer["entries"])
    found.mark = answer["mark"]
    return found


def _brief(values: Mapping[str, Any]) -> str:
    text = " ".join(_pairs(values))
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    """`name=value` of all that is set, all the way down: `members=[{member_id=a topics=[t,u]} {member_id=b}]`."""
    for name, value in values.items():
        if value not in (None, "", "NONE", [], {}) and name != "throttle_time" and not name.endswith("_base64"):
            yield f"{name}={_nested(value)}"


def _nested(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{' '.join(_pairs(value))}}}"
    if isinstance(value, list):
        between = " " if any(isinstance(one, Mapping) for one in value) else ","
        return f"[{between.join(map(_nested, value))}]"
    return str(value)

"""Who changed what in the console: a line of the log for each form that was sent, and the last of them on a page.

It notes what was asked, by whom and from where, and what became of it. Passwords, secret values of configurations and
the content of records are not noted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from broker.config.describe import is_secret

logger = structlog.get_logger(__name__)

MOST_NOTES = 1000
LONGEST = 200
DONE = "done"
HIDDEN = "(hidden)"
SECRETS = ("password", "secret", "jaas", ".key")
"""What names of secret values have in them, of plugins that nobody knows here too."""


class Note(NamedTuple):
    """A form that was sent. `outcome` is `done`, or why it was refused."""

    at_ms: float
    user: str
    address: str
    action: str
    asked: Mapping[str, str]
    outcome: str


class Audit:
    """The last notes, the newest first."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque(maxlen=MOST_NOTES)

    def note(self, note: Note) -> None:
        """Keep it, and write a line of the log."""
        self.append(note)
        line = {"user": note.user, "address": note.address, "action": note.action, "asked": dict(note.asked)}
        if note.outcome == DONE:
            logger.info("console changed", **line)
        else:
            logger.info("console refused", **line, reason=note.outcome)

    def append(self, note: Note) -> None:
        self._notes.appendleft(note)

    def notes(self) -> list[Note]:
        return list(self._notes)


def what_is_noted(form: Mapping[str, str], told: Sequence[str]) -> dict[str, str]:
    """Those fields of a form that may be seen: `told` are their names, or beginnings of names that end in a colon."""
    beginnings = tuple(name for name in told if name.endswith(":"))
    key = form.get("key", "")
    is_hidden = is_secret(key) or any(word in key.lower() for word in SECRETS)
    return {
        name: HIDDEN if is_hidden and name == "value" else value[:LONGEST]
        for name, value in form.items()
        if value and (name in told or (beginnings and name.startswith(beginnings)))
    }

"""The page of the audit: what was changed in this console, by whom and from where."""

from __future__ import annotations

from broker.console.ask import Ask, Values, paged
from broker.console.audit import LONGEST, MOST_NOTES, Note, what_is_noted

ON_A_PAGE = 100


def noted(ask: Ask, action: str, told: tuple[str, ...], outcome: str) -> Note:
    """What is kept of a form that `ask` has, and of what became of it."""
    user = ask.rights.user or str(ask.rights.principal)
    asked = what_is_noted(ask.given, told)
    return Note(ask.node.clock.machine.wall_ms(), user, ask.address, action, asked, outcome[: 2 * LONGEST])


async def audit(ask: Ask) -> Values:
    part = ask.text("q").lower()
    found = [one for one in (ask.audit.notes() if ask.audit else ()) if part in _text(one).lower()]
    return {"paging": paged(ask, found, ON_A_PAGE), "q": part, "most": MOST_NOTES}


def _text(note: Note) -> str:
    return " ".join((note.user, note.address, note.action, *note.asked.values(), note.outcome))

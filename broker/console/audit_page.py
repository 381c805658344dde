"""The page of the audit: what was changed in this console, by whom and from where."""

from __future__ import annotations

from broker.console.ask import Ask, Values
from broker.console.audit import LONGEST, MOST_NOTES, Note, what_is_noted
from broker.console.tables import sorted_part, texts, times

ON_A_PAGE = 100


COLUMNS = (
    times("time", "Time", lambda one: one.at_ms),
    texts("user", "User", lambda one: one.user),
    texts("address", "Address", lambda one: one.address),
    texts("what", "What", lambda one: one.action),
    texts("asked", "Asked", lambda one: tuple(one.asked.items())),
    texts("outcome", "Outcome", lambda one: one.outcome),
)


def noted(ask: Ask, action: str, told: tuple[str, ...], outcome: str) -> Note:
    """What is kept of a form that `ask` has, and of what became of it."""
    user = ask.rights.user or str(ask.rights.principal)
    asked = what_is_noted(ask.given, told)
    return Note(ask.node.clock.machine.wall_ms(), user, ask.address, action, asked, outcome[: 2 * LONGEST])


async def audit(ask: Ask) -> Values:
    part = ask.text("q").lower()
    found = [one for one in (ask.audit.notes() if ask.audit else ()) if part in _text(one).lower()]
    order, paging = sorted_part(ask, COLUMNS, found, ON_A_PAGE)
    return {"order": order, "paging": paging, "q": part, "most": MOST_NOTES}


def _text(note: Note) -> str:
    return " ".join((note.user, note.address, note.action, *note.asked.values(), note.outcome))

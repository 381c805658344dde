"""The journal: the last requests with their answers, connections and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from broker.console.ask import Ask, Page, Paging, paged
from broker.testkit.control.report import ENTRY_WORK, size_of, wanted_entries
from broker.testkit.control.topic_reader import Budget
from broker.testkit.journal import Entry, Exchange, journal_of
from broker.testkit.journal_views import entry_json
from protocol.api.names import API_KEYS

ON_A_PAGE = 50
LONGEST_ENTRY = 64 << 10
"""Characters of one entry."""


async def journal(ask: Ask) -> Page:
    asked = {name: ask.text(name) for name in ("api", "client_id")}
    shown = Paging(0, [], 0, ON_A_PAGE)
    is_kept = journal_of(ask.node) is not None
    if is_kept:
        filters = {name: value for name, value in asked.items() if value}
        wanted = list(wanted_entries(ask.node, filters))[::-1]
        shown = paged(ask, await ask.budget.run(ask.node, partial(_folded, wanted, ask.budget)), ON_A_PAGE)
    # Entries never change, and to decode them takes a while.
    rows = await ask.budget.run(ask.node, partial(_rows, tuple(shown.rows), ask.budget))
    return Page(
        "journal.html",
        "Journal",
        {"is_kept": is_kept, "paging": shown, "rows": rows, "asked": asked},
    )


def _folded(entries: Sequence[Entry], budget: Budget) -> list[tuple[Entry, int]]:
    """Each entry and how often it was so: a question that was answered as before is not listed again. Any thread."""
    from odradek.report import QUESTIONS

    questions = {API_KEYS[name] for name in QUESTIONS}
    rows: list[tuple[Entry, int]] = []
    last: dict[tuple[str, bytes], tuple[bytes, int]] = {}
    for entry in entries:
        if isinstance(entry, Exchange) and entry.api_key in questions and entry.is_whole and entry.answer:
            budget.spend(size_of(entry))
            request, answer = entry.request[:4] + entry.request[8:], entry.answer[8:]  # without correlation ids
            asked = entry.client.host, request
            before, row = last.get(asked, (b"", -1))
            if row >= 0 and before == answer:
                rows[row] = rows[row][0], rows[row][1] + 1
                continue
            last[asked] = answer, len(rows)
        rows.append((entry, 1))
    return rows


def _rows(entries: Sequence[tuple[Entry, int]], budget: Budget) -> list[dict[str, Any]]:
    return [_row(entry, times, budget) for entry, times in entries]


def _row(entry: Entry, times: int, budget: Budget) -> dict[str, Any]:
    budget.spend(ENTRY_WORK * size_of(entry))
    shown = entry_json(entry)
    return {
        "at_ms": shown.pop("time") * 1000,
        "kind": shown.pop("kind"),
        "client": shown.pop("client", ""),
        "client_id": shown.pop("client_id", None),
        "what": shown.get("api") or shown.get("text") or "",
        "outcome": shown.get("outcome") or shown.get("level") or "",
        "took_ms": None if shown.get("took") is None else shown["took"] * 1000,
        "rest": budget.json(shown, LONGEST_ENTRY, indent=2),
        "times": times,
    }

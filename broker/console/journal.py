"""The journal: the last requests with their answers, connections and warnings."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.console.ask import Ask, Page, Paging, paged
from broker.control.journal import wanted_entries
from broker.journal.entries import Entry
from broker.journal.rendering import entry_json

ON_A_PAGE = 50


async def journal(ask: Ask) -> Page:
    asked = {name: ask.text(name) for name in ("api", "client_id")}
    shown = Paging(0, [], 0, ON_A_PAGE)
    if ask.node.journal is not None:
        filters = {name: value for name, value in asked.items() if value}
        shown = paged(ask, list(wanted_entries(ask.node, filters))[::-1], ON_A_PAGE)
    # Entries never change, and to decode them takes a while.
    rows = await asyncio.to_thread(lambda: [_row(entry) for entry in shown.rows])
    return Page(
        "journal.html",
        "Journal",
        {"is_kept": ask.node.journal is not None, "paging": shown, "rows": rows, "asked": asked},
    )


def _row(entry: Entry) -> dict[str, Any]:
    shown = entry_json(entry)
    return {
        "at_ms": shown.pop("time") * 1000,
        "kind": shown.pop("kind"),
        "client": shown.pop("client", ""),
        "client_id": shown.pop("client_id", None),
        "what": shown.get("api") or shown.get("text") or "",
        "outcome": shown.get("outcome") or shown.get("level") or "",
        "took_ms": None if shown.get("took") is None else shown["took"] * 1000,
        "rest": shown,
    }

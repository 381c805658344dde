"""Who is connected, how long requests take, the journal of the last ones, and what a test has done to the node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from broker.console.ask import Ask, Paging, Values, paged
from broker.console.tables import Column, numbers, order_of, texts, times, with_forms
from broker.network.connection import Connection
from broker.node import Node
from broker.observe.metrics import TIME_BOUNDS_MS, bound_of
from broker.quotas.limits import QuotaType
from broker.testkit.control.budget import Budget
from broker.testkit.control.faults import described
from broker.testkit.control.report import ENTRY_WORK, size_of, wanted_entries
from broker.testkit.journal import Entry, Exchange, journal_of
from broker.testkit.journal_views import entry_json, header_of
from protocol.api.names import API_KEYS, API_NAMES
from protocol.api.table import API_BY_KEY
from timing.adjustable_clock import AdjustableClock

CLIENTS_ON_A_PAGE = 100
MOST_SLOW = 20


CONNECTIONS = [
    texts("client", "Client id", lambda row: row["client_id"]),
    texts("software", "Software"),
    texts("address", "Address", lambda row: (row["host"], row["port"])),
    texts("listener", "Listener"),
    texts("user", "User", lambda row: row["principal"]),
    numbers("silent", "Silent for", lambda row: row["idle_ms"]),
]
THROTTLED = [
    texts("quota", "Quota"),
    texts("user", "User", lambda row: row["user"] or None),
    texts("client", "Client id", lambda row: row["client_id"] or None),
    numbers("time", "On average for", lambda row: row["ms"]),
]
TIMES = [
    texts("api", "API"),
    texts("versions", "Versions"),
    numbers("requests", "Requests", lambda row: row["total"]),
    numbers("half", "Half within", lambda row: row["half_ms"]),
    numbers("most", "99 of 100 within", lambda row: row["most_ms"]),
]
SLOW = [
    texts("api", "API"),
    texts("client", "Client id", lambda row: row["client_id"]),
    texts("host", "Host"),
    times("at", "At", lambda row: row["at_ms"]),
    numbers("took", "Took", lambda row: row["ms"]),
    texts("outcome", "Outcome"),
]


async def clients(ask: Ask) -> Values:
    node, part = ask.node, ask.text("q")
    now_ms = node.server.clock.monotonic_ms()
    rows = [
        row
        for one in list(node.server.connections)
        if part.lower() in (row := _client_row(one, now_ms))["words"].lower()
    ]
    rows.sort(key=lambda row: (row["client_id"], row["host"], row["port"]))
    order = order_of(ask, CONNECTIONS)
    by_quota, by_time, by_slow = (
        order_of(ask, columns, table) for columns, table in ((THROTTLED, "quotas"), (TIMES, "times"), (SLOW, "slow"))
    )
    shown = paged(ask, order.sort(rows), CLIENTS_ON_A_PAGE)
    return {
        "order": order,
        "by_quota": by_quota,
        "by_time": by_time,
        "by_slow": by_slow,
        "paging": shown,
        "rows": shown.rows,
        "q": part,
        "throttled": by_quota.sort(_throttled(node)),
        "times": by_time.sort(_times(node)),
        "slow": by_slow.sort(_slow(node)),
        "has_journal": journal_of(node) is not None,
    }


def _client_row(connection: Connection, now_ms: float) -> dict[str, Any]:
    name, version = connection.client_software
    row = {
        "client_id": connection.client_id or "",
        "software": "" if name == "unknown" else f"{name} {version}",
        "host": connection.client_host,
        "port": connection.client_port,
        "listener": connection.listener_name,
        "principal": str(connection.principal),
        "idle_ms": max(now_ms - connection.last_active_ms, 0),
    }
    words = (row["client_id"], row["software"], row["host"], row["listener"], row["principal"])
    return {**row, "words": " ".join(map(str, words))}


def _throttled(node: Node) -> list[dict[str, Any]]:
    return [
        {"quota": quota_type.lower(), "user": user, "client_id": client_id, "ms": ms}
        for quota_type in QuotaType
        for (user, client_id), ms in node.local.throttling.throttle_times(quota_type)
        if ms > 0
    ]


def _times(node: Node) -> list[dict[str, Any]]:
    """How long requests took since the start, by API."""
    return [
        {
            "api": API_NAMES[name],
            "total": sum(counters.by_version.values()),
            "versions": sorted(counters.by_version),
            "half_ms": bound_of(TIME_BOUNDS_MS, counters.total_time_ms.counts, 0.5),
            "most_ms": bound_of(TIME_BOUNDS_MS, counters.total_time_ms.counts, 0.99),
        }
        for name, counters in sorted(node.local.metrics.requests.items())
        if counters.by_version
    ]


def _slow(node: Node) -> list[dict[str, Any]]:
    """The slowest of the last requests, where there is a journal; those that wait longest for an answer among them."""
    journal = journal_of(node)
    if journal is None:
        return []
    now_ms = journal.now_ms
    took = [
        (now_ms - one.began_ms if one.outcome.value == "waiting" else one.took_ms or 0.0, one)
        for one in journal.since(None)
        if isinstance(one, Exchange)
    ]
    took.sort(key=lambda pair: -pair[0])
    return [_slow_row(one, ms) for ms, one in took[:MOST_SLOW] if ms > 0]


def _slow_row(one: Exchange, ms: float) -> dict[str, Any]:
    header = header_of(one)
    return {
        "api": "unknown" if header is None else API_BY_KEY[header.api_key].kafka_name,
        "client_id": "" if header is None else header.client_id or "",
        "host": one.client.host,
        "at_ms": one.at_ms,
        "ms": ms,
        "outcome": one.outcome.value,
    }


ENTRIES_ON_A_PAGE = 50
LONGEST_ENTRY = 64 << 10
"""Characters of one entry."""


ENTRIES = [
    times("at", "Time", lambda row: row["at_ms"]),
    texts("kind", "Kind"),
    texts("what", "What"),
    texts("client", "Client id", lambda row: row["client_id"]),
    texts("address", "Address", lambda row: row["client"]),
    texts("outcome", "Outcome"),
    numbers("took", "Took", lambda row: row["took_ms"]),
    Column("all", "All of it"),
]


async def journal(ask: Ask) -> Values:
    asked = {name: ask.text(name) for name in ("api", "client_id")}
    shown = Paging(0, [], 0, ENTRIES_ON_A_PAGE)
    is_kept = journal_of(ask.node) is not None
    if is_kept:
        filters = {name: value for name, value in asked.items() if value}
        wanted = list(wanted_entries(ask.node, filters))[::-1]
        shown = paged(ask, await ask.budget.run(ask.node, partial(_folded, wanted, ask.budget)), ENTRIES_ON_A_PAGE)
    # Entries never change, and to decode them takes a while.
    rows = await ask.budget.run(ask.node, partial(_entry_rows, tuple(shown.rows), ask.budget))
    order = order_of(ask, ENTRIES)
    order = order._replace(is_partly=order.column is not None and shown.total > len(rows))
    return {"is_kept": is_kept, "order": order, "paging": shown, "rows": order.sort(rows), "asked": asked}


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


def _entry_rows(entries: Sequence[tuple[Entry, int]], budget: Budget) -> list[dict[str, Any]]:
    return [_entry_row(entry, times, budget) for entry, times in entries]


def _entry_row(entry: Entry, times: int, budget: Budget) -> dict[str, Any]:
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


FAULTS = [
    texts("fault", "Fault", lambda row: row["id"]),
    texts("what", "What it does"),
    numbers("hits", "Has struck"),
    texts("active", "Strikes still"),
]


async def kit(ask: Ask) -> Values:
    node, order = ask.node, order_of(ask, with_forms(ask, FAULTS))
    faults = [] if node.faults is None else [described(fault) for fault in node.faults]
    return {"is_open": node.faults is not None, "order": order, "faults": order.sort(faults), "clock": _clock(ask)}


def _clock(ask: Ask) -> dict[str, Any] | None:
    """None for a clock that nobody moves."""
    clock = ask.node.clock
    if not isinstance(clock, AdjustableClock):
        return None
    return {"now_ms": clock.wall_ms(), "ahead_ms": clock.ahead_ms, "frozen": clock.frozen}

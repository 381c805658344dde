"""Who is connected, who is held back by a quota, and how long requests take."""

from __future__ import annotations

from typing import Any

from broker.console.ask import Ask, Page, paged
from broker.network.connection import Connection
from broker.node import Node
from broker.observe.metrics import TIME_BOUNDS_MS, bound_of
from broker.quotas.limits import QuotaType
from broker.testkit.journal import Exchange, journal_of
from broker.testkit.journal_views import header_of
from protocol.api.names import API_NAMES
from protocol.api.table import API_BY_KEY

ON_A_PAGE = 100
MOST_SLOW = 20


async def clients(ask: Ask) -> Page:
    node, part = ask.node, ask.text("q")
    now_ms = node.server.clock.monotonic_ms()
    rows = [row for one in list(node.server.connections) if part.lower() in (row := _row(one, now_ms))["words"].lower()]
    rows.sort(key=lambda row: (row["client_id"], row["host"], row["port"]))
    shown = paged(ask, rows, ON_A_PAGE)
    return Page(
        "clients.html",
        "Clients",
        {
            "paging": shown,
            "rows": shown.rows,
            "q": part,
            "throttled": _throttled(node),
            "times": _times(node),
            "slow": _slow(node),
            "has_journal": journal_of(node) is not None,
        },
    )


def _row(connection: Connection, now_ms: float) -> dict[str, Any]:
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

"""The journal: what was asked and answered last, who connected, and what the broker warned of."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from broker.control.budget import Budget
from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.control.topic_reader import MOST
from broker.journal.entries import Entry, Exchange
from broker.journal.journal import Journal
from broker.journal.rendering import entry_json, header_of
from broker.node import Node
from protocol.api.names import API_KEYS, find_api, nearest

DEFAULT_LIMIT = 100

ENTRY_WORK = 100
"""For each byte of an entry, of which each may be an object in the answer."""


async def read_journal(node: Node, values: Values) -> dict[str, Any]:
    """The entries that are wanted, the newest as far as the budget reaches, and a mark of now.

    Raises ControlError without a journal.
    """
    wanted = tuple(deque(wanted_entries(node, values), maxlen=values.get("limit", DEFAULT_LIMIT)))
    mark, budget = journal_of(node).mark(), Budget(MOST)
    entries = await budget.run(node, partial(_shown, wanted, budget))
    return {"mark": mark, "entries": entries, "left_out": len(wanted) - len(entries)}


def _shown(wanted: Sequence[Entry], budget: Budget) -> list[dict[str, Any]]:
    """The newest entries, in order; any thread. One of some kB may have thousands of fields."""
    found: list[dict[str, Any]] = []
    for entry in reversed(wanted):
        if budget.is_spent:
            break
        budget.spend(ENTRY_WORK * size_of(entry))
        found.append(entry_json(entry))
    return found[::-1]


def size_of(entry: Entry) -> int:
    """The bytes that are decoded to show an entry, at least one."""
    return 1 + (len(entry.request) + len(entry.answer or b"") if isinstance(entry, Exchange) else 0)


def wanted_entries(node: Node, values: Values) -> Iterator[Entry]:
    """The entries that the parameters since, api and client_id let pass. Raises ControlError."""
    api = values.get("api")
    key = None if api is None else _key(api)
    entries = journal_of(node).since(values.get("since"))
    return (entry for entry in entries if _is_wanted(entry, key, values.get("client_id")))


def _key(given: str) -> int:
    api = find_api(given)
    if api is None:
        raise ControlError(
            f"api = {given!r}: expected a name or a number, such as {nearest(given, API_KEYS)}", parameter="api"
        )
    return api.key


def _is_wanted(entry: Entry, key: int | None, client_id: str | None) -> bool:
    """Whether the filters let it pass; what is no request only passes without any."""
    if key is None and client_id is None:
        return True
    if not isinstance(entry, Exchange) or key not in (None, entry.api_key):
        return False
    if client_id is None:
        return True
    header = header_of(entry)
    return header is not None and header.client_id == client_id


def journal_of(node: Node) -> Journal:
    """The node's journal. Raises ControlError if it keeps none."""
    if node.journal is None:
        raise ControlError("this broker keeps no journal", status=409)
    return node.journal


ENDPOINTS = (
    Endpoint(
        "GET",
        "/journal",
        "The last requests with their answers, connections and warnings, in order; `mark` is for `since`.",
        read_journal,
        (
            Parameter("since", Kind.INTEGER, "a mark of an earlier answer: only what came after it", least=0),
            Parameter("limit", Kind.INTEGER, f"so many at most, the newest (default {DEFAULT_LIMIT})", least=0),
            Parameter("client_id", Kind.STRING, "only requests of this client id"),
            Parameter("api", Kind.STRING, "only requests of this API, such as JoinGroup"),
        ),
    ),
)

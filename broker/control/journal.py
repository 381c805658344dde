"""The journal: what was asked and answered last, who connected, and what the broker warned of."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from broker.control.endpoint import ControlError, Endpoint, Kind, Parameter, Values
from broker.faults.names import API_KEYS, find_api, nearest
from broker.journal.entries import Entry, Exchange
from broker.journal.journal import Journal
from broker.journal.rendering import entry_json, header_of
from broker.node import Node

DEFAULT_LIMIT = 100


def read_journal(node: Node, values: Values) -> dict[str, Any]:
    """The entries that are wanted, and a mark of now. Raises ControlError without a journal."""
    wanted = deque(wanted_entries(node, values), maxlen=values.get("limit", DEFAULT_LIMIT))
    return {"mark": journal_of(node).mark(), "entries": [entry_json(entry) for entry in wanted]}


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

"""Who uses a transactional id, as far as the journal still knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from broker.journal.entries import Exchange
from broker.journal.rendering import entry_json, header_of
from broker.node import Node
from protocol.api.table import API_BY_KEY, API_BY_NAME

_APIS = ("produce", "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "txn_offset_commit", "end_txn")
KEYS = frozenset(API_BY_NAME[name].key for name in _APIS)
FENCED = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"})


@dataclass(frozen=True, slots=True)
class ProducerRequest:
    """A request with a transactional id. `errors` are those of its answer."""

    api: str
    client_id: str
    host: str
    ago_ms: float
    errors: frozenset[str]

    @property
    def who(self) -> str:
        return f"client {self.client_id or '(without a client id)'} at {self.host}"


def requests_of(node: Node, transactional_id: str) -> list[ProducerRequest]:
    """The requests with that transactional id that the journal still has, the newest first."""
    if node.journal is None:
        return []
    now_ms = node.journal.now_ms
    return list(_found(node.journal.since(None), transactional_id, now_ms))


def _found(entries: list[Any], transactional_id: str, now_ms: float) -> Iterator[ProducerRequest]:
    wanted = transactional_id.encode()
    for entry in reversed(entries):
        if not isinstance(entry, Exchange) or entry.api_key not in KEYS or wanted not in entry.request:
            continue
        shown = entry_json(entry)
        header = header_of(entry)
        if header is not None and transactional_id in _ids(shown["request"]):
            yield ProducerRequest(
                API_BY_KEY[header.api_key].kafka_name,
                header.client_id or "",
                entry.client.host,
                now_ms - entry.began_ms,
                frozenset(_errors(shown["answer"])),
            )


def _ids(request: Any) -> set[str]:
    """Its transactional ids: newer AddPartitionsToTxn requests may have several."""
    if request is None:
        return set()
    names = {request.get("transactional_id"), request.get("v3_and_below_transactional_id")}
    names |= {one.get("transactional_id") for one in request.get("transactions", ())}
    return {name for name in names if name}


def _errors(answer: Any) -> Iterator[str]:
    """Every error code in an answer, all the way down."""
    if isinstance(answer, dict):
        for name, value in answer.items():
            if name.endswith("error_code") and value != "NONE":
                yield value
            else:
                yield from _errors(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from _errors(one)

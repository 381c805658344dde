"""Entries of the journal as JSON: requests and answers with the fields of Kafka's messages, in snake case.

Durations are seconds. Bytes are text, or base64 in a field whose name ends in `_base64`; of records only the size is
shown, and of secrets only that there is one.
"""

from __future__ import annotations

from typing import Any

from broker.config.describe import is_secret
from broker.faults.rendering import entity_as_json
from broker.journal.entries import Client, ConnectionEvent, Entry, Exchange
from broker.peers.client import INSPECTION_CLIENT_ID
from protocol.api import messages
from protocol.api.table import API_BY_KEY
from protocol.headers import RequestHeader, parse_request_header
from protocol.primitives import DecodeError
from protocol.reader import entity_reader

Json = dict[str, Any]

SIZE_BYTES = 4
CLIENT_ID_AT = 8
"""Where the client id begins in a request without its size, with its length."""

_INSPECTION = len(INSPECTION_CLIENT_ID).to_bytes(2, "big") + INSPECTION_CLIENT_ID.encode()

SECRETS = frozenset({"auth_bytes", "hmac", "salted_password", "request_data", "response_data"})
"""Fields with something that a client could log in with; the last two are of Envelope, and may have all others."""

HIDDEN = "[hidden]"


def header_of(exchange: Exchange) -> RequestHeader | None:
    """The request's header; None if there is none that could be read."""
    try:
        return parse_request_header(exchange.request)
    except DecodeError:
        return None


def is_inspection(entry: Entry) -> bool:
    """Whether it is a question of another broker, for somebody who looks at the cluster."""
    return isinstance(entry, Exchange) and entry.request.startswith(_INSPECTION, CLIENT_ID_AT)


def entry_json(entry: Entry) -> Json:
    if isinstance(entry, Exchange):
        return _exchange(entry)
    common = {"time": entry.at_ms / 1000}
    if isinstance(entry, ConnectionEvent):
        kind = "connection opened" if entry.opened else "connection closed"
        return {**common, "kind": kind, **_client(entry.client)}
    fields_ = {
        key: value if isinstance(value, int | float | str) else str(value) for key, value in entry.fields.items()
    }
    return {**common, "kind": "warning", "level": entry.level, "text": entry.text, "fields": fields_}


def _client(client: Client) -> Json:
    return {"client": f"{client.host}:{client.port}", "listener": client.listener}


def _exchange(exchange: Exchange) -> Json:
    found: Json = {
        "time": exchange.at_ms / 1000,
        "kind": "request",
        **_client(exchange.client),
    }
    header = header_of(exchange)
    if header is not None:
        api = API_BY_KEY[header.api_key]
        found |= {"api": api.kafka_name, "version": header.api_version, "client_id": header.client_id}
    return found | {
        "outcome": exchange.outcome.value,
        "took": None if exchange.took_ms is None else round(exchange.took_ms / 1000, 6),
        "error": exchange.error,
        "request": None if header is None else _request(exchange, header),
        "answer": None if header is None else _answer(exchange, header),
        "request_bytes": exchange.size,
        "answer_bytes": exchange.answer_size,
    }


def _request(exchange: Exchange, header: RequestHeader) -> Json | None:
    if not exchange.is_whole:
        return None
    api = API_BY_KEY[header.api_key]
    if not api.serves(header.api_version):
        return None
    try:
        entity = messages.decode_request(api, header.api_version, exchange.request[header.body :])
    except DecodeError:
        return None
    return _shown(entity_as_json(entity))


def _answer(exchange: Exchange, header: RequestHeader) -> Json | None:
    if exchange.answer is None:
        return None
    api, version = API_BY_KEY[header.api_key], header.api_version
    if not api.serves(version):
        return None
    cls = messages.response_class(api.key, version)
    start = SIZE_BYTES + (4 if api.response_header_version(version) == 0 else 5)
    try:
        entity, _ = entity_reader(cls, cls)(bytes(exchange.answer), start)
    except DecodeError:
        return None  # a fault of the kit may have changed it
    return _shown(entity_as_json(entity))


def _shown(found: Json) -> Json:
    """The values, with another text in the place of each secret."""
    shown = {
        name: HIDDEN if value and name.removesuffix("_base64") in SECRETS else _shown_value(value)
        for name, value in found.items()
    }
    name = found.get("name")
    if found.get("value") and isinstance(name, str) and is_secret(name):  # of AlterConfigs
        shown["value"] = HIDDEN
    return shown


def _shown_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown_value(each) for each in value]
    return _shown(value) if isinstance(value, dict) else value

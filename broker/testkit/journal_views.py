"""The journal's entries as JSON, what consumers fetch, and who uses a transactional id, as far as the journal knows.

Requests and answers have the fields of Kafka's messages, in snake case. Durations are seconds. Bytes are text, or
base64 in a field whose name ends in `_base64`; of records only the size is
shown, and of secrets only that there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from broker.config.describe import is_secret
from broker.faults.rendering import entity_as_json
from broker.node import Node
from broker.replication.partition import READ_COMMITTED
from broker.testkit.journal import Client, ConnectionEvent, Entry, Exchange, Outcome, journal_of
from metadata.topics import TopicsImage
from protocol.api import messages
from protocol.api.row import Api
from protocol.api.table import API_BY_KEY, API_BY_NAME
from protocol.headers import RequestHeader, parse_request_header
from protocol.primitives import DecodeError
from protocol.produce_fetch.fetch_request import FetchRequest, decode_request
from protocol.reader import entity_reader
from protocol.topic_partition import PartitionKey

Json = dict[str, Any]

SIZE_BYTES = 4

SECRETS = frozenset({"auth_bytes", "hmac", "salted_password", "request_data", "response_data"})
"""Fields with something that a client could log in with; the last two are of Envelope, and may have all others."""

HIDDEN = "[hidden]"


def header_of(exchange: Exchange) -> RequestHeader | None:
    """The request's header; None if there is none that could be read."""
    try:
        return parse_request_header(exchange.request)
    except DecodeError:
        return None


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
    api = API_BY_KEY[header.api_key]
    if exchange.answer is None or not api.serves(header.api_version):
        return None
    try:
        return _shown(entity_as_json(decode_answer(api, header.api_version, bytes(exchange.answer))))
    except DecodeError:
        return None  # a fault of the kit may have changed it


def decode_answer(api: Api, version: int, answer: bytes) -> Any:
    """The answer of a frame, which has its size before it. Raises DecodeError."""
    cls = messages.response_class(api.key, version)
    start = SIZE_BYTES + (4 if api.response_header_version(version) == 0 else 5)
    entity, _ = entity_reader(cls, cls)(answer, start)
    return entity


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


@dataclass(frozen=True, slots=True)
class FetchView:
    """A consumer's last Fetch. `ago_ms` is the time since it came; `waits` means that it is not answered yet.

    `offsets` has every partition that the client fetches, with the offset that it wants next.
    """

    client_id: str
    client: Client
    read_committed: bool
    ago_ms: float
    waits: bool
    offsets: Mapping[PartitionKey, int]


def read_fetches(node: Node) -> list[FetchView] | None:
    """The last Fetch of each open connection; None without a journal, which alone knows them."""
    journal = journal_of(node)
    if journal is None:
        return None
    views = (_view(node, exchange, journal.now_ms) for exchange in journal.fetches())
    return [view for view in views if view is not None]


def _view(node: Node, exchange: Exchange, now_ms: float) -> FetchView | None:
    header = header_of(exchange)
    if header is None or not exchange.is_whole:
        return None
    try:
        request = decode_request(header.api_version, memoryview(exchange.request), header.body)
    except DecodeError:
        return None
    return FetchView(
        header.client_id or "",
        exchange.client,
        request.isolation_level == READ_COMMITTED,
        now_ms - exchange.began_ms,
        exchange.outcome is Outcome.WAITING,
        _offsets(node, request),
    )


def _offsets(node: Node, request: FetchRequest) -> dict[PartitionKey, int]:
    topics = node.cluster.cache.image.topics
    session = node.local.fetch_sessions.get(request.session_id) if request.session_id else None
    if session is not None:
        return {
            (target.topic, target.key[1]): target.fetch_offset
            for target in session.targets.values()
            if target.topic is not None
        }
    named = ((topic_name(topics, key), partitions) for key, partitions in request.topics)
    return {
        (name, partition.partition): partition.fetch_offset
        for name, partitions in named
        if name is not None
        for partition in partitions
    }


def topic_name(topics: TopicsImage, key: str | UUID) -> str | None:
    """The name of a topic that is given by its name or its id; None if nobody knows it any more."""
    if isinstance(key, str):
        return key
    topic = topics.by_id(key)
    return None if topic is None else topic.name


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
    journal = journal_of(node)
    return [] if journal is None else list(_found(journal.since(None), transactional_id, journal.now_ms))


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

"""What consumers fetch: the last Fetch of each connection, with where its client is in each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from broker.journal.entries import Client, Exchange, Outcome
from broker.journal.rendering import header_of
from broker.node import Node
from broker.replication.partition import READ_COMMITTED
from metadata.topics import TopicsImage
from protocol.primitives import DecodeError
from protocol.produce_fetch.fetch_request import FetchRequest, decode_request
from protocol.topic_partition import PartitionKey


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
    if node.journal is None:
        return None
    now_ms = node.journal.now_ms
    views = (_view(node, exchange, now_ms) for exchange in node.journal.fetches())
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
    named = ((_name(topics, key), partitions) for key, partitions in request.topics)
    return {
        (name, partition.partition): partition.fetch_offset
        for name, partitions in named
        if name is not None
        for partition in partitions
    }


def _name(topics: TopicsImage, key: str | UUID) -> str | None:
    if isinstance(key, str):
        return key
    topic = topics.by_id(key)
    return None if topic is None else topic.name

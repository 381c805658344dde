"""FindCoordinator 0-6 (KIP-699; Kafka's `KafkaApis.getCoordinator`).

Deviations: before the first answer the internal topic is created and its shards are loaded; Kafka meanwhile answers
COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6 import FindCoordinatorRequest, FindCoordinatorResponse
from kio.schema.find_coordinator.v6.response import Coordinator

from broker.config.definition import parse_integer
from broker.coordinators.hosted import HostedCoordinator
from broker.membership.metadata_cache import endpoint_of
from broker.request_context import RequestContext
from protocol import uuids
from protocol.api.shape import KeyType
from protocol.durations import ZERO
from protocol.errors import CoordinatorNotAvailable, InvalidRequest, KafkaError, type_by_code

FIRST_BATCHED_VERSION = 4
FIRST_VERSION_WITH_SHARE = 6


KEY_TYPES = frozenset(int(key_type) for key_type in KeyType)


@dataclass(frozen=True, slots=True)
class OneCoordinator:
    """The response of versions 0-3."""

    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    node_id: int
    host: str
    port: int


Answer = FindCoordinatorResponse | OneCoordinator


def find_coordinator(ctx: RequestContext, request: FindCoordinatorRequest) -> Answer | Awaitable[Answer]:
    batched = ctx.version >= FIRST_BATCHED_VERSION
    keys = request.coordinator_keys if batched else (ctx.raw.key,)
    coordinator = _coordinator(ctx, request.key_type)
    if coordinator is not None and keys and not coordinator.topic_exists:
        return _with_topic(ctx, request, keys, coordinator)
    return _answer(ctx, [_find(ctx, request.key_type, key, coordinator) for key in keys])


def _coordinator(ctx: RequestContext, key_type: int) -> HostedCoordinator[Any] | None:
    if key_type == KeyType.GROUP:
        return ctx.coordinators.groups
    if key_type == KeyType.SHARE:
        return ctx.coordinators.share if ctx.version >= FIRST_VERSION_WITH_SHARE else None
    return ctx.coordinators.transactions if key_type == KeyType.TRANSACTION else None


async def _with_topic(
    ctx: RequestContext,
    request: FindCoordinatorRequest,
    keys: tuple[str, ...],
    coordinator: HostedCoordinator[Any],
) -> Answer:
    try:
        await coordinator.ensure_topic()
    except CoordinatorNotAvailable as error:
        return _answer(ctx, [_find(ctx, request.key_type, key, None, error) for key in keys])
    return _answer(ctx, [_find(ctx, request.key_type, key, coordinator) for key in keys])


def _find(
    ctx: RequestContext,
    key_type: int,
    key: str,
    coordinator: HostedCoordinator[Any] | None,
    missing: CoordinatorNotAvailable | None = None,
) -> Coordinator:
    """The coordinator of a key, or what is wrong with the key; `missing` says why there is no coordinator."""
    try:
        if key_type not in KEY_TYPES:
            raise InvalidRequest(InvalidRequest.default_message)
        if key_type == KeyType.SHARE and (ctx.version < FIRST_VERSION_WITH_SHARE or not _is_share_key(key)):
            raise InvalidRequest
        if coordinator is None or not coordinator.is_available(key):
            raise missing or CoordinatorNotAvailable
    except KafkaError as error:
        return _failed(key, error)
    leader = coordinator.leader_for(ctx.image, key)
    endpoint = endpoint_of(ctx.image, leader, ctx.connection.listener_name)
    if endpoint is None:
        return _failed(key, CoordinatorNotAvailable())
    return Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_code=ErrorCode.none, error_message=""
    )


def _is_share_key(key: str) -> bool:
    """Whether the key has the form group:topic id:partition (Kafka's `SharePartitionKey.validate`)."""
    parts = key.rstrip(":").rsplit(":", 2)  # a group id may have colons; Java's split drops empty parts at the end
    if len(parts) != 3 or not parts[0].strip():
        return False
    try:
        uuids.from_text(parts[1])
    except ValueError:
        return False
    return parse_integer(parts[2], 32) is not None


def _failed(key: str, error: KafkaError) -> Coordinator:
    """The answer for an error; Kafka leaves the message empty unless it adds something to the code."""
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.explicit_message or ""
    )


def _answer(ctx: RequestContext, found: list[Coordinator]) -> Answer:
    if ctx.version >= FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(throttle_time=ZERO, coordinators=tuple(found))
    one = found[0]
    message = "NONE" if one.error_code is ErrorCode.none else type_by_code[one.error_code].default_message
    return OneCoordinator(ZERO, one.error_code, message, one.node_id, one.host, one.port)

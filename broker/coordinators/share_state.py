"""Requests for the state of share groups (KIP-932; Kafka's `ShareCoordinatorService`), which has no coordinator here.

`share.version` is 0, as in a Kafka 4.1 whose operator did not enable share groups: there is no `__share_group_state`,
and requests for a partition's state get NOT_COORDINATOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.network.context import RequestContext
from protocol.errors import KafkaError, NotCoordinator
from protocol.java_collections import in_java_order
from protocol.uuids import ZERO

Handle = Callable[[RequestContext, Any], Any]
ErrorResponse = Callable[[RequestContext, Any, KafkaError], Any]


def refusing(
    response: Callable[..., Any],
    result: Callable[..., Any],
    partition_result: Callable[..., Any],
    *,
    doing: str,
    passes_over_empty_topics: bool = False,
) -> tuple[Handle, ErrorResponse]:
    """The `handle` and `error_response` of an API that reads or writes such state, made from its response classes.

    `doing` is for the message. A topic without partitions makes the whole answer empty, or is passed over.
    """

    def error_response(_ctx: RequestContext, request: Any, error: KafkaError) -> Any:
        topics = _named_in(request, passes_over_empty_topics)
        return response(
            results=tuple(
                result(
                    topic_id=topic,
                    partitions=tuple(
                        partition_result(
                            partition=index,
                            error_code=error.code,
                            error_message=f"Unable to {doing}: {error.message}",
                        )
                        for index in in_java_order(topics[topic])
                    ),
                )
                for topic in in_java_order(list(reversed(topics)))  # Java's computeIfAbsent puts the newest first
            )
        )

    def handle(ctx: RequestContext, request: Any) -> Any:
        return error_response(ctx, request, NotCoordinator())

    return handle, error_response


def _named_in(request: Any, passes_over_empty_topics: bool) -> dict[Any, dict[int, None]]:
    """The request's partitions by topic id, without repetitions; none where Kafka does not look further."""
    if not request.group_id or not (passes_over_empty_topics or all(topic.partitions for topic in request.topics)):
        return {}
    topics: dict[Any, dict[int, None]] = {}
    for topic in request.topics:
        if topic.partitions:
            topics.setdefault(topic.topic_id or ZERO, {}).update(_indexes(topic.partitions))
    return topics


def _indexes(partitions: Iterable[Any]) -> dict[int, None]:
    return dict.fromkeys(one.partition for one in partitions)

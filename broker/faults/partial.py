"""A request of which only some partitions fail: the rest of it, and an answer made of two.

The failed part is answered by the API's own `error_response`, so its fields are those of a real failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import MetadataResponse, MetadataResponseTopic

from broker.faults.matching import name_of, topic_name
from metadata.topic_names import is_internal
from protocol.api import failure, messages
from protocol.api.shape import TopicList, topics_answered, topics_of
from protocol.produce_fetch.fetch_request import FetchPartitionResponse, FetchRequest, FetchResponse
from protocol.produce_fetch.produce_messages import ProduceRequest

if TYPE_CHECKING:
    from broker.faults.matching import Selection
    from broker.request_context import RequestContext
    from protocol.api.row import Api
    from protocol.produce_fetch.parts import TopicKey

MARKED = ("fetch", "metadata", "offset_fetch")
"""APIs whose answer is made of a request that does no harm, and then gets the error in the places that are selected."""


def is_partial(api: Api) -> bool:
    """Whether a part of a request can fail alone: the answer has no error of its own, or repeats it for each topic."""
    if api.own_codec or api.name in MARKED:
        return True
    response = messages.newest_response(api)
    asked = topics_of(messages.newest_request(api), response)
    has_places = asked is not None and len(asked.path) == 1 and topics_answered(response) is not None
    return has_places and (api.fails_everywhere or not failure.has_own_error(response))


OFFSETS = TopicList(("topics",), "name", "topic_id")
"""The topics of a group in an answer to OffsetFetch."""

SESSION_ERRORS = (
    ErrorCode.fetch_session_id_not_found,
    ErrorCode.invalid_fetch_session_epoch,
    ErrorCode.fetch_session_topic_id_error,
)
"""The errors of a whole Fetch; any other is a partition's."""

Keep = Callable[[str | None, int | None], bool]


# -- requests


def pruned(api: Api, ctx: RequestContext, request: Any, keep: Keep) -> Any | None:
    """The request with only those partitions; None if nothing is left."""
    if api.own_codec:
        return _pruned_produce(ctx, request, keep)
    asked = topics_of(request.__class__, messages.newest_response(api))
    assert asked is not None, "see is_partial"
    (field,) = asked.path
    topics = []
    for topic in getattr(request, field) or ():
        left = _pruned_topic(topic, name_of(ctx, topic, asked), asked, keep)
        if left is not None:
            topics.append(left)
    return dataclasses.replace(request, **{field: tuple(topics)}) if topics else None


def _pruned_topic(topic: Any, name: str | None, fields: TopicList, keep: Keep) -> Any | None:
    if fields.partitions is None:
        return topic if keep(name, None) else None
    kept = tuple(
        partition for partition in getattr(topic, fields.partitions) or () if keep(name, _index(partition, fields))
    )
    return dataclasses.replace(topic, **{fields.partitions: kept}) if kept else None


def _pruned_produce(ctx: RequestContext, request: ProduceRequest, keep: Keep) -> ProduceRequest | None:
    topics = []
    for key, entries in request.topics:
        name = topic_name(ctx, key)
        kept = [entry for entry in entries if keep(name, entry[0])]
        if kept:
            topics.append((key, kept))
    return dataclasses.replace(request, topics=topics) if topics else None


def harmless(api: Api, request: Any, selection: Selection) -> Any:
    """A request of one of `MARKED` of which a part is to fail: answered at once, and making no topic of that part."""
    if api.name == "fetch":
        return dataclasses.replace(request, max_wait_ms=0)
    if api.name == "metadata" and request.topics:
        left = tuple(topic for topic in request.topics if topic.name is None or not selection.has(topic.name, None))
        return dataclasses.replace(request, **({"topics": left} if left else {"allow_auto_topic_creation": False}))
    return request


# -- responses


def merged(api: Api, response: Any, failures: Any) -> Any:
    """`response` with the topics and partitions of `failures` in place of its own, or behind them."""
    if api.own_codec:
        return _merged_produce(response, failures)
    fields = topics_answered(messages.newest_response(api))
    assert fields is not None, "see is_partial"
    (field,) = fields.path
    topics: dict[Any, Any] = {_key(topic, fields): topic for topic in getattr(response, field)}
    for failed in getattr(failures, field):
        key = _key(failed, fields)
        known = topics.get(key)
        if known is None or fields.partitions is None:
            topics[key] = failed
            continue
        partitions = {_index(partition, fields): partition for partition in getattr(known, fields.partitions)}
        partitions |= {_index(partition, fields): partition for partition in getattr(failed, fields.partitions)}
        topics[key] = dataclasses.replace(known, **{fields.partitions: tuple(partitions.values())})
    return dataclasses.replace(response, **{field: tuple(topics.values())})


def _merged_produce(response: Any, failures: Any) -> Any:
    topics = {key: {partition.index: partition for partition in answers} for key, answers in response.topics}
    for key, answers in failures.topics:
        topics.setdefault(key, {}).update({partition.index: partition for partition in answers})
    return dataclasses.replace(response, topics=[(key, list(answers.values())) for key, answers in topics.items()])


def marked(api: Api, ctx: RequestContext, request: Any, response: Any, selection: Selection, code: ErrorCode) -> Any:
    """The response of one of `MARKED` with the error at the selected places."""
    if api.name == "fetch":
        return _marked_fetch(ctx, request, response, selection, code)
    if api.name == "metadata":
        return _marked_metadata(ctx, request, response, selection, code)
    groups = getattr(response, "groups", None)
    if groups is None:
        return _marked_offsets(ctx, response, selection, code)
    return dataclasses.replace(response, groups=tuple(_marked_offsets(ctx, group, selection, code) for group in groups))


def _marked_metadata(
    ctx: RequestContext, request: Any, response: MetadataResponse, selection: Selection, code: ErrorCode
) -> MetadataResponse:
    failed = {topic.name: topic for topic in response.topics if selection.has(topic.name, None)}
    failed |= {
        topic.name: _missing(ctx, topic.name)
        for topic in request.topics or ()
        if topic.name is not None and topic.name not in failed and selection.has(topic.name, None)
    }
    marked = (dataclasses.replace(topic, error_code=code, partitions=()) for topic in failed.values())
    others = (topic for topic in response.topics if topic.name not in failed)
    top = code if code is ErrorCode.rebootstrap_required else response.error_code
    return dataclasses.replace(response, topics=(*others, *marked), error_code=top)


def _missing(ctx: RequestContext, name: str) -> MetadataResponseTopic:
    """A topic that the broker was not asked for."""
    known = ctx.image.topics.get(name)
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=name,
        topic_id=None if known is None else known.id,
        is_internal=is_internal(name),
        partitions=(),
    )


def _marked_offsets(ctx: RequestContext, group: Any, selection: Selection, code: ErrorCode) -> Any:
    def marked_partition(topic: str | None, marked: Any) -> Any:
        if not selection.has(topic, marked.partition_index):
            return marked
        return dataclasses.replace(marked, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code)

    return dataclasses.replace(
        group,
        topics=tuple(
            dataclasses.replace(
                topic, partitions=tuple(marked_partition(name, partition) for partition in topic.partitions)
            )
            for topic in group.topics
            for name in (name_of(ctx, topic, OFFSETS),)
        ),
    )


def _marked_fetch(
    ctx: RequestContext, request: FetchRequest, response: FetchResponse, selection: Selection, code: ErrorCode
) -> FetchResponse:
    if code in SESSION_ERRORS:
        return FetchResponse([], error_code=int(code), session_id=request.session_id)
    if response.error_code:
        return response
    topics: dict[TopicKey, dict[int, FetchPartitionResponse]] = {
        key: {partition.partition_index: partition for partition in partitions} for key, partitions in response.topics
    }
    keys: Iterable[tuple[TopicKey, int]] = (
        *((key, partition.partition) for key, partitions in request.topics for partition in partitions),
        *ctx.local.fetch_sessions.partitions_of(response.session_id),
    )
    for key, index in keys:
        if selection.has(topic_name(ctx, key), index):
            failed = FetchPartitionResponse(index, int(code), aborted_transactions=())
            topics.setdefault(key, {})[index] = failed
    return dataclasses.replace(response, topics=[(key, list(answers.values())) for key, answers in topics.items()])


def _key(topic: Any, fields: TopicList) -> Any:
    name = None if fields.name is None else getattr(topic, fields.name)
    return getattr(topic, "resource_type", None), name or getattr(topic, "topic_id", name)


def _index(partition: Any, fields: TopicList) -> int:
    found: int = partition if fields.number is None else getattr(partition, fields.number)
    return found

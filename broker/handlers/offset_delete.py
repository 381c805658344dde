"""OffsetDelete 0 (KIP-496; Kafka's `KafkaApis.handleOffsetDeleteRequest`).

Unknown partitions come first in the answer, as in Kafka. If there are none, a topic named twice is answered twice,
otherwise once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0 import OffsetDeleteRequest, OffsetDeleteResponse
from kio.schema.offset_delete.v0.response import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic

from broker.network.answers import when_done
from broker.request_context import RequestContext
from protocol.durations import ZERO
from protocol.errors import InvalidGroupId
from protocol.topic_partition import PartitionKey

UNKNOWN = ErrorCode.unknown_topic_or_partition


def offset_delete(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    if not request.group_id:
        raise InvalidGroupId
    known: dict[str, list[int]] = {}
    unknown: dict[str, list[int]] = {}
    for topic in request.topics:
        found = ctx.image.topics.get(topic.name)
        if found is None:
            unknown.setdefault(topic.name, [])  # answered even without partitions
        count = 0 if found is None else len(found.partitions)
        for asked in topic.partitions:
            index = asked.partition_index
            (known if 0 <= index < count else unknown).setdefault(topic.name, []).append(index)
    answer = ctx.coordinators.groups.write(
        request.group_id, lambda state: state.offsets.delete(request.group_id, known)
    )
    return when_done(answer, lambda codes: _response(request, known, unknown, codes))


def _response(
    request: OffsetDeleteRequest,
    known: Mapping[str, list[int]],
    unknown: Mapping[str, list[int]],
    codes: Mapping[PartitionKey, ErrorCode],
) -> OffsetDeleteResponse:
    if unknown:
        topics = [
            _topic(name, unknown.get(name, ()), [(index, codes[name, index]) for index in known.get(name, ())])
            for name in {**unknown, **known}
        ]
    else:
        topics = [
            _topic(
                topic.name,
                (),
                [
                    (partition.partition_index, codes[topic.name, partition.partition_index])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    return OffsetDeleteResponse(error_code=ErrorCode.none, throttle_time=ZERO, topics=tuple(topics))


def _topic(name: str, unknown: Iterable[int], answered: Iterable[tuple[int, ErrorCode]]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=(
            *(_partition(index, UNKNOWN) for index in unknown),
            *(_partition(index, code) for index, code in answered),
        ),
    )


def _partition(index: int, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=index, error_code=code)

"""Produce 3-13 (KIP-98, KIP-467, KIP-951; Kafka's `KafkaApis.handleProduceRequest` and `ReplicaManager`).

Versions 0-2 are advertised but not served, as in Kafka: librdkafka takes their absence for a broker that knows no
compression.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.api.leader_hints import endpoints_of, leader_of
from broker.coordinators.transactional_produce import (
    NO_REFUSALS,
    Append,
    Refusals,
    abilities_of_produce,
    admit,
    new_append,
)
from broker.network.ports import Handler
from broker.network.request import CloseConnectionError
from broker.replication.appends import RecordsAppend, put_error
from broker.replication.batch_checks import (
    distinct,
    malformed,
    transactional_id_of,
)
from broker.request_context import RequestContext
from coordinator.runtime.outcome import new_producer_epoch
from protocol.errors import (
    InvalidPidMapping,
    KafkaError,
    NotLeaderOrFollower,
)
from protocol.produce_fetch.parts import TopicKey
from protocol.produce_fetch.produce_messages import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    decode_request,
    encode_response,
)
from protocol.records.batch import (
    ATTRIBUTES_LOW_AT,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    read_producer,
)

if TYPE_CHECKING:
    from broker.replication.partition import Partition


FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13
ADMIN_CLIENT_ID = "__admin_client"

Topics = list[tuple[TopicKey, list[PartitionProduceResponse]]]
Answer = ProduceResponse | Future[ProduceResponse] | None


def _produce(ctx: RequestContext, request: ProduceRequest) -> Answer | Awaitable[ProduceResponse | None]:
    """Append each partition's batch, and answer once the condition of `acks` holds.

    `acks=0` gets no answer; an error closes its connection, the only sign such a producer can get. If the
    transaction coordinator must be asked first, nothing is appended before it has answered. While a large batch is
    checked in a thread, the connection's next request waits, so that no later batch of its producer overtakes it.
    """
    transactional_id_of(request)
    if request.transactional_id is None:
        appended = _append_all(ctx, request, NO_REFUSALS)
        if not appended.large:
            return _answer(ctx, request, appended)
        ctx.begun = False
        return _when_large_appended(ctx, request, appended)
    admitted = _admission(ctx, request)
    if isinstance(admitted, dict):
        appended = _append_all(ctx, request, admitted)
        if not appended.large:
            return _answer(ctx, request, appended)
        ctx.begun = False
        return _when_large_appended(ctx, request, appended)
    ctx.begun = False
    return _when_admitted(ctx, request, admitted)


def _admission(ctx: RequestContext, request: ProduceRequest) -> Refusals | Awaitable[Refusals]:
    assert request.transactional_id is not None
    appends = list(_transactional(ctx, request))
    return admit(
        ctx.local, ctx.coordinators.transactions, request.transactional_id, appends, abilities_of_produce(ctx.version)
    )


async def _when_admitted(
    ctx: RequestContext, request: ProduceRequest, admitted: Awaitable[Refusals]
) -> ProduceResponse | None:
    return await _when_large_appended(ctx, request, _append_all(ctx, request, await admitted))


async def _when_large_appended(
    ctx: RequestContext, request: ProduceRequest, appended: RecordsAppend
) -> ProduceResponse | None:
    """Append the large batches, one after the other: nothing is awaited between a check of state and the append."""
    admission = None if request.transactional_id is None else partial(_admission, ctx, request)
    await appended.append_large(admission)
    ctx.note_appended()
    answer = _answer(ctx, request, appended)
    return await answer if isinstance(answer, Future) else answer


def _answer(ctx: RequestContext, request: ProduceRequest, appended: RecordsAppend) -> Answer:
    topics = appended.topics
    if request.acks == 0:
        _close_if_refused(topics)
        return None
    response = ProduceResponse(topics)
    if appended.misplaced and ctx.version >= FIRST_VERSION_WITH_LEADERS:
        _tell_leaders(ctx, response)
    if appended.unacknowledged:
        return ctx.replicas.when_committed(appended.unacknowledged, request.timeout_ms, response)
    return response


def _tell_leaders(ctx: RequestContext, response: ProduceResponse) -> None:
    """Name the leaders of the partitions that another node leads."""
    named = []
    for key, answers in response.topics:
        for answer in answers:
            if answer.error_code == NotLeaderOrFollower.code:
                answer.current_leader = leader_of(ctx.image, _topic_name(ctx, key), answer.index)
                named.append(answer.current_leader)
    response.node_endpoints = endpoints_of(ctx.image, named, ctx.connection.listener_name)


def _transactional(ctx: RequestContext, request: ProduceRequest) -> Iterator[Append]:
    """The transactional batches for partitions that are here."""
    for key, partitions in distinct(request):
        for index, records in partitions:
            if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
                continue
            if records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG:
                partition = _partition(ctx, key, index)
                if partition is None or malformed(ctx.version, records):
                    continue  # reported when its append is checked
                producer_id, epoch, sequence = read_producer(records)
                if producer_id <= NO_PRODUCER_ID:
                    continue  # no producer's transaction: Kafka accepts it like any other batch
                yield new_append((partition, new_producer_epoch((producer_id, epoch)), sequence))


def _append_all(ctx: RequestContext, request: ProduceRequest, refusals: Refusals) -> RecordsAppend:
    to_internal = ctx.client_id == ADMIN_CLIENT_ID
    append = RecordsAppend(
        ctx.replicas, ctx.local.metrics, request.acks, ctx.version, ctx.local.clock.wall_ms(), refusals, to_internal
    )
    topics = request.topics
    entries = topics if len(topics) == 1 == len(topics[0][1]) else distinct(request)
    for key, partitions in entries:
        append.append(key, key if key.__class__ is str else _topic_name(ctx, key), partitions)
    return append


def _failed_as_a_whole(ctx: RequestContext, request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition; with acks=0 the connection is closed instead."""
    if request.acks == 0:
        raise CloseConnectionError(f"Produce with acks=0 failed: {error}")
    named: dict[TopicKey, set[int]] = {}
    for key, partitions in request.topics:
        if partitions:
            named.setdefault(key, set()).update(index for index, _ in partitions)
    topics = []
    for key, indexes in named.items():
        answers = [PartitionProduceResponse(index) for index in sorted(indexes)]
        for answer in answers:
            put_error(answer, error)
            if isinstance(error, InvalidPidMapping):
                answer.error_message = error.explicit_message
        topics.append((key, answers))
    return ProduceResponse(topics)


def _topic_name(ctx: RequestContext, key: TopicKey) -> str | None:
    """The topic's name; None if no topic has that id."""
    if isinstance(key, str):
        return key
    topic = ctx.image.topics.by_id(key)
    return None if topic is None else topic.name


def _partition(ctx: RequestContext, key: TopicKey, index: int) -> Partition | None:
    name = _topic_name(ctx, key)
    return None if name is None else ctx.replicas.get(name, index)


def _close_if_refused(topics: Topics) -> None:
    refused = [
        f"{key}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for key, answers in topics
        for answer in answers
        if answer.error_code
    ]
    if refused:
        raise CloseConnectionError(f"Produce with acks=0 failed: {', '.join(refused)}")


produce = Handler(_produce, decode=decode_request, encode=encode_response, failed=_failed_as_a_whole)

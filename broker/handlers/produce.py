"""Produce 3-13 (KIP-98, KIP-467, KIP-951; Kafka's `KafkaApis.handleProduceRequest` and `ReplicaManager`).

Versions 0-2 are advertised but not served, as in Kafka: librdkafka takes their absence for a broker that knows no
compression.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kio.schema.errors import ErrorCode

from broker.coordinators.transactional_produce import (
    NO_REFUSALS,
    Append,
    Refusals,
    abilities_of_produce,
    admit,
    new_append,
)
from broker.network.context import CloseConnectionError, RequestContext
from broker.replicas.delayed_produce import Unacknowledged
from broker.replicas.produced_batches import (
    FIRST_VERSION_WITH_ZSTD,
    NOTHING,
    check_records,
    distinct,
    first_compression,
    malformed,
)
from coordinator.runtime.outcome import new_producer_epoch
from metadata import topic_names
from protocol import errors
from protocol.errors import (
    CorruptMessage,
    InvalidPidMapping,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    KafkaStorage,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    TransactionalIdAuthorization,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from protocol.hot.common import TopicKey
from protocol.hot.produce import (
    BatchIndexAndErrorMessage,
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
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin
from storage.log.record_checks import LargeBatchError
from storage.log.validator import first_batch_size

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from storage.append_types import AppendInfo

decode = decode_request
encode = encode_response

FIRST_VERSION_WITH_TOPIC_IDS = 13
ACKS = (-1, 0, 1)
ADMIN_CLIENT_ID = "__admin_client"
NOT_HERE = (UnknownTopicOrPartition.code, UnknownTopicId.code)
EXPECTED_FAILURES = (NotLeaderOrFollower, MessageTooLarge, RecordBatchTooLarge, CorruptMessage, KafkaStorage)
"""Errors that Kafka neither counts as failed produce requests nor sends with a log start offset."""


Answer = ProduceResponse | Future[ProduceResponse] | None


class Large(NamedTuple):
    """A batch whose check is for a worker thread; `answer` is the partition's."""

    partition: Partition
    records: memoryview
    answer: PartitionProduceResponse


class Appended(NamedTuple):
    """What came of a request's batches: `large` ones have yet to be appended."""

    topics: list[tuple[TopicKey, list[PartitionProduceResponse]]]
    unacknowledged: list[Unacknowledged]
    large: list[Large]


def handle(ctx: RequestContext, request: ProduceRequest) -> Answer | Awaitable[ProduceResponse | None]:
    """Append each partition's batch, and answer once the condition of `acks` holds.

    `acks=0` gets no answer; an error closes its connection, the only sign such a producer can get. If the
    transaction coordinator must be asked first, nothing is appended before it has answered. While a large batch is
    checked in a thread, the connection's next request waits, so that no later batch of its producer overtakes it.
    """
    _check_first_batches(request)
    if ctx.version < FIRST_VERSION_WITH_ZSTD:
        _check_old_compressions(ctx, request)
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
    return admit(ctx.node, request.transactional_id, appends, abilities_of_produce(ctx.version))


async def _when_admitted(
    ctx: RequestContext, request: ProduceRequest, admitted: Awaitable[Refusals]
) -> ProduceResponse | None:
    return await _when_large_appended(ctx, request, _append_all(ctx, request, await admitted))


async def _when_large_appended(
    ctx: RequestContext, request: ProduceRequest, appended: Appended
) -> ProduceResponse | None:
    """Append the large batches, one after the other: nothing is awaited between a check of state and the append."""
    for large in appended.large:
        try:
            await _append_large(ctx, request, large, appended)
        except KafkaError as error:
            _refuse(ctx, large.answer, error)
    answer = _answer(ctx, request, appended)
    return await answer if isinstance(answer, Future) else answer


async def _append_large(ctx: RequestContext, request: ProduceRequest, large: Large, appended: Appended) -> None:
    partition, records, answer = large
    now_ms = ctx.node.clock.wall_ms()
    try:
        validated = await ctx.node.replicas.large_batches.validate(partition, records, now_ms)
        if request.transactional_id is not None and records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG:
            admitted = _admission(ctx, request)  # the transaction may have ended meanwhile
            refusals = admitted if isinstance(admitted, dict) else await admitted
            if partition.key in refusals:
                answer.error_message = refusals[partition.key].explicit_message
                raise refusals[partition.key]
        info = partition.append_validated(validated, now_ms)
    except KafkaError as error:
        _note_failure(ctx, partition, answer, error)
        raise
    _note_append(ctx, partition, answer, info, len(records))
    if partition.flush_gated and request.acks:
        appended.unacknowledged.append(Unacknowledged(partition, partition.log_end_offset, answer))


def _answer(ctx: RequestContext, request: ProduceRequest, appended: Appended) -> Answer:
    topics = appended.topics
    if request.acks == 0:
        _close_if_refused(topics)
        return None
    response = ProduceResponse(topics)
    if appended.unacknowledged:
        return ctx.node.replicas.when_committed(appended.unacknowledged, request.timeout_ms, response)
    return response


def _transactional(ctx: RequestContext, request: ProduceRequest) -> Iterator[Append]:
    """The transactional batches for partitions that are here."""
    for key, partitions in distinct(ctx.version, request):
        for index, records in partitions:
            if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
                continue
            if records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG:
                try:
                    partition = _partition(ctx, key, index)
                    check_records(ctx.version, records)
                except KafkaError:
                    continue  # reported when its append is checked
                producer_id, epoch, sequence = read_producer(records)
                if producer_id <= NO_PRODUCER_ID:
                    continue  # no producer's transaction: Kafka accepts it like any other batch
                yield new_append((partition, new_producer_epoch((producer_id, epoch)), sequence))


def _append_all(ctx: RequestContext, request: ProduceRequest, refusals: Refusals) -> Appended:
    acks = request.acks
    now_ms = ctx.node.clock.wall_ms()
    unacknowledged: list[Unacknowledged] = []
    large: list[Large] = []
    topics: list[tuple[TopicKey, list[PartitionProduceResponse]]] = []
    entries = distinct(ctx.version, request)
    for key, partitions in entries:
        answers: list[PartitionProduceResponse] = []
        for index, records in partitions:
            answer = PartitionProduceResponse(index)
            answers.append(answer)
            try:
                partition = _partition(ctx, key, index)
                if refusals or acks not in ACKS:
                    check_records(ctx.version, records or NOTHING)
                refusal = refusals.get(partition.key) if refusals else None
                if acks not in ACKS and refusal is None:
                    raise InvalidRequiredAcks
                if refusal is not None:
                    answer.error_message = refusal.explicit_message
                    raise refusal
                _append_at_once(ctx, partition, records, answer, now_ms)
            except LargeBatchError:
                large.append(Large(partition, records or NOTHING, answer))
                continue
            except KafkaError as error:
                _refuse(ctx, answer, error)
                continue
            if partition.flush_gated and acks:
                unacknowledged.append(Unacknowledged(partition, partition.log_end_offset, answer))
        topics.append((key, answers))
    if entries is not request.topics:
        _refuse_malformed(ctx, request, topics)
    return Appended(topics, unacknowledged, large)


def error_response(ctx: RequestContext, request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition; with acks=0 the connection is closed instead."""
    if request.acks == 0:
        raise CloseConnectionError(f"Produce with acks=0 failed: {error}")
    topics = []
    for key, partitions in distinct(ctx.version, request):
        answers = [PartitionProduceResponse(index) for index in sorted(index for index, _ in partitions)]
        for answer in answers:
            _tell(answer, error)
            if isinstance(error, InvalidPidMapping):
                answer.error_message = error.explicit_message
        topics.append((key, answers))
    return ProduceResponse(topics)


def _check_first_batches(request: ProduceRequest) -> None:
    """Check what fails the request as a whole, before any partition is looked at.

    Raises CorruptMessage if a partition's data starts with what cannot be a batch, TransactionalIdAuthorization if a
    batch is transactional and the request names no transactional id.
    """
    for _, partitions in request.topics:
        for _, records in partitions:
            if records is None or not first_batch_size(records):
                continue
            if records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG and records[MAGIC_AT] == MAGIC:
                if request.transactional_id is None:
                    raise TransactionalIdAuthorization
                return  # Kafka looks for one such batch, and for nothing after it


def _check_old_compressions(ctx: RequestContext, request: ProduceRequest) -> None:
    """Fail on unknown compressions, as Kafka does before version 7, where it looks for zstd in all partitions first."""
    for key, partitions in request.topics:
        for index, records in partitions:
            try:
                _partition(ctx, key, index)
                codec = 0 if records is None else first_compression(records)
            except KafkaError:
                continue  # reported for that partition alone
            if codec > Compression.ZSTD:
                raise UnknownServerError


def _refuse_malformed(
    ctx: RequestContext, request: ProduceRequest, topics: list[tuple[TopicKey, list[PartitionProduceResponse]]]
) -> None:
    """Of several entries for a partition, answer the error of the last malformed one, also if another was appended."""
    if sum(len(partitions) for _, partitions in request.topics) == sum(len(answers) for _, answers in topics):
        return
    entries: dict[tuple[TopicKey, int], list[memoryview | None]] = {}
    for key, partitions in request.topics:
        for index, records in partitions:
            entries.setdefault((key, index), []).append(records)
    for key, answers in topics:
        for place, answer in enumerate(answers):
            several = entries[key, answer.index]
            faults = [fault for records in several if (fault := malformed(ctx.version, records))]
            if len(several) > 1 and faults and answer.error_code not in NOT_HERE:
                answers[place] = PartitionProduceResponse(answer.index)
                _refuse(ctx, answers[place], faults[-1])


def _partition(ctx: RequestContext, key: TopicKey, index: int) -> Partition:
    if isinstance(key, str):
        name = key
    else:
        topic = ctx.image.topics.by_id(key)
        if topic is None:
            raise UnknownTopicId
        name = topic.name
    partition = ctx.node.replicas.get(name, index)
    if partition is None:
        raise UnknownTopicOrPartition
    return partition


def _append_at_once(
    ctx: RequestContext,
    partition: Partition,
    records: memoryview | None,
    answer: PartitionProduceResponse,
    now_ms: int,
) -> None:
    """Raises LargeBatchError for a batch that must be checked elsewhere."""
    if records is None:
        records = NOTHING  # Kafka never answers this; here it is refused like data without a batch
    if ctx.version < FIRST_VERSION_WITH_ZSTD:  # there Kafka looks at the data before anything else
        check_records(ctx.version, records)
    if topic_names.is_internal(partition.topic) and ctx.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopic(f"Cannot append to internal topic {partition.topic}")
    try:
        info = partition.append(records, AppendOrigin.CLIENT, now_ms, at_once=True)
    except KafkaError as error:
        _note_failure(ctx, partition, answer, error)
        raise
    _note_append(ctx, partition, answer, info, len(records))


def _note_append(
    ctx: RequestContext, partition: Partition, answer: PartitionProduceResponse, info: AppendInfo, size: int
) -> None:
    """Tell of an append; `size` is that of the batch as it came."""
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time
    answer.log_start_offset = info.log_start_offset
    ctx.node.metrics.produced(partition.topic, info.last_offset - info.first_offset + 1, size)


def _note_failure(
    ctx: RequestContext, partition: Partition, answer: PartitionProduceResponse, error: KafkaError
) -> None:
    seen_in_request = isinstance(error, errors.RecordError) and error.in_request
    if not seen_in_request and not isinstance(error, EXPECTED_FAILURES):
        answer.log_start_offset = partition.log_start_offset
        ctx.node.metrics.produce_failed(partition.topic)


def _refuse(ctx: RequestContext, answer: PartitionProduceResponse, error: KafkaError) -> None:
    _tell(answer, error)
    ctx.node.metrics.request_error("produce", error.code)


def _tell(answer: PartitionProduceResponse, error: KafkaError) -> None:
    answer.error_code = int(error.code)
    if isinstance(error, errors.RecordError):
        answer.error_message = error.message if error.on_wire else None
        answer.record_errors = tuple(BatchIndexAndErrorMessage(*one) for one in error.record_errors)


def _close_if_refused(topics: list[tuple[TopicKey, list[PartitionProduceResponse]]]) -> None:
    refused = [
        f"{key}-{answer.index}: {ErrorCode(answer.error_code).name}"
        for key, answers in topics
        for answer in answers
        if answer.error_code
    ]
    if refused:
        raise CloseConnectionError(f"Produce with acks=0 failed: {', '.join(refused)}")

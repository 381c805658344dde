"""Produce 3-13 (KIP-98, KIP-467, KIP-951; Kafka's `KafkaApis.handleProduceRequest` and `ReplicaManager`).

Versions 0-2 are advertised but not served, as in Kafka: librdkafka takes their absence for a broker that knows no
compression.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.coordinators.transactional_produce import (
    NO_REFUSALS,
    Append,
    Refusals,
    abilities_of_produce,
    admit,
    new_append,
)
from broker.metadata import topic_names
from broker.network.context import CloseConnectionError, RequestContext
from broker.partitions.delayed_produce import Unacknowledged
from coordinator.runtime.outcome import new_producer_epoch
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
    UnsupportedCompressionType,
)
from protocol.hot.common import TopicKey
from protocol.hot.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    PartitionRecords,
    ProduceRequest,
    ProduceResponse,
    decode_request,
    encode_response,
)
from protocol.records.batch import (
    ATTRIBUTES_LOW_AT,
    COMPRESSION_MASK,
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_FLAG,
    read_producer,
)
from protocol.records.compression import Compression
from storage.append_types import AppendOrigin
from storage.log.validator import first_batch_size, single_batch_size

if TYPE_CHECKING:
    from broker.partitions.partition import Partition

decode = decode_request
encode = encode_response

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
ACKS = (-1, 0, 1)
ADMIN_CLIENT_ID = "__admin_client"
NOTHING = memoryview(b"")
NOT_HERE = (UnknownTopicOrPartition.code, UnknownTopicId.code)
EXPECTED_FAILURES = (NotLeaderOrFollower, MessageTooLarge, RecordBatchTooLarge, CorruptMessage, KafkaStorage)
"""Errors that Kafka neither counts as failed produce requests nor sends with a log start offset."""


def handle(
    ctx: RequestContext, request: ProduceRequest
) -> ProduceResponse | Future[ProduceResponse] | Awaitable[ProduceResponse | None] | None:
    """Append each partition's batch, and answer once the condition of `acks` holds.

    `acks=0` gets no answer; an error closes its connection, the only sign such a producer can get. If the
    transaction coordinator must be asked first, nothing is appended before it has answered.
    """
    _check_first_batches(request)
    if ctx.version < FIRST_VERSION_WITH_ZSTD:
        _check_old_compressions(ctx, request)
    if request.transactional_id is None:
        return _append_all(ctx, request, NO_REFUSALS)
    appends = list(_transactional(ctx, request))
    admitted = admit(ctx.node, request.transactional_id, appends, abilities_of_produce(ctx.version))
    if isinstance(admitted, dict):
        return _append_all(ctx, request, admitted)
    ctx.begun = False
    return _when_admitted(ctx, request, admitted)


async def _when_admitted(
    ctx: RequestContext, request: ProduceRequest, admitted: Awaitable[Refusals]
) -> ProduceResponse | None:
    answer = _append_all(ctx, request, await admitted)
    return await answer if isinstance(answer, Future) else answer


def _transactional(ctx: RequestContext, request: ProduceRequest) -> Iterator[Append]:
    """The transactional batches for partitions that are here."""
    for key, partitions in _distinct(ctx.version, request):
        for index, records in partitions:
            if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
                continue
            if records[ATTRIBUTES_LOW_AT] & TRANSACTIONAL_FLAG:
                try:
                    partition = _partition(ctx, key, index)
                    _check_records(ctx.version, records)
                except KafkaError:
                    continue  # reported when its append is checked
                producer_id, epoch, sequence = read_producer(records)
                if producer_id <= NO_PRODUCER_ID:
                    continue  # no producer's transaction: Kafka accepts it like any other batch
                yield new_append((partition, new_producer_epoch((producer_id, epoch)), sequence))


def _append_all(
    ctx: RequestContext, request: ProduceRequest, refusals: Refusals
) -> ProduceResponse | Future[ProduceResponse] | None:
    acks = request.acks
    now_ms = ctx.node.clock.wall_ms()
    unacknowledged: list[Unacknowledged] = []
    topics: list[tuple[TopicKey, list[PartitionProduceResponse]]] = []
    distinct = _distinct(ctx.version, request)
    for key, partitions in distinct:
        answers: list[PartitionProduceResponse] = []
        for index, records in partitions:
            answer = PartitionProduceResponse(index)
            answers.append(answer)
            try:
                partition = _partition(ctx, key, index)
                if refusals or acks not in ACKS:
                    _check_records(ctx.version, records or NOTHING)
                refusal = refusals.get(partition.key) if refusals else None
                if acks not in ACKS and refusal is None:
                    raise InvalidRequiredAcks
                if refusal is not None:
                    answer.error_message = refusal.explicit_message
                    raise refusal
                _append(ctx, partition, records, answer, now_ms)
            except KafkaError as error:
                _refuse(ctx, answer, error)
                continue
            if partition.flush_gated and acks:
                unacknowledged.append(Unacknowledged(partition, partition.log_end_offset, answer))
        topics.append((key, answers))
    if distinct is not request.topics:
        _refuse_malformed(ctx, request, topics)
    if acks == 0:
        _close_if_refused(topics)
        return None
    response = ProduceResponse(topics)
    if unacknowledged:
        return ctx.node.delayed_produce.wait(unacknowledged, request.timeout_ms, response)
    return response


def error_response(ctx: RequestContext, request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The same error for every partition; with acks=0 the connection is closed instead."""
    if request.acks == 0:
        raise CloseConnectionError(f"Produce with acks=0 failed: {error}")
    topics = []
    for key, partitions in _distinct(ctx.version, request):
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
                codec = 0 if records is None else _first_compression(records)
            except KafkaError:
                continue  # reported for that partition alone
            if codec > Compression.ZSTD:
                raise UnknownServerError


def _first_compression(records: memoryview) -> int:
    """The codec's id in the first whole batch of magic 2; 0 without one."""
    if first_batch_size(records) and records[MAGIC_AT] == MAGIC:
        return records[ATTRIBUTES_LOW_AT] & COMPRESSION_MASK
    return 0


def _check_records(version: int, records: memoryview) -> None:
    """Check one partition's data by itself. A log would refuse it as well, except for zstd.

    Raises UnsupportedCompressionType for zstd in a version that does not have it, and what `single_batch_size` does.
    """
    if version < FIRST_VERSION_WITH_ZSTD and _first_compression(records) == Compression.ZSTD:
        raise UnsupportedCompressionType
    single_batch_size(records)


def _malformed(version: int, records: memoryview | None) -> KafkaError | None:
    try:
        _check_records(version, records or NOTHING)
    except KafkaError as error:
        return error
    return None


def _distinct(version: int, request: ProduceRequest) -> list[tuple[TopicKey, list[PartitionRecords]]]:
    """The request's partitions; of several entries for one, the last that is well formed counts, as in Kafka."""
    topics = request.topics
    if len(topics) == 1 and 0 < len(topics[0][1]) == len(dict(topics[0][1])):
        return topics
    merged: dict[TopicKey, dict[int, memoryview | None]] = {}
    for key, partitions in topics:
        known = merged.setdefault(key, {}) if partitions else {}
        for index, records in partitions:
            if index not in known or _malformed(version, known[index]) or not _malformed(version, records):
                known[index] = records
    return [(key, list(partitions.items())) for key, partitions in merged.items()]


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
            faults = [fault for records in several if (fault := _malformed(ctx.version, records))]
            if len(several) > 1 and faults and answer.error_code not in NOT_HERE:
                answers[place] = PartitionProduceResponse(answer.index)
                _refuse(ctx, answers[place], faults[-1])


def _partition(ctx: RequestContext, key: TopicKey, index: int) -> Partition:
    if isinstance(key, str):
        name = key
    else:
        topic = ctx.node.topics.by_id(key)
        if topic is None:
            raise UnknownTopicId
        name = topic.name
    partition = ctx.node.partitions.get(name, index)
    if partition is None:
        raise UnknownTopicOrPartition
    return partition


def _append(
    ctx: RequestContext,
    partition: Partition,
    records: memoryview | None,
    answer: PartitionProduceResponse,
    now_ms: int,
) -> None:
    if records is None:
        records = NOTHING  # Kafka never answers this; here it is refused like data without a batch
    if ctx.version < FIRST_VERSION_WITH_ZSTD:  # there Kafka looks at the data before anything else
        _check_records(ctx.version, records)
    if topic_names.is_internal(partition.topic) and ctx.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopic(f"Cannot append to internal topic {partition.topic}")
    try:
        info = partition.append(records, AppendOrigin.CLIENT, now_ms)
    except KafkaError as error:
        seen_in_request = isinstance(error, errors.RecordError) and error.in_request
        if not seen_in_request and not isinstance(error, EXPECTED_FAILURES):
            answer.log_start_offset = partition.log_start_offset
            ctx.node.metrics.produce_failed(partition.topic)
        raise
    answer.base_offset = info.first_offset
    answer.log_append_time_ms = info.log_append_time
    answer.log_start_offset = info.log_start_offset
    ctx.node.metrics.produced(partition.topic, info.last_offset - info.first_offset + 1, len(records))


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

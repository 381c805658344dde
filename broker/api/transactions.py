"""The requests of a transactional producer, after InitProducerId.

AddPartitionsToTxn 0-5 (KIP-98, KIP-890; Kafka's `KafkaApis.handleAddPartitionsToTxnRequest`).

Versions 0-3 are sent by clients, for one transaction. Versions 4 and 5 are sent between brokers: several transactions,
to which partitions are to be added, or only verified.

Deviation: Kafka never answers a request of version 4 or 5 without transactions; here it gets INVALID_REQUEST.

AddOffsetsToTxn 0-4 (KIP-98): adds a group's partition of `__consumer_offsets` to a transaction.

TxnOffsetCommit 0-6 (KIP-98, KIP-447, KIP-890; Kafka's `KafkaApis.handleTxnOffsetCommitRequest`).

The offsets wait in the group's shard until the transaction ends. From version 5 on, the commit itself adds the group's
partition to the transaction; before, AddOffsetsToTxn must have done so.

EndTxn 0-5 (KIP-98, KIP-890; Kafka's `KafkaApis.handleEndTxnRequest`).

Answered once the decision is committed; the partitions' markers follow. From version 5 on the answer contains the
producer id and the bumped epoch of the next transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from inspect import isawaitable
from operator import attrgetter
from typing import Any, NamedTuple

from kio.schema.add_offsets_to_txn.v4 import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v5 import AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.end_txn.v5 import EndTxnRequest, EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition

from broker.coordinators.offset_commits import Refused, answered, failed, response_of, split
from broker.coordinators.transactional_produce import Append, ClientAbilities, Refusals, admit
from broker.network.answers import when_all_settled, when_done
from broker.network.ports import Handler
from broker.replication.partition import Partition, Role
from broker.request_context import RequestContext
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from coordinator.runtime.outcome import ProducerEpoch
from coordinator.runtime.replies import client_error
from coordinator.transaction.transaction_metadata import TV_0, TV_2
from metadata.acls import AclOperation, ResourceType
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME, is_internal
from protocol.api.messages import decode_request
from protocol.api.table import API_BY_NAME
from protocol.durations import ZERO
from protocol.errors import (
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    UnsupportedVersion,
)
from protocol.newer.txn_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.batch import NO_SEQUENCE
from protocol.schema import maker
from protocol.topic_partition import PartitionKey

API = API_BY_NAME["add_partitions_to_txn"]
FIRST_VERSION_BETWEEN_BROKERS = 4

Codes = dict[PartitionKey, ErrorCode]


@dataclass(frozen=True, slots=True)
class OneTransaction:
    """The response of versions 0-3."""

    throttle_time: timedelta
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]


AddPartitionsAnswer = AddPartitionsToTxnResponse | OneTransaction


class Wanted(NamedTuple):
    """One transaction of the request; `partitions` are those of `topics`, without repetitions."""

    transactional_id: str
    producer: ProducerEpoch
    topics: Sequence[Any]
    partitions: tuple[PartitionKey, ...]
    verify_only: bool = False

    def all(self, code: ErrorCode) -> Codes:
        return dict.fromkeys(self.partitions, code)


new_topic_result = maker(AddPartitionsToTxnTopicResult)


def _decode(version: int, frame: memoryview, pos: int) -> Any:
    """The request in its own version's class: clients' and brokers' versions have little in common."""
    return decode_request(API, version, bytes(frame[pos:]))


def _add_partitions_to_txn(ctx: RequestContext, request: Any) -> AddPartitionsAnswer | Awaitable[AddPartitionsAnswer]:
    wanted = _wanted(ctx, request)
    if not wanted:
        raise InvalidRequest
    codes = [_refused(ctx, transaction) for transaction in wanted]
    asked = [transaction for transaction, refused in zip(wanted, codes, strict=True) if not refused]
    futures = [_ask(ctx, transaction) for transaction in asked]

    def answer(results: Sequence[Any]) -> AddPartitionsAnswer:
        settled = iter([_codes(ctx, one, result) for one, result in zip(asked, results, strict=True)])
        return _add_partitions_response(ctx, wanted, [refused or next(settled) for refused in codes])

    return when_all_settled(futures, answer)


def _wanted(ctx: RequestContext, request: Any) -> list[Wanted]:
    if ctx.version >= FIRST_VERSION_BETWEEN_BROKERS:
        return [
            Wanted(
                transaction.transactional_id,
                ProducerEpoch(transaction.producer_id, transaction.producer_epoch),
                transaction.topics,
                _partitions(transaction.topics),
                transaction.verify_only,
            )
            for transaction in request.transactions
        ]
    producer = ProducerEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    topics = request.v3_and_below_topics
    return [Wanted(request.v3_and_below_transactional_id, producer, topics, _partitions(topics))]


def _partitions(topics: Sequence[Any]) -> tuple[PartitionKey, ...]:
    return tuple(dict.fromkeys([(topic.name, index) for topic in topics for index in topic.partitions]))


def _refused(ctx: RequestContext, wanted: Wanted) -> Codes | None:
    """The answer if a partition is unknown, or forbidden to the client: then nothing is added."""
    topics, of_client = ctx.image.topics, ctx.version < FIRST_VERSION_BETWEEN_BROKERS
    if of_client and not ctx.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, wanted.transactional_id):
        return wanted.all(ErrorCode.transactional_id_authorization_failed)
    refused: Codes = {}
    for partition in wanted.partitions:
        if of_client and (
            is_internal(partition[0]) or not ctx.allows(AclOperation.WRITE, ResourceType.TOPIC, partition[0])
        ):
            refused[partition] = ErrorCode.topic_authorization_failed
        elif (known := topics.get(partition[0])) is None or partition[1] not in known.partitions:
            refused[partition] = ErrorCode.unknown_topic_or_partition
    if refused:
        return wanted.all(ErrorCode.operation_not_attempted) | refused
    return None if wanted.transactional_id else wanted.all(ErrorCode.invalid_request) or None


def _ask(ctx: RequestContext, wanted: Wanted) -> Any:
    coordinator = ctx.coordinators.transactions
    if wanted.verify_only:
        return coordinator.read(
            wanted.transactional_id,
            lambda state: state.verify_partitions(wanted.transactional_id, wanted.producer, wanted.partitions),
        )
    client_version = TV_0 if ctx.version < FIRST_VERSION_BETWEEN_BROKERS else TV_2
    return coordinator.write(
        wanted.transactional_id,
        lambda state: state.add_partitions(wanted.transactional_id, wanted.producer, wanted.partitions, client_version),
    )


def _codes(ctx: RequestContext, wanted: Wanted, result: Any) -> Codes:
    if isinstance(result, UnsupportedVersion):
        raise result  # this fails the whole request in Kafka
    if isinstance(result, KafkaError):
        return wanted.all(API.known_error(ctx.version, result).code)
    codes = wanted.all(ErrorCode.none)
    if wanted.verify_only:
        codes |= {
            partition: ErrorCode.transaction_abortable for partition in wanted.partitions if partition not in result
        }
    return codes


def _add_partitions_response(
    ctx: RequestContext, wanted: Sequence[Wanted], codes: Sequence[Codes]
) -> AddPartitionsAnswer:
    if ctx.version < FIRST_VERSION_BETWEEN_BROKERS:
        return OneTransaction(ZERO, _topics(wanted[0], codes[0]))
    return AddPartitionsToTxnResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=_topics(one, found))
            for one, found in zip(wanted, codes, strict=True)
        ),
    )


_NAME_AND_PARTITIONS = attrgetter("name", "partitions")


def _topics(wanted: Wanted, codes: Codes) -> tuple[AddPartitionsToTxnTopicResult, ...]:
    """The topics as the request names them, including repetitions; where it only verifies, each partition once."""
    named: Iterable[tuple[str, Sequence[int]]] = map(_NAME_AND_PARTITIONS, wanted.topics)
    if wanted.verify_only:
        once: dict[str, list[int]] = {}
        for name, index in codes:
            once.setdefault(name, []).append(index)
        named = once.items()
    return tuple(
        new_topic_result(
            name=name, results_by_partition=tuple([_partition(index, codes[name, index]) for index in indexes])
        )
        for name, indexes in named
    )


@lru_cache(maxsize=1024)  # always the same few
def _partition(index: int, code: ErrorCode) -> AddPartitionsToTxnPartitionResult:
    return AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)


add_partitions_to_txn = Handler(_add_partitions_to_txn, decode=_decode)


AddOffsetsAnswer = AddOffsetsToTxnResponse

new_add_offsets_response = maker(AddOffsetsToTxnResponse)


def add_offsets_to_txn(
    ctx: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsAnswer | Awaitable[AddOffsetsAnswer]:
    if not request.transactional_id:
        raise InvalidRequest
    partition = (GROUP_METADATA_TOPIC_NAME, ctx.coordinators.groups.partition_for(request.group_id))
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    answer = ctx.coordinators.transactions.write(
        request.transactional_id,
        lambda state: state.add_partitions(request.transactional_id, producer, (partition,), TV_0),
    )
    return when_done(answer, lambda _: new_add_offsets_response(throttle_time=ZERO, error_code=ErrorCode.none))


FIRST_VERSION_WITH_TRANSACTION_ABORTABLE = 4
FIRST_VERSION_OF_TRANSACTIONS_V2 = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6

TxnCommitAnswer = TxnOffsetCommitResponse

_txn_commit_response = response_of(
    maker(TxnOffsetCommitResponse), TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition
)


def _txn_offset_commit(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> TxnCommitAnswer | Awaitable[TxnCommitAnswer]:
    offsets, refused = _split(ctx, request)
    if not offsets:
        return _txn_commit_response(answered(request.topics, refused, ()))
    if not request.group_id:
        raise InvalidGroupId
    partition = _groups_partition(ctx, request.group_id)
    abilities = ClientAbilities(
        ctx.version >= FIRST_VERSION_OF_TRANSACTIONS_V2,
        ctx.version >= FIRST_VERSION_WITH_TRANSACTION_ABORTABLE,
        knows_concurrent=True,
    )
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    admitted = admit(
        ctx.local,
        ctx.coordinators.transactions,
        request.transactional_id,
        [Append(partition, producer, NO_SEQUENCE)],
        abilities,
    )
    if isawaitable(admitted):
        return _when_admitted(ctx, request, offsets, refused, admitted)
    return _commit(ctx, request, offsets, refused, admitted)


def _split(ctx: RequestContext, request: TxnOffsetCommitRequest) -> tuple[list[OffsetToCommit], Refused]:
    return split(ctx.image.topics, request.topics, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS)


def _groups_partition(ctx: RequestContext, group_id: str) -> Partition:
    index = ctx.coordinators.groups.partition_for(group_id)
    partition = ctx.replicas.get(GROUP_METADATA_TOPIC_NAME, index)
    if partition is None:
        raise CoordinatorNotAvailable  # as in Kafka, to which the partition is unknown
    if partition.role is not Role.LEADER:
        raise NotCoordinator
    return partition


async def _when_admitted(
    ctx: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: list[OffsetToCommit],
    refused: Refused,
    admitted: Awaitable[Refusals],
) -> TxnCommitAnswer:
    answer = _commit(ctx, request, offsets, refused, await admitted)
    return answer if isinstance(answer, TxnOffsetCommitResponse) else await answer


def _commit(
    ctx: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: list[OffsetToCommit],
    refused: Refused,
    refusals: Refusals,
) -> TxnCommitAnswer | Awaitable[TxnCommitAnswer]:
    for error in refusals.values():
        raise client_error(error)
    commit = Commit(
        group_id=request.group_id,
        offsets=offsets,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id,
        knows_member_epochs=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS,
        transaction=ProducerEpoch(request.producer_id, request.producer_epoch),
    )
    answer = ctx.coordinators.groups.write(request.group_id, lambda state: state.offsets.commit(commit))
    return when_done(
        answer, lambda codes: _txn_commit_response(answered(request.topics, refused, zip(offsets, codes, strict=True)))
    )


def _failed_as_a_whole(ctx: RequestContext, request: TxnOffsetCommitRequest, error: KafkaError) -> TxnCommitAnswer:
    return _txn_commit_response(
        failed(ctx.image.topics, request.topics, error, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS)
    )


txn_offset_commit = Handler(_txn_offset_commit, failed=_failed_as_a_whole)


new_end_txn_response = maker(EndTxnResponse)


def end_txn(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    if not request.transactional_id:
        raise InvalidRequest
    client_version = TV_2 if ctx.version >= FIRST_VERSION_OF_TRANSACTIONS_V2 else TV_0
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    answer = ctx.coordinators.transactions.write(
        request.transactional_id,
        lambda state: state.end_transaction(request.transactional_id, producer, request.committed, client_version),
    )
    return when_done(answer, _end_txn_response)


def _end_txn_response(producer: ProducerEpoch) -> EndTxnResponse:
    return new_end_txn_response(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )

"""TxnOffsetCommit 0-6 (KIP-98, KIP-447, KIP-890; Kafka's `KafkaApis.handleTxnOffsetCommitRequest`).

The offsets wait in the group's shard until the transaction ends. From version 5 on, the commit itself adds the group's
partition to the transaction; before, AddOffsetsToTxn must have done so.
"""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from kio.schema.txn_offset_commit.v5.response import TxnOffsetCommitResponsePartition

from broker.coordinators.offset_commits import Refused, answered, failed, response_of, split
from broker.coordinators.transactional_produce import Append, ClientAbilities, Refusals, admit
from broker.network.answers import when_done
from broker.network.handler import Handler
from broker.replicas.partition import Partition, Role
from broker.request_context import RequestContext
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from coordinator.runtime import errors
from coordinator.runtime.outcome import ProducerEpoch
from metadata.topic_names import GROUP_METADATA_TOPIC_NAME
from protocol.entities import maker
from protocol.errors import CoordinatorNotAvailable, InvalidGroupId, KafkaError, NotCoordinator
from protocol.newer.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from protocol.records.batch import NO_SEQUENCE

FIRST_VERSION_WITH_TRANSACTION_ABORTABLE = 4
FIRST_VERSION_OF_TRANSACTIONS_V2 = 5
FIRST_VERSION_WITH_TOPIC_IDS = 6

Answer = TxnOffsetCommitResponse

_response = response_of(maker(TxnOffsetCommitResponse), TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition)


def _txn_offset_commit(ctx: RequestContext, request: TxnOffsetCommitRequest) -> Answer | Awaitable[Answer]:
    offsets, refused = _split(ctx, request)
    if not offsets:
        return _response(answered(request.topics, refused, ()))
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
) -> Answer:
    answer = _commit(ctx, request, offsets, refused, await admitted)
    return answer if isinstance(answer, TxnOffsetCommitResponse) else await answer


def _commit(
    ctx: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: list[OffsetToCommit],
    refused: Refused,
    refusals: Refusals,
) -> Answer | Awaitable[Answer]:
    for error in refusals.values():
        raise errors.translate(error)
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
        answer, lambda codes: _response(answered(request.topics, refused, zip(offsets, codes, strict=True)))
    )


def _failed_as_a_whole(ctx: RequestContext, request: TxnOffsetCommitRequest, error: KafkaError) -> Answer:
    return _response(failed(ctx.image.topics, request.topics, error, by_id=ctx.version >= FIRST_VERSION_WITH_TOPIC_IDS))


txn_offset_commit = Handler(_txn_offset_commit, failed=_failed_as_a_whole)

"""The states of share groups' partitions, for the brokers that lead them (KIP-932; Kafka's `ShareCoordinatorService`).

InitializeShareGroupState 0, ReadShareGroupState 0, ReadShareGroupStateSummary 0-1, WriteShareGroupState 0-1,
DeleteShareGroupState 0. Each asks for partitions of topics, for one group, and only of this node's shards: a state that
another node coordinates is answered with NOT_COORDINATOR, and its leader then looks for the coordinator anew.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from uuid import UUID

from kio.schema.delete_share_group_state.v0 import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0 import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from kio.schema.read_share_group_state.v0 import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from kio.schema.read_share_group_state.v0.response import StateBatch as ReadStateBatch
from kio.schema.read_share_group_state_summary.v1 import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from kio.schema.write_share_group_state.v1 import WriteShareGroupStateRequest, WriteShareGroupStateResponse

from broker.coordinators.share_coordinator import coordinator_key
from broker.request_context import RequestContext
from coordinator.share.share_coordinator_shard import ShareCoordinatorShard, ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue, StateBatch
from protocol.errors import InvalidRequest, KafkaError
from protocol.schema import EntityClass, default_entity, field_plans
from protocol.uuids import ZERO

Ask: TypeAlias = Callable[[ShareCoordinatorShard, SharePartitionKey, Any], Any]
"""What a shard answers for a partition of the request; it raises KafkaError."""


async def initialize_share_group_state(ctx: RequestContext, request: InitializeShareGroupStateRequest) -> Any:
    def ask(state: ShareCoordinatorShard, key: SharePartitionKey, wanted: Any) -> Any:
        return state.initialize(key, wanted.state_epoch, wanted.start_offset)

    return await _answer(ctx, request, InitializeShareGroupStateResponse, ask, allows_empty=True)


async def read_share_group_state(ctx: RequestContext, request: ReadShareGroupStateRequest) -> Any:
    def ask(state: ShareCoordinatorShard, key: SharePartitionKey, wanted: Any) -> Any:
        return state.read(key, wanted.leader_epoch)

    def shown(value: ShareSnapshotValue) -> dict[str, Any]:
        batches = tuple(
            ReadStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in value.batches
        )
        return {"state_epoch": value.state_epoch, "start_offset": value.start_offset, "state_batches": batches}

    return await _answer(ctx, request, ReadShareGroupStateResponse, ask, shown)


NOTHING = ShareSnapshotValue(0, 0, 0, -1, 0, 0, ())


async def read_share_group_state_summary(ctx: RequestContext, request: ReadShareGroupStateSummaryRequest) -> Any:
    def ask(state: ShareCoordinatorShard, key: SharePartitionKey, _wanted: Any) -> Any:
        return state.read_summary(key)

    def shown(value: ShareSnapshotValue | None) -> dict[str, Any]:
        known = value or NOTHING
        return {
            "state_epoch": known.state_epoch,
            "leader_epoch": known.leader_epoch,
            "start_offset": known.start_offset,
            "delivery_complete_count": known.complete_count,
        }

    return await _answer(ctx, request, ReadShareGroupStateSummaryResponse, ask, shown)


async def write_share_group_state(ctx: RequestContext, request: WriteShareGroupStateRequest) -> Any:
    def ask(state: ShareCoordinatorShard, key: SharePartitionKey, wanted: Any) -> Any:
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in wanted.state_batches
        )
        complete = wanted.delivery_complete_count
        write = ShareWrite(wanted.state_epoch, wanted.leader_epoch, wanted.start_offset, batches, complete)
        return state.write(key, write)

    return await _answer(ctx, request, WriteShareGroupStateResponse, ask)


async def delete_share_group_state(ctx: RequestContext, request: DeleteShareGroupStateRequest) -> Any:
    def ask(state: ShareCoordinatorShard, key: SharePartitionKey, _wanted: Any) -> Any:
        return state.delete(key)

    return await _answer(ctx, request, DeleteShareGroupStateResponse, ask)


async def _answer(
    ctx: RequestContext,
    request: Any,
    response: EntityClass,
    ask: Ask,
    shown: Callable[[Any], Mapping[str, Any]] = lambda _: {},
    *,
    allows_empty: bool = False,
) -> Any:
    """The response, with a result for each partition; `shown` are the fields that one without an error has besides.

    Of a partition that is named twice the last answer counts. Without a group, or if a topic is without partitions and
    not `allows_empty`, nothing is asked, as in Kafka.
    """
    of_topic: Any = next(plan.entity for plan in field_plans(response) if plan.name == "results")
    of_partition = next(plan.entity for plan in field_plans(of_topic) if plan.name == "partitions")
    if not request.group_id or not (allows_empty or all(topic.partitions for topic in request.topics)):
        return response(results=())
    wanted = [
        (SharePartitionKey(request.group_id, topic.topic_id or ZERO, partition.partition), partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
    answers = await asyncio.gather(*(_asked(ctx, key, ask, partition) for key, partition in wanted))
    last = {key: answer for (key, _), answer in zip(wanted, answers, strict=True)}
    found: dict[UUID, list[Any]] = {}
    for key, answer in last.items():
        if isinstance(answer, KafkaError):
            fields: Mapping[str, Any] = {"error_code": answer.code, "error_message": answer.message}
        else:
            fields = {"error_code": ErrorCode.none, "error_message": None, **shown(answer)}
        found.setdefault(key.topic_id, []).append(default_entity(of_partition, partition=key.partition, **fields))
    return response(
        results=tuple(of_topic(topic_id=topic_id, partitions=tuple(parts)) for topic_id, parts in found.items())
    )


async def _asked(ctx: RequestContext, key: SharePartitionKey, ask: Ask, wanted: Any) -> Any:
    """What this node's shard answers, or the error."""
    if key.partition < 0:
        return InvalidRequest(f"The partition {key.partition} is negative.")
    answer: Future[Any] = ctx.coordinators.share.write(coordinator_key(key), lambda state: ask(state, key, wanted))
    try:
        return await answer
    except KafkaError as error:
        return error

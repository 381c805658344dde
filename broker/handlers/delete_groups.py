"""DeleteGroups 0-3 (KIP-229; Kafka's `GroupCoordinatorService.deleteGroups`): each group is answered once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from broker.network.answers import when_all_settled
from broker.request_context import RequestContext
from coordinator.group.group_coordinator_shard import GroupCoordinatorShard
from coordinator.runtime.outcome import Outcome
from protocol.durations import ZERO
from protocol.errors import KafkaError
from protocol.newer.delete_groups_v3 import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(ctx: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    coordinator = ctx.coordinators.groups
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(coordinator.partition_for(group_id), []).append(group_id)
    answers = [
        coordinator.runtime.write(partition, _deleting(group_ids)) for partition, group_ids in by_partition.items()
    ]
    return when_all_settled(answers, lambda found: _response(request, list(by_partition.values()), found))


def _deleting(group_ids: Sequence[str]) -> Callable[[GroupCoordinatorShard], Outcome[dict[str, ErrorCode]]]:
    def operation(state: GroupCoordinatorShard) -> Outcome[dict[str, ErrorCode]]:
        found = {group_id: state.groups.share.find(group_id) for group_id in group_ids}
        states = {group_id: [*group.states()] for group_id, group in found.items() if group is not None}
        outcome = state.offsets.delete_groups(group_ids)
        codes, effects = outcome.reply, outcome.effects
        assert isinstance(codes, dict)

        def forget_states(error: KafkaError | None) -> None:
            if effects is not None:
                effects(error)
            for group_id, topics in states.items():
                if error is None and codes[group_id] is ErrorCode.none:
                    state.groups.share.state.delete(group_id, {key: topic.partitions for key, topic in topics})

        return outcome._replace(effects=forget_states) if states else outcome

    return operation


def _response(
    request: DeleteGroupsRequest,
    asked: Sequence[Sequence[str]],
    found: Sequence[Mapping[str, ErrorCode] | KafkaError],
) -> DeleteGroupsResponse:
    codes: dict[str, ErrorCode] = {}
    for group_ids, result in zip(asked, found, strict=True):
        codes |= dict.fromkeys(group_ids, result.code) if isinstance(result, KafkaError) else result
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, codes[group_id]) for group_id in dict.fromkeys(request.groups_names)),
    )


def _result(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=code, error_message=None)  # as in Kafka: only the code


def error_response(ctx: RequestContext, request: DeleteGroupsRequest, error: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time=ZERO,
        results=tuple(_result(group_id, error.code) for group_id in dict.fromkeys(request.groups_names)),
    )

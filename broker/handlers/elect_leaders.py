"""ElectLeaders 0-2 (KIP-183, KIP-460), decided by `controller.elections`."""

from __future__ import annotations

from kio.schema.elect_leaders.v2 import ElectLeadersRequest, ElectLeadersResponse
from kio.schema.elect_leaders.v2.response import ReplicaElectionResult

from broker.membership.controller_port import decided_elsewhere
from broker.request_context import RequestContext
from controller.elections import Elections, result
from protocol.durations import ZERO
from protocol.errors import KafkaError


async def handle(ctx: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    controller = ctx.controller
    if controller.is_elsewhere:
        return await controller.submit(decided_elsewhere, ctx)
    elections = Elections(request, controller.around)
    while await controller.submit(elections.step):
        pass
    return elections.response


def error_response(_ctx: RequestContext, request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        throttle_time=ZERO,
        error_code=error.code,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=wanted.topic, partition_result=tuple(result(index, error) for index in wanted.partitions)
            )
            for wanted in request.topic_partitions or ()
        ),
    )

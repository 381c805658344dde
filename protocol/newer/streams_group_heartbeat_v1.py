"""StreamsGroupHeartbeat 1 (KIP-1071, KIP-1331): the answer asks for a description of the topology; lags are longs."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_heartbeat.v0.request import Endpoint, KeyValue, TaskIds, TaskOffset, Topology
from kio.schema.streams_group_heartbeat.v0.response import EndpointToPartitions, Status
from kio.schema.streams_group_heartbeat.v0.response import TaskIds as AssignedTaskIds

from .declare import of, request, response

_UNCHANGED = timedelta(milliseconds=-1)


@request(88, 1)
class StreamsGroupHeartbeatRequest:
    group_id: str = of("string")
    member_id: str = of("string")
    member_epoch: int = of("int32")
    endpoint_information_epoch: int = of("int32")
    instance_id: str | None = of("string", default=None)
    rack_id: str | None = of("string", default=None)
    rebalance_timeout: timedelta = of("timedelta_i32", default=_UNCHANGED)
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: str | None = of("string", default=None)
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: bool = of("bool", default=False)


@response(88, 1)
class StreamsGroupHeartbeatResponse:
    throttle_time: timedelta = of("timedelta_i32")
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)
    member_id: str = of("string")
    member_epoch: int = of("int32")
    heartbeat_interval: timedelta = of("timedelta_i32")
    task_offset_interval: timedelta = of("timedelta_i32")
    acceptable_recovery_offset_lag: int = of("int64")  # version 0 has a shorter one, which is always 0
    status: tuple[Status, ...] | None = None
    active_tasks: tuple[AssignedTaskIds, ...] | None = None
    standby_tasks: tuple[AssignedTaskIds, ...] | None = None
    warmup_tasks: tuple[AssignedTaskIds, ...] | None = None
    topology_description_required: bool = of("bool", default=False)
    endpoint_information_epoch: int = of("int32")
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None


REQUEST, RESPONSE = StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

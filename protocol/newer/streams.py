"""StreamsGroupHeartbeat 1, StreamsGroupDescribe 1 and StreamsGroupTopologyDescriptionUpdate 0 (KIP-1071, KIP-1331).

A member describes the topology of its group when the answer to a heartbeat asks for it; who describes the group gets it
if it asks. Lags are longs from heartbeat 1 on.
"""

from __future__ import annotations

from datetime import timedelta

from kio.schema.streams_group_describe.v0.response import Member
from kio.schema.streams_group_describe.v0.response import Topology as DescribedTopology
from kio.schema.streams_group_heartbeat.v0.request import Endpoint, KeyValue, TaskIds, TaskOffset, Topology
from kio.schema.streams_group_heartbeat.v0.response import EndpointToPartitions, Status
from kio.schema.streams_group_heartbeat.v0.response import TaskIds as AssignedTaskIds

from ..declared import Bool, Int8, Int32, Int64, String
from .declare import ErrorCode, Milliseconds, request, response

# -- StreamsGroupHeartbeat


_UNCHANGED = timedelta(milliseconds=-1)


@request(88, 1)
class StreamsGroupHeartbeatRequest:
    group_id: String
    member_id: String
    member_epoch: Int32
    endpoint_information_epoch: Int32
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout: Milliseconds = _UNCHANGED
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = None
    standby_tasks: tuple[TaskIds, ...] | None = None
    warmup_tasks: tuple[TaskIds, ...] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = None
    task_offsets: tuple[TaskOffset, ...] | None = None
    task_end_offsets: tuple[TaskOffset, ...] | None = None
    shutdown_application: Bool = False


@response(88, 1)
class StreamsGroupHeartbeatResponse:
    throttle_time: Milliseconds
    error_code: ErrorCode
    error_message: String | None = None
    member_id: String
    member_epoch: Int32
    heartbeat_interval: Milliseconds
    task_offset_interval: Milliseconds
    acceptable_recovery_offset_lag: Int64  # version 0 has a shorter one, which is always 0
    status: tuple[Status, ...] | None = None
    active_tasks: tuple[AssignedTaskIds, ...] | None = None
    standby_tasks: tuple[AssignedTaskIds, ...] | None = None
    warmup_tasks: tuple[AssignedTaskIds, ...] | None = None
    topology_description_required: Bool = False
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = None


# -- StreamsGroupDescribe


@request(89, 1)
class StreamsGroupDescribeRequest:
    group_ids: tuple[String, ...] = ()
    include_authorized_operations: Bool = False
    include_topology_description: Bool = False


@response(89, 1, nested=True)
class TopologyDescriptionNode:
    name: String
    node_type: Int8
    source_topics: tuple[String, ...] = ()
    sink_topic: String | None = None
    stores: tuple[String, ...] = ()
    successors: tuple[String, ...] = ()


@response(89, 1, nested=True)
class TopologyDescriptionSubtopology:
    subtopology_id: String
    nodes: tuple[TopologyDescriptionNode, ...]


@response(89, 1, nested=True)
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@response(89, 1, nested=True)
class TopologyDescription:
    subtopologies: tuple[TopologyDescriptionSubtopology, ...]
    global_stores: tuple[TopologyDescriptionGlobalStore, ...]


@response(89, 1, nested=True)
class DescribedGroup:
    error_code: ErrorCode
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    topology: DescribedTopology | None = None
    members: tuple[Member, ...]
    authorized_operations: Int32 = -(1 << 31)
    topology_description: TopologyDescription | None = None
    topology_description_status: Int8 = 0
    assignor_name: String | None = None


@response(89, 1)
class StreamsGroupDescribeResponse:
    throttle_time: Milliseconds
    groups: tuple[DescribedGroup, ...]


# -- StreamsGroupTopologyDescriptionUpdate


@request(93, 0)
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: String
    member_id: String
    topology_epoch: Int32
    topology_description: TopologyDescription


@response(93, 0)
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time: Milliseconds
    error_code: ErrorCode
    error_message: String | None = None

"""StreamsGroupDescribe 1 (KIP-1331): a description of the topology, if the client asks, and the assignor's name."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode
from kio.schema.streams_group_describe.v0.response import Member, Topology

from .declare import of, request, response


@request(89, 1)
class StreamsGroupDescribeRequest:
    group_ids: tuple[str, ...] = of("string", default=())
    include_authorized_operations: bool = of("bool", default=False)
    include_topology_description: bool = of("bool", default=False)


@response(89, 1, nested=True)
class TopologyDescriptionNode:
    name: str = of("string")
    node_type: int = of("int8")
    source_topics: tuple[str, ...] = of("string", default=())
    sink_topic: str | None = of("string", default=None)
    stores: tuple[str, ...] = of("string", default=())
    successors: tuple[str, ...] = of("string", default=())


@response(89, 1, nested=True)
class TopologyDescriptionSubtopology:
    subtopology_id: str = of("string")
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
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)
    group_id: str = of("string")
    group_state: str = of("string")
    group_epoch: int = of("int32")
    assignment_epoch: int = of("int32")
    topology: Topology | None = None
    members: tuple[Member, ...]
    authorized_operations: int = of("int32", default=-(1 << 31))
    topology_description: TopologyDescription | None = None
    topology_description_status: int = of("int8", default=0)
    assignor_name: str | None = of("string", default=None)


@response(89, 1)
class StreamsGroupDescribeResponse:
    throttle_time: timedelta = of("timedelta_i32")
    groups: tuple[DescribedGroup, ...]


REQUEST, RESPONSE = StreamsGroupDescribeRequest, StreamsGroupDescribeResponse

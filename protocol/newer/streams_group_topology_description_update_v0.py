"""StreamsGroupTopologyDescriptionUpdate 0 (KIP-1331): a member describes the topology of its group."""

from __future__ import annotations

from datetime import timedelta

from kio.schema.errors import ErrorCode

from .declare import of, request, response


@request(93, 0, nested=True)
class TopologyDescriptionNode:
    name: str = of("string")
    node_type: int = of("int8")
    source_topics: tuple[str, ...] = of("string", default=())
    sink_topic: str | None = of("string", default=None)
    stores: tuple[str, ...] = of("string", default=())
    successors: tuple[str, ...] = of("string", default=())


@request(93, 0, nested=True)
class TopologyDescriptionSubtopology:
    subtopology_id: str = of("string")
    nodes: tuple[TopologyDescriptionNode, ...]


@request(93, 0, nested=True)
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@request(93, 0, nested=True)
class TopologyDescription:
    subtopologies: tuple[TopologyDescriptionSubtopology, ...]
    global_stores: tuple[TopologyDescriptionGlobalStore, ...]


@request(93, 0)
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: str = of("string")
    member_id: str = of("string")
    topology_epoch: int = of("int32")
    topology_description: TopologyDescription


@response(93, 0)
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time: timedelta = of("timedelta_i32")
    error_code: ErrorCode = of("error_code")
    error_message: str | None = of("string", default=None)


REQUEST, RESPONSE = StreamsGroupTopologyDescriptionUpdateRequest, StreamsGroupTopologyDescriptionUpdateResponse

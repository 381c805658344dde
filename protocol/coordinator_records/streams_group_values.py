"""The keys and values of the records that streams groups write (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TaskIds = Mapping[str, frozenset[int]]
"""Tasks: the partitions by subtopology."""


class StreamsGroupKey(NamedTuple):
    """The group that the record belongs to."""

    group: str


class StreamsMemberKey(NamedTuple):
    """The group and the member that the record belongs to."""

    group: str
    member_id: str


class StreamsGroupMetadataValue(NamedTuple):
    """The group's epoch, and what it was computed from.

    `validated_topology_epoch` is that of the topology whose topics are all there, -1 if they are not.
    `assignment_configs` are the settings of the assignor. The last two are about descriptions of the topology
    (KIP-1331), which this broker does not keep: -1.
    """

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = -1
    assignment_configs: tuple[tuple[str, str], ...] = ()
    stored_description_topology_epoch: int = -1
    failed_description_topology_epoch: int = -1


class Endpoint(NamedTuple):
    """Where a process answers queries from outside."""

    host: str
    port: int


class StreamsGroupMemberMetadataValue(NamedTuple):
    """A member's description of itself; the timeout in ms, the tags in the order of their keys."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[tuple[str, str], ...]


class StreamsGroupTargetAssignmentMetadataValue(NamedTuple):
    """The epoch that the target was made for, and when; 0 if that is not known."""

    assignment_epoch: int
    assigned_ms: int


class Tasks(NamedTuple):
    """The tasks of a member in their three roles."""

    active: TaskIds
    standby: TaskIds
    warmup: TaskIds


class StreamsGroupCurrentMemberAssignmentValue(NamedTuple):
    """What a member has now, and what it must give up.

    `epochs` are, by active task, the epochs at which the member got it: since then it may commit its offsets.
    """

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Tasks
    pending_revocation: Tasks
    epochs: Mapping[tuple[str, int], int]


class TopicInfo(NamedTuple):
    """An internal topic that a topology needs; 0 partitions or replicas if the broker decides."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class CopartitionGroup(NamedTuple):
    """Topics that must have the same number of partitions, as indexes into the lists of their subtopology."""

    source_topics: tuple[int, ...]
    source_topic_regexes: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of a topology that is processed in one task; topics are names."""

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regexes: tuple[str, ...] = ()
    changelogs: tuple[TopicInfo, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(NamedTuple):
    """What the members of the group process."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

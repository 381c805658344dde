"""StreamsGroupHeartbeat as the coordinator sees it. Errors are raised as KafkaErrors; times are in ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.group.streams.configured import InternalTopic, Problem
from coordinator.group.streams.tasks import Task
from protocol.coordinator_records.streams_group_records import Endpoint, StreamsGroupTopologyValue, Tasks

JOINING = 0
LEFT = -1
LEFT_FOR_A_WHILE = -2
UNCHANGED = -1


class StreamsHeartbeat(NamedTuple):
    """A request; None, or UNCHANGED, for what the member reports as unchanged.

    `owned` is None unless the member reports its tasks in every role. `endpoint_epoch` is the last epoch of endpoints
    that it knows. `offsets` and `end_offsets` are those of the changelogs of tasks, summed up, each task once.
    `shuts_down`: all members shall end. `knows_tags`: the version has a status for tags that are missing.
    """

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topology: StreamsGroupTopologyValue | None = None
    owned: Tasks | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    offsets: Sequence[tuple[Task, int]] | None = None
    end_offsets: Sequence[tuple[Task, int]] | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""
    knows_tags: bool = True


class EndpointPartitions(NamedTuple):
    """What a process can be asked for: the partitions of its active tasks, and of the others, by topic."""

    endpoint: Endpoint
    active: Mapping[str, Sequence[int]]
    standby: Mapping[str, Sequence[int]]


class StreamsHeartbeatAnswer(NamedTuple):
    """An answer. `assigned` is None if it is what the member knows, `endpoints` likewise.

    `to_create` are the internal topics that the broker has to make.
    """

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    task_offset_interval_ms: int = 0
    acceptable_recovery_lag: int = -1
    statuses: tuple[Problem, ...] = ()
    assigned: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    to_create: tuple[InternalTopic, ...] = ()

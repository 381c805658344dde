"""The input and output of an assignor (Kafka's GroupSpec and GroupAssignment)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from coordinator.group.consumer.assignment import Partitions

Assign = Callable[["GroupSpec"], Mapping[str, Partitions]]
"""Every member's partitions by member id. Raises PartitionAssignorError."""


class PartitionAssignorError(Exception):
    """The group cannot be assigned; the text says why (Kafka's PartitionAssignorException)."""


class MemberSpec(NamedTuple):
    """A member: the existing topics that it subscribes to, and its part of the current target assignment.

    `topics` are in the iteration order of Java's set of their names. `unknown_topics` counts the names that no topic
    has: Kafka sizes its hash tables for them too, and answers depend on the tables' order. `assigned` has its topics in
    the order of the target assignment's record.
    """

    instance_id: str | None
    rack_id: str | None
    topics: tuple[UUID, ...]
    assigned: Partitions
    unknown_topics: int = 0


class GroupSpec(NamedTuple):
    """A group.

    `members` are in Kafka's order, that of a Java HashMap of their ids. `homogeneous`: all subscribe to the same
    topics. `owners`: by topic id and partition index, the member that has it in the current target assignment.
    `partition_counts`: for every existing topic with subscribers.
    """

    members: Mapping[str, MemberSpec]
    homogeneous: bool
    owners: Mapping[UUID, Mapping[int, str]]
    partition_counts: Mapping[UUID, int]

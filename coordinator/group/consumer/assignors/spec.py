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
    """A member: the existing topics that it subscribes to, by name, and its part of the current target assignment."""

    instance_id: str | None
    topics: tuple[UUID, ...]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group.

    `members` are in the order of their ids. `homogeneous`: all subscribe to the same topics. `owners`: by topic id and
    partition index, the member that has it in the current target assignment. `partition_counts`: for every existing
    topic with subscribers.
    """

    members: Mapping[str, MemberSpec]
    homogeneous: bool
    owners: Mapping[UUID, Mapping[int, str]]
    partition_counts: Mapping[UUID, int]

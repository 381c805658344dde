"""The "uniform" assignor (Kafka's UniformAssignor): shares differ by one partition, where subscriptions allow it."""

from __future__ import annotations

from coordinator.group.consumer.assignment import Partitions
from coordinator.group.consumer.assignors import uniform_heterogeneous, uniform_homogeneous
from coordinator.group.consumer.assignors.spec import GroupSpec


def assign(spec: GroupSpec) -> dict[str, Partitions]:
    """Every member's partitions by member id. Raises PartitionAssignorError."""
    if not spec.members:
        return {}
    if spec.homogeneous:
        return uniform_homogeneous.assign(spec)
    return uniform_heterogeneous.assign(spec)

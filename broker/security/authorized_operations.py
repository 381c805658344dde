"""What a client may do to a resource, as the bit fields of KIP-430."""

from __future__ import annotations

from collections.abc import Iterable

from metadata.acls import AclOperation, ResourceType

UNKNOWN = -(2**31)
"""The value if the request did not ask for it."""

POSSIBLE: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""What can be done to each type of resource that answers tell of (Kafka's `AclEntry.supportedOperations`)."""


def bits(operations: Iterable[AclOperation]) -> int:
    """The bit field with these operations."""
    return sum(1 << operation for operation in operations)


ALL = {resource_type: bits(operations) for resource_type, operations in POSSIBLE.items()}
"""The bit field of a client that may do everything."""

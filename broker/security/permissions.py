"""The permissions of one client, as the authorizer has decided; kept for its connection until the ACLs change.

Answers tell it as bit fields (KIP-430).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from metadata.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from broker.security.authorizer import Authorizer


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


logger = structlog.get_logger(__name__)

MOST_DECISIONS = 4096
LONGEST_NAME = 512
"""A client decides which names it asks for, so it must not decide how much is remembered."""

MOST_LINES = 10
"""Refusals of one connection that are logged, until the ACLs change: a client must not fill the log."""


class Permissions:
    """The permissions of a principal at a host.

    Attributes:
        of: the principal as its connection has it.
        principal: the same as a text, `User:name`.
    """

    __slots__ = (
        "_any",
        "_authorizer",
        "_decisions",
        "_generation",
        "_lines",
        "host",
        "is_super_user",
        "of",
        "principal",
    )

    def __init__(self, authorizer: Authorizer, of: object, host: str) -> None:
        self.of = of
        self.principal = str(of)
        self.host = host
        self.is_super_user = authorizer.is_super_user(self.principal)
        self._authorizer = authorizer
        self._forget()

    def _forget(self) -> None:
        self._generation = self._authorizer.generation
        self._decisions: dict[tuple[AclOperation, ResourceType, str], bool] = {}
        self._any: dict[tuple[AclOperation, ResourceType], bool] = {}
        self._lines = 0

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, log_denied: bool = True
    ) -> bool:
        """Whether the client may do this to this resource."""
        if self.is_super_user:
            return True
        if self._generation != self._authorizer.generation:
            self._forget()
        key = (operation, resource_type, name)
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= MOST_DECISIONS:
                self._decisions.clear()
            known = self._authorizer.allows(self.principal, self.host, operation, resource_type, name)
            if len(name) <= LONGEST_NAME:
                self._decisions[key] = known
            if not known and log_denied:
                self._log(operation, resource_type, name)
        return known

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether the client may do this to some resource of the type."""
        if self.is_super_user:
            return True
        if self._generation != self._authorizer.generation:
            self._forget()
        key = (operation, resource_type)
        known = self._any.get(key)
        if known is None:
            known = self._any[key] = self._authorizer.allows_any(self.principal, self.host, operation, resource_type)
        return known

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """All that the client may do to a resource, as a bit field."""
        possible = POSSIBLE[resource_type]
        return bits(each for each in possible if self.allows(each, resource_type, name, log_denied=False))

    def _log(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        self._lines += 1
        if self._lines <= MOST_LINES:
            logger.info(
                "not authorized",
                principal=self.principal,
                host=self.host,
                operation=operation.name,
                resource=f"{resource_type.name}:{name[:200]}",
            )

"""Decides who may do what (Kafka's `StandardAuthorizer`).

A super user may do everything. Otherwise those ACLs of the resource count that name the principal (or `User:*`), its
host (or `*`, or a network that has it) and the operation (or ALL). One that denies decides; if there is none, one that
allows is needed. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, when they are
allowed, not when they are denied. A resource without any ACL is open to all with `allow.everyone.if.no.acl.found`, else
to super users only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from uuid import UUID

from broker.security.acl_index import AclIndex
from metadata.acls import WILDCARD, AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord

EVERY_USER = "User:*"

IMPLIED_BY = {
    AclOperation.DESCRIBE: frozenset(
        {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE}
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}),
}
"""The operations of which one is enough to be allowed another."""


class Authorizer:
    """The ACLs, and the two settings that stand above them.

    Attributes:
        generation: counts the changes; what was decided in an earlier one may be wrong.
    """

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl_found: bool = False) -> None:
        """`super_users` are principals, such as `User:admin`."""
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone_if_no_acl_found
        self._index = AclIndex()
        self.generation = 0

    def follow(self, changed: Mapping[UUID | None, AccessControlEntryRecord | None]) -> None:
        """Take changes of the image's ACLs; one that is gone is None."""
        self._index.follow(changed)
        self.generation += 1

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: AclOperation, resource_type: int, name: str) -> bool:
        """Whether a principal at a host (its address) may do this to this resource."""
        if principal in self._super_users:
            return True
        found = allowed = False
        enough = IMPLIED_BY.get(operation)
        for acl in self._index.of(resource_type, name):
            found = True
            if not _concerns(acl, principal, host):
                continue
            if acl.permission_type == PermissionType.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return False
            elif acl.operation in (operation, AclOperation.ALL) or (enough is not None and acl.operation in enough):
                allowed = True
        return allowed if found else self._allow_everyone

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: int) -> bool:
        """Whether it may do this to some resource of the type, even one that does not exist.

        An ACL that allows counts unless one that denies covers all of it (KIP-679, `authorizeByResourceType`).
        """
        if self.allows(principal, host, operation, resource_type, ""):  # a name that has no ACL of its own
            return True
        denied: set[tuple[int, str]] = set()
        allowed: set[tuple[int, str]] = set()
        for acl in self._index.of_type(resource_type):
            if acl.operation not in (operation, AclOperation.ALL) or not _concerns(acl, principal, host):
                continue
            pattern = (acl.pattern_type, acl.resource_name)
            (denied if acl.permission_type == PermissionType.DENY else allowed).add(pattern)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(pattern, denied) for pattern in allowed)

    def operations(self, principal: str, host: str, resource_type: int, name: str) -> frozenset[AclOperation]:
        """All that it may do to a resource."""
        possible = OPERATIONS[ResourceType(resource_type)]
        return frozenset(each for each in possible if self.allows(principal, host, each, resource_type, name))


def _concerns(acl: AccessControlEntryRecord, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERY_USER) and (
        acl.host in (WILDCARD, host) or ("/" in acl.host and _in_network(acl.host, host))
    )


@lru_cache(maxsize=1024)
def _in_network(network: str, host: str) -> bool:
    """Whether an address is in a network such as `10.0.0.0/8`; not if either cannot be read."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _is_covered(allowed: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether each resource that a pattern allows is denied by another one."""
    pattern_type, name = allowed
    if pattern_type == PatternType.LITERAL and allowed in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
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
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""What can be done to each type of resource (KIP-430, `AclEntry.supportedOperations`)."""

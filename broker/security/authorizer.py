"""Decides who may do what (Kafka's `StandardAuthorizer`).

A super user may do everything. Otherwise those ACLs of the resource count that name the principal (or `User:*`), its
host (or `*`, or a network that has it) and the operation (or ALL). One that denies decides; if there is none, one that
allows is needed. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, when they
are allowed, not when they are denied. A resource without any ACL is open to all with `allow.everyone.if.no.acl.found`,
else to super users only.
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

    def load(self, acls: Mapping[UUID, AccessControlEntryRecord]) -> None:
        """Forget all ACLs, and take these."""
        self._index = AclIndex()
        self.follow(acls)

    def follow(self, changed: Mapping[UUID, AccessControlEntryRecord | None]) -> None:
        """Take over changes of the image's ACLs; None stands for an ACL that is gone."""
        self._index.follow(changed)
        self.generation += 1

    def is_super_user(self, principal: str) -> bool:
        return principal in self._super_users

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a principal at a host (its address) may do this to this resource."""
        if principal in self._super_users:
            return True
        found = allowed = False
        enough = IMPLIED_BY.get(operation, ())
        for by_principal in self._index.of(resource_type, name):
            found = True
            for named in (principal, EVERY_USER):
                for acl in by_principal.get(named, {}).values():
                    if not _is_at(acl, host):
                        continue
                    if acl.operation in (operation, AclOperation.ALL):
                        if acl.permission_type == PermissionType.DENY:
                            return False
                        allowed = True
                    elif acl.operation in enough and acl.permission_type == PermissionType.ALLOW:
                        allowed = True
        return allowed if found else self._allow_everyone

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether it may do this to some resource of the type, even one that does not exist.

        An ACL that allows counts unless one that denies covers all of it (KIP-679, `authorizeByResourceType`).
        """
        if self.allows(principal, host, operation, resource_type, ""):  # a name that has no ACL of its own
            return True
        denied: set[tuple[int, str]] = set()
        allowed: set[tuple[int, str]] = set()
        for named in (principal, EVERY_USER):
            for acl in self._index.of_principal(resource_type, named):
                if acl.operation in (operation, AclOperation.ALL) and _is_at(acl, host):
                    pattern = (acl.pattern_type, acl.resource_name)
                    (denied if acl.permission_type == PermissionType.DENY else allowed).add(pattern)
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(not _is_covered(pattern, denied) for pattern in allowed)


def _is_at(acl: AccessControlEntryRecord, host: str) -> bool:
    return acl.host in (WILDCARD, host) or ("/" in acl.host and _in_network(acl.host, host))


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
    if pattern_type == PatternType.LITERAL:
        if name == WILDCARD:
            return False
        if allowed in denied:
            return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))

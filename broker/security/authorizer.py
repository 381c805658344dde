"""Decides who may do what (Kafka's `StandardAuthorizer`).

A super user may do everything. Otherwise those ACLs of the resource count that name the principal (or `User:*`), its
host (or `*`, or a network that has it) and the operation (or ALL). One that denies decides; if there is none, one that
allows is needed. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS, when they
are allowed, not when they are denied. A resource without any ACL is open to all with `allow.everyone.if.no.acl.found`,
else to super users only.

No decision walks over all ACLs. Literal ones are found by their name. Prefixed ones are found by trying, for each
length that some prefix of the type has, the beginning of the name: as many lookups as there are different lengths.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from metadata.acls import WILDCARD, AclOperation, PatternType, PermissionType, ResourceType, network_of
from protocol.metadata.credentials import AccessControlEntryRecord

K = TypeVar("K")

Acls = dict[UUID, AccessControlEntryRecord]

ByPrincipal = dict[str, Acls]

Pattern = tuple[int, str]
"""The type of the resources, and their name or its beginning."""


class AclIndex:
    """Follows the ACLs of the image; `of` finds those of a resource."""

    def __init__(self) -> None:
        self._by_id: Acls = {}
        self._literal: dict[Pattern, ByPrincipal] = {}
        self._prefixed: dict[Pattern, ByPrincipal] = {}
        self._lengths: dict[int, Counter[int]] = {}
        self._of_principal: dict[tuple[int, str], Acls] = {}

    def follow(self, changed: Mapping[UUID, AccessControlEntryRecord | None]) -> None:
        """Take over changes; None stands for an ACL that is gone."""
        for acl_id, acl in changed.items():
            self._remove(acl_id)
            if acl is not None:
                self._add(acl_id, acl)

    def of(self, resource_type: int, name: str) -> Iterator[ByPrincipal]:
        """The ACLs of each pattern that this resource matches, by their principal."""
        literal = self._literal
        found = literal.get((resource_type, name))
        if found is not None:
            yield found
        found = None if name == WILDCARD else literal.get((resource_type, WILDCARD))
        if found is not None:
            yield found
        for length in self._lengths.get(resource_type, ()):
            found = self._prefixed.get((resource_type, name[:length])) if length <= len(name) else None
            if found is not None:
                yield found

    def of_principal(self, resource_type: int, principal: str) -> Iterator[AccessControlEntryRecord]:
        """The ACLs of a type of resources that name this principal."""
        yield from self._of_principal.get((resource_type, principal), {}).values()

    def _add(self, acl_id: UUID, acl: AccessControlEntryRecord) -> None:
        self._by_id[acl_id] = acl
        by_principal = self._patterns(acl).setdefault((acl.resource_type, acl.resource_name), {})
        by_principal.setdefault(acl.principal, {})[acl_id] = acl
        self._of_principal.setdefault((acl.resource_type, acl.principal), {})[acl_id] = acl
        if acl.pattern_type == PatternType.PREFIXED:
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1

    def _remove(self, acl_id: UUID) -> None:
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            return
        patterns, pattern = self._patterns(acl), (acl.resource_type, acl.resource_name)
        by_principal = patterns[pattern]
        _discard(by_principal, acl.principal, acl_id)
        if not by_principal:
            del patterns[pattern]
        _discard(self._of_principal, (acl.resource_type, acl.principal), acl_id)
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def _patterns(self, acl: AccessControlEntryRecord) -> dict[Pattern, ByPrincipal]:
        return self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal


def _discard(acls: dict[K, Acls], key: K, acl_id: UUID) -> None:
    """Remove an ACL, and the maps that are empty then."""
    del acls[key][acl_id]
    if not acls[key]:
        del acls[key]


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
    known = network_of(network)
    try:
        return known is not None and ipaddress.ip_address(host) in known
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

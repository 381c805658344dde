"""The ACLs by what they protect and whom they name, so that no decision walks over all of them.

Literal ACLs are found by their name. Prefixed ones are found by trying, for each length that some prefix of the type
has, the beginning of the name: as many lookups as there are different lengths, however many ACLs there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar
from uuid import UUID

from metadata.acls import WILDCARD, PatternType
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

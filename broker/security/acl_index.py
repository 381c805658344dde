"""The ACLs by what they protect, so that those of one resource are found without a walk over all of them.

Literal ACLs are found by their name. Prefixed ones are found by trying, for each length that some prefix of the type
has, the beginning of the name: as many lookups as there are different lengths, however many ACLs there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from uuid import UUID

from metadata.acls import WILDCARD, PatternType
from protocol.metadata.credentials import AccessControlEntryRecord

Resource = tuple[int, str]
"""The type and the name."""

Acls = dict[UUID | None, AccessControlEntryRecord]


class AclIndex:
    """Follows the ACLs of the image; `of` finds those of a resource."""

    def __init__(self) -> None:
        self._by_id: Acls = {}
        self._literal: dict[Resource, Acls] = {}
        self._prefixed: dict[Resource, Acls] = {}
        self._lengths: dict[int, Counter[int]] = {}

    def follow(self, changed: Mapping[UUID | None, AccessControlEntryRecord | None]) -> None:
        """Take new ACLs, and leave out those that are None now."""
        for acl_id, acl in changed.items():
            self._remove(acl_id)
            if acl is not None:
                self._add(acl)

    def of(self, resource_type: int, name: str) -> Iterator[AccessControlEntryRecord]:
        """The ACLs that concern this resource."""
        yield from self._literal.get((resource_type, name), {}).values()
        yield from self._literal.get((resource_type, WILDCARD), {}).values()
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), {}).values()

    def of_type(self, resource_type: int) -> Iterator[AccessControlEntryRecord]:
        """The ACLs of all resources of a type."""
        return (acl for acl in self._by_id.values() if acl.resource_type == resource_type)

    def _add(self, acl: AccessControlEntryRecord) -> None:
        resource = (acl.resource_type, acl.resource_name)
        self._by_id[acl.id] = acl
        if acl.pattern_type == PatternType.PREFIXED:
            self._prefixed.setdefault(resource, {})[acl.id] = acl
            self._lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1
        else:
            self._literal.setdefault(resource, {})[acl.id] = acl

    def _remove(self, acl_id: UUID | None) -> None:
        acl = self._by_id.pop(acl_id, None)
        if acl is None:
            return
        resource = (acl.resource_type, acl.resource_name)
        kept = self._prefixed if acl.pattern_type == PatternType.PREFIXED else self._literal
        del kept[resource][acl_id]
        if not kept[resource]:
            del kept[resource]
        if acl.pattern_type == PatternType.PREFIXED:
            lengths = self._lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

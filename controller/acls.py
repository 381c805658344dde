"""CreateAcls and DeleteAcls (KIP-140; Kafka's `AclControlManager`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from controller.decision import MOST_RECORDS, Decision, require_few_records
from metadata.acls import (
    CLUSTER_NAME,
    AclFilter,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    acl_order,
    network_of,
)
from metadata.image import MetadataImage
from protocol.errors import InvalidRequest, KafkaError
from protocol.metadata.credentials import AccessControlEntryRecord, RemoveAccessControlEntryRecord

MOST_LOOKS = 1_000_000
"""ACLs that the filters of one request are compared with, half a second of the loop. A single filter may see all."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The ACLs that one filter of DeleteAcls has deleted; or why it was refused."""

    acls: Sequence[AccessControlEntryRecord] = ()
    error: KafkaError | None = None


def decide_create(
    image: MetadataImage, acls: Sequence[AccessControlEntryRecord], new_id: Callable[[], UUID]
) -> Decision[list[KafkaError | None]]:
    """The error of each ACL, None if it exists now. An ACL that exists already is not made twice.

    The ACLs of a request come without ids. Raises PolicyViolation for too many of them.
    """
    names, principals = {acl.resource_name for acl in acls}, {acl.principal for acl in acls}
    existing = {
        acl_order(acl) for acl in image.acls.values() if acl.resource_name in names and acl.principal in principals
    }
    records: list[AccessControlEntryRecord] = []
    outcome: list[KafkaError | None] = []
    for acl in acls:
        error = _refusal(acl)
        outcome.append(error)
        if error is None and acl_order(acl) not in existing:
            existing.add(acl_order(acl))
            records.append(replace(acl, id=new_id()))
    require_few_records(len(records))
    return Decision(records, outcome)


def decide_delete(image: MetadataImage, filters: Sequence[AclFilter]) -> Decision[list[Deleted]]:
    """Delete the ACLs of each filter. An ACL that two filters find is in the answer to both.

    Raises InvalidRequest if too many are found, or would have to be looked at.
    """
    outcome: list[Deleted] = []
    candidates = _Candidates(image.acls, filters)
    looks = answered = 0
    found: dict[UUID | None, RemoveAccessControlEntryRecord] = {}
    for each in filters:
        if each.is_unknown:
            outcome.append(Deleted(error=InvalidRequest("The filter has an element with an unknown number")))
            continue
        some = candidates.of(each)
        if looks and looks + len(some) > MOST_LOOKS:
            raise InvalidRequest("The filters would be compared with too many ACLs. Ask with fewer filters at once.")
        looks += len(some)
        matching = [acl for acl in some if each.matches(acl)]
        answered += len(matching)
        if answered > MOST_RECORDS:
            raise InvalidRequest(f"One request deletes {MOST_RECORDS} ACLs at most. Ask with narrower filters.")
        outcome.append(Deleted(sorted(matching, key=acl_order)))
        found |= {acl.id: RemoveAccessControlEntryRecord(id=acl.id) for acl in matching}
    return Decision(list(found.values()), outcome)


class _Candidates:
    """The ACLs that a filter may find, of those with the name or the principal that it asks for, if it does."""

    def __init__(self, acls: Mapping[UUID, AccessControlEntryRecord], filters: Sequence[AclFilter]) -> None:
        self._all = list(acls.values())
        self._of_name: dict[str | None, list[AccessControlEntryRecord]] = {
            each.name: [] for each in filters if each.pattern_type != PatternType.MATCH
        }
        self._of_principal: dict[str | None, list[AccessControlEntryRecord]] = {each.principal: [] for each in filters}
        for acl in self._all:
            if (same_name := self._of_name.get(acl.resource_name)) is not None:
                same_name.append(acl)
            if (same_principal := self._of_principal.get(acl.principal)) is not None:
                same_principal.append(acl)

    def of(self, wanted: AclFilter) -> Sequence[AccessControlEntryRecord]:
        if wanted.name is not None and wanted.pattern_type != PatternType.MATCH:
            return self._of_name[wanted.name]
        return self._all if wanted.principal is None else self._of_principal[wanted.principal]


def _refusal(acl: AccessControlEntryRecord) -> KafkaError | None:
    """Why an ACL cannot be created."""
    if acl.resource_type not in _RESOURCE_TYPES:
        return InvalidRequest(f"The resource type {acl.resource_type} cannot have ACLs")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return InvalidRequest(f"The pattern type {acl.pattern_type} is for filters: an ACL is literal or prefixed")
    if acl.operation not in _OPERATIONS:
        return InvalidRequest(f"The operation {acl.operation} cannot be allowed or denied")
    if acl.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        return InvalidRequest(f"The permission type {acl.permission_type} is neither ALLOW nor DENY")
    if not acl.resource_name:
        return InvalidRequest("The name of the resource is empty")
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return InvalidRequest(f"The only resource of the type CLUSTER is named {CLUSTER_NAME}")
    if not acl.host:
        return InvalidRequest("The host is empty: * is every host")
    if "/" in acl.host and network_of(acl.host) is None:
        return InvalidRequest(f"The host {acl.host!r} is no network: expected one such as 10.0.0.0/8")
    kind, colon, _ = acl.principal.partition(":")
    if not colon or not kind:
        return InvalidRequest(f"The principal {acl.principal!r} has no type: expected User:{acl.principal}")
    return None


_RESOURCE_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_OPERATIONS = frozenset(AclOperation) - {AclOperation.UNKNOWN, AclOperation.ANY}

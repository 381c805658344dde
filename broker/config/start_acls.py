"""The ACLs of `odradek.create.acls`: `User:app READ,WRITE TOPIC orders-*`, separated by semicolons or line ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from metadata.acls import CLUSTER_NAME, WILDCARD, AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord

_PERMISSIONS = {permission.name: permission for permission in (PermissionType.ALLOW, PermissionType.DENY)}
_OPERATIONS = {
    operation.name: operation for operation in AclOperation if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}
_TYPES = {kind.name: kind for kind in ResourceType if kind not in (ResourceType.UNKNOWN, ResourceType.ANY)}
_FORM = "PRINCIPAL [ALLOW or DENY] OPERATION,.. TYPE NAME [from HOST], such as 'User:app READ,WRITE TOPIC orders-*'"


def parse_start_acls(text: str) -> list[AccessControlEntryRecord]:
    """The ACLs, without ids. Raises ValueError with the first that is wrong."""
    return [acl for entry in re.split(r"[;\n]", text) if entry.strip() for acl in _parse(entry.strip())]


def _parse(entry: str) -> Iterator[AccessControlEntryRecord]:
    words = entry.split()
    host = WILDCARD
    if len(words) > 2 and words[-2].lower() == "from":
        host = words[-1]
        words = words[:-2]
    permission = _PERMISSIONS.get(words[1].upper()) if len(words) > 1 else None
    if permission is not None:
        del words[1]
    if len(words) == 3 and words[2].upper() == ResourceType.CLUSTER.name:
        words.append(CLUSTER_NAME)
    if len(words) != 4:
        raise ValueError(f"{entry!r}: expected {_FORM}")
    principal, operations, kind, name = words
    resource_type = _TYPES.get(kind.upper().replace("-", "_"))
    if resource_type is None:
        raise ValueError(f"{entry!r}: {kind} is no type of resource; expected one of {', '.join(_TYPES)}")
    is_prefixed = name.endswith(WILDCARD) and name != WILDCARD
    for operation in operations.split(","):
        if operation.upper() not in _OPERATIONS:
            raise ValueError(f"{entry!r}: {operation} is no operation; expected one of {', '.join(_OPERATIONS)}")
        yield AccessControlEntryRecord(
            id=None,
            resource_type=resource_type,
            resource_name=name.removesuffix(WILDCARD) if is_prefixed else name,
            pattern_type=PatternType.PREFIXED if is_prefixed else PatternType.LITERAL,
            principal=principal if ":" in principal else f"User:{principal}",
            host=host,
            operation=_OPERATIONS[operation.upper()],
            permission_type=permission or PermissionType.ALLOW,
        )

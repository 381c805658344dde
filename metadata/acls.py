"""ACLs: the words they are made of, and how a filter finds them (KIP-11, KIP-290; Kafka's `AclBindingFilter`).

An ACL is the record that made it, an `AccessControlEntryRecord`. Numbers are those of the wire.
"""

from __future__ import annotations

import enum
import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from protocol.metadata.credentials import AccessControlEntryRecord

WILDCARD = "*"
"""As a literal name every resource of a type, as a host every host; after `User:` every principal."""

CLUSTER_NAME = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class ResourceType(enum.IntEnum):
    """The type of resource that an ACL protects (Kafka's `ResourceType`)."""

    __hash__ = int.__hash__  # faster than an enum's, which matters to those who look decisions up

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(enum.IntEnum):
    """How the name of an ACL is compared; ANY and MATCH are for filters alone (Kafka's `PatternType`)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(enum.IntEnum):
    """The operation on a resource (Kafka's `AclOperation`); in bit fields the bit is `1 << number` (KIP-430)."""

    __hash__ = int.__hash__  # as above

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(enum.IntEnum):
    """Whether an ACL allows or denies (Kafka's `AclPermissionType`)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The ACLs to look for. None, or ANY, means every value; with MATCH those that concern the resource `name`."""

    resource_type: int = ResourceType.ANY
    name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission_type: int = PermissionType.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether a number has no meaning; then the filter finds nothing."""
        return (
            self.resource_type not in _RESOURCE_TYPES
            or self.pattern_type not in _PATTERN_TYPES
            or self.operation not in _OPERATIONS
            or self.permission_type not in _PERMISSION_TYPES
        )

    def matches(self, acl: AccessControlEntryRecord) -> bool:
        """Whether the filter finds this ACL."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (PermissionType.ANY, acl.permission_type)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AccessControlEntryRecord) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(acl.resource_name)
        return acl.resource_name in (self.name, WILDCARD)


_RESOURCE_TYPES, _PATTERN_TYPES, _OPERATIONS, _PERMISSION_TYPES = (
    frozenset(map(int, kind)) - {0} for kind in (ResourceType, PatternType, AclOperation, PermissionType)
)


def pattern_of(acl: AccessControlEntryRecord) -> tuple[int, str, int]:
    """Return what an ACL protects: the type of the resource, its name, and how that is compared."""
    return acl.resource_type, acl.resource_name, acl.pattern_type


@lru_cache(maxsize=1024)
def network_of(host: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The network that a host such as `10.0.0.0/8` stands for; None if that is none."""
    length = host.partition("/")[2]
    try:
        return ipaddress.ip_network(host, strict=False) if length.isdecimal() else None
    except ValueError:
        return None


def acl_order(acl: AccessControlEntryRecord) -> tuple[object, ...]:
    """The sorting key of ACLs in lists: those of one resource come together."""
    return (*pattern_of(acl), acl.principal, acl.host, acl.operation, acl.permission_type)

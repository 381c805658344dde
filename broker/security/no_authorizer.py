"""ACLs where no authorizer is configured (KIP-140, KIP-290; Kafka's `AclApis`): nothing to list, nothing to change."""

from __future__ import annotations

from broker.network.context import CloseConnection
from protocol.errors import SecurityDisabled

UNKNOWN = 0
"""The code of what Kafka calls UNKNOWN among resource types, pattern types, operations and permissions."""


def require_known(*codes: int) -> None:
    """Kafka refuses to read a request that says UNKNOWN; any other number, known or not, it takes.

    :raises CloseConnection: One of the codes is UNKNOWN.
    """
    if UNKNOWN in codes:
        raise CloseConnection("an ACL or a filter of ACLs with an UNKNOWN element")


def refusal() -> SecurityDisabled:
    """What every ACL that is to be made, and every filter by which ACLs are to be deleted, is answered."""
    return SecurityDisabled("No Authorizer is configured.")

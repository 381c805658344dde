"""ACLs without an authorizer (KIP-140, KIP-290; Kafka's `AclApis`): nothing to list, nothing to change."""

from __future__ import annotations

from broker.network.context import CloseConnectionError
from protocol.errors import SecurityDisabled

UNKNOWN = 0
"""The code that Kafka calls UNKNOWN, for resource types, pattern types, operations and permissions."""


def require_known(*codes: int) -> None:
    """Refuse a request with a code UNKNOWN, which Kafka cannot read; it accepts every other number.

    Raises CloseConnectionError if one of the codes is UNKNOWN.
    """
    if UNKNOWN in codes:
        raise CloseConnectionError("an ACL or a filter of ACLs with an UNKNOWN element")


def refusal() -> SecurityDisabled:
    """The answer to every creation of an ACL, and to every filter for deleting ACLs."""
    return SecurityDisabled("No Authorizer is configured.")

"""How long one decision takes under 10,000 rules: `python -m benchmarks.authorization`, Odradek alone, in one process.

A client of 100 topics with a rule each, among 9,900 rules of others (a tenth of them for a prefix): first decisions
walk the rules, and later ones come from what the connection remembers. Printed are microseconds, the median of seven
passes.
"""

from __future__ import annotations

import statistics
import sys
import time
from uuid import UUID

from broker.security.authorizer import Authorizer
from broker.security.permissions import Permissions
from metadata.acls import AclOperation, PatternType, PermissionType, ResourceType
from protocol.metadata.credentials import AccessControlEntryRecord

RULES, TOPICS, PASSES = 10_000, 100, 7


def rule(number: int) -> AccessControlEntryRecord:
    """Rules for the measured client come first; of the others every tenth is for a prefix."""
    own = number < TOPICS
    prefixed = not own and number % 10 == 0
    return AccessControlEntryRecord(
        id=None,
        resource_type=ResourceType.TOPIC,
        resource_name=f"orders-{number}" if own else f"team-{number}-",
        pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal="User:app" if own else f"User:{number % 500}",
        host="*",
        operation=AclOperation.READ,
        permission_type=PermissionType.ALLOW,
    )


def microseconds(permissions: Permissions) -> float:
    """What one decision takes, when one is made for each topic."""
    began = time.perf_counter()
    for number in range(TOPICS):
        permissions.allows(AclOperation.READ, ResourceType.TOPIC, f"orders-{number}", log_denied=False)
    return (time.perf_counter() - began) * 1e6 / TOPICS


def main() -> None:
    authorizer = Authorizer([], allow_everyone_if_no_acl_found=False)
    authorizer.load({UUID(int=number + 1): rule(number) for number in range(RULES)})
    found: dict[str, list[float]] = {"first decision": [], "known decision": [], "first decision, denied": []}
    for _ in range(PASSES):
        app, stranger = (Permissions(authorizer, f"User:{name}", "10.0.0.7") for name in ("app", "stranger"))
        for what, permissions in zip(found, (app, app, stranger), strict=True):
            found[what].append(microseconds(permissions))
    for what, passes in found.items():
        sys.stdout.write(f"{what}: {statistics.median(passes):.2f} us\n")


if __name__ == "__main__":
    main()

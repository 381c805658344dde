"""What a user may do with a subject: what the ACLs say of the topic that its schemas are for.

| who may                      | may                                                           |
| ---------------------------- | ------------------------------------------------------------- |
| DESCRIBE, READ or WRITE topic T | see the subjects `T-key`, `T-value` and `T`, and compare with them |
| WRITE topic T                | register their schemas                                        |
| DELETE topic T               | delete them                                                   |
| ALTER_CONFIGS topic T        | set their level and mode                                      |
| ALTER_CONFIGS of the cluster | set levels and modes of contexts, and of everything           |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.registry import subjects as names
from broker.registry.errors import Code, RegistryError
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from broker.security.permissions import Permissions


class Rights:
    """A user's; everything is allowed without `permissions`."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        self._permissions = permissions

    @property
    def principal(self) -> str:
        """Whose they are, such as `User:alice`; empty if everything is allowed."""
        return "" if self._permissions is None else self._permissions.principal

    @property
    def host(self) -> str:
        """Where the user asks from."""
        return "" if self._permissions is None else self._permissions.host

    def may_see(self, subject: str) -> bool:
        """Whether the user may know of the subject."""
        return self._allows(AclOperation.DESCRIBE, subject, log_denied=False)

    def require(self, operation: AclOperation, subject: str | None) -> None:
        """Raises RegistryError (403); None stands for everything."""
        if not self._allows(operation, subject, log_denied=True):
            kind, name = _resource(subject)
            raise RegistryError(
                Code.FORBIDDEN, f"User is denied operation {operation.name} on the {kind.name.lower()} {name}"
            )

    def _allows(self, operation: AclOperation, subject: str | None, *, log_denied: bool) -> bool:
        if self._permissions is None:
            return True
        kind, name = _resource(subject)
        return self._permissions.allows(operation, kind, name, log_denied=log_denied)


def _resource(subject: str | None) -> tuple[ResourceType, str]:
    if subject is None or not names.parse(subject).name:
        return ResourceType.CLUSTER, CLUSTER_NAME
    return ResourceType.TOPIC, names.topic_of(subject)

"""What the user of a request may see and do: as much as the APIs would tell or do that the page names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from broker.authorization.console_table import NOTHING, PageRights
from broker.testkit.control.endpoint import ControlError
from metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from protocol.api.table import asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.security.permissions import Permissions
    from protocol.api.rights import Resource


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything is allowed without `permissions`. `user` is None without a login.

    `asked` is the line of the page or action in the table, `named` what stands there: its code asks about nothing else.
    """

    user: str | None = None
    permissions: Permissions | None = None
    asked: PageRights = NOTHING
    named: frozenset[tuple[str, ResourceType]] = frozenset()

    def of(self, asked: PageRights) -> Rights:
        """The same user's, for a page or an action."""
        named = frozenset((right.api, right.resource_type) for right in (*asked.needed, *asked.shown))
        return replace(self, asked=asked, named=named)

    @property
    def are_all(self) -> bool:
        """Whether nothing is kept from the user."""
        return self.permissions is None or self.permissions.is_super_user

    def allow(self, api: str, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Whether the API would tell or do it for this user; nothing is logged if not."""
        return self._allow(api, resource_type, name, log_denied=False)

    def check(self, api: str, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises ControlError (403)."""
        if not self._allow(api, resource_type, name, log_denied=True):
            operations = " or ".join(each.name for each in _asked_for(api, resource_type)[0])
            resource = resource_type.name.lower().replace("_", " ")
            raise ControlError(f"{self.user} may not {operations} the {resource} {name}", status=403)

    def check_needed(self, given: Mapping[str, str]) -> None:
        """Check what the page or action needs, by the names that the request has. Raises ControlError."""
        for right in self.asked.needed:
            if right.named is None:
                self.check(right.api, right.resource_type)
            elif right.named in given:  # its absence is what is wrong then
                self.check(right.api, right.resource_type, given[right.named])

    def _allow(self, api: str, resource_type: ResourceType, name: str, *, log_denied: bool) -> bool:
        assert (api, resource_type) in self.named, f"the console's table has no {api} on {resource_type.name} here"
        permissions = self.permissions
        if permissions is None or permissions.is_super_user:
            return True
        operations, unless = _asked_for(api, resource_type)
        if unless is not None and permissions.allows(unless, ResourceType.CLUSTER, CLUSTER_NAME, log_denied=False):
            return True
        return any(permissions.allows(each, resource_type, name, log_denied=log_denied) for each in operations)


def _asked_for(api: str, resource_type: ResourceType) -> tuple[list[AclOperation], AclOperation | None]:
    operations, unless = asked_for(api, cast("Resource", resource_type.name))
    return [AclOperation[each] for each in operations], None if unless is None else AclOperation[unless]

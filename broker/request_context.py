"""What a handler gets besides its request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.cluster.controller_port import Controller
from broker.network.request import Peer
from broker.replicas.replica_manager import ReplicaManager
from broker.security.authorized_operations import ALL
from broker.services import Cluster, Coordinators, Local
from metadata.acls import AclOperation, ResourceType
from metadata.image import MetadataImage
from protocol.api.messages import decode_request
from protocol.api.table import API_BY_KEY

if TYPE_CHECKING:
    from broker.security.permissions import Permissions


@dataclass(slots=True)
class RequestContext:
    """One request (`broker.network.request.Request`), and the parts of the node that handlers use.

    `permissions` are those of the client, None without an authorizer.
    """

    cluster: Cluster
    controller: Controller
    replicas: ReplicaManager
    coordinators: Coordinators
    local: Local
    connection: Peer
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: bytes = b""
    begun: bool = True
    size: int = 0
    permissions: Permissions | None = None
    _image: MetadataImage | None = None
    _raw: Any = None

    @property
    def image(self) -> MetadataImage:
        """What the cluster agrees on, as of the first time that this request asked: the same from start to end."""
        image = self._image
        if image is None:
            image = self._image = self.cluster.cache.image
        return image

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, log_denied: bool = True
    ) -> bool:
        """Whether the client may do this to this resource; it may do everything where there is no authorizer."""
        permissions = self.permissions
        return permissions is None or permissions.allows(operation, resource_type, name, log_denied=log_denied)

    def operations(self, resource_type: ResourceType, name: str) -> int:
        """All that the client may do to a resource, as a bit field (KIP-430)."""
        return ALL[resource_type] if self.permissions is None else self.permissions.operations(resource_type, name)

    def note_appended(self) -> None:
        """Say that all which the request writes is in the logs, if its handler does not do that at once."""

    async def turn(self) -> None:
        """Let the loop serve others, in the middle of a long request: their time does not count for its client."""
        if self.local.throttling.enabled:
            self.local.throttling.spent(self)
        await asyncio.sleep(0)
        self.connection.spent_ms()

    @property
    def raw(self) -> Any:
        """The request in kio's class of `version`, for fields that the newest version no longer has."""
        if self._raw is None:
            self._raw = decode_request(API_BY_KEY[self.api_key], self.version, self.body)
        return self._raw

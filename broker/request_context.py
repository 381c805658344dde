"""Everything that a handler is given besides its request: the request's context, and the parts of the node."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.membership.metadata_cache import MetadataCache
from broker.membership.producer_ids import ProducerIds
from broker.network.request import Peer
from broker.observe.metrics import Metrics
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session_cache import FetchSessionCache
from broker.replication.replica_manager import ReplicaManager
from broker.security.permissions import ALL, UNKNOWN
from controller.quorum.metadata_log import MetadataLog
from metadata.acls import AclOperation, ResourceType
from metadata.image import MetadataImage
from protocol.api.messages import decode_request
from protocol.api.table import API_BY_KEY
from protocol.errors import UnsupportedVersion
from timing.clock import Clock

if TYPE_CHECKING:
    from broker.coordinators.group_coordinator import GroupCoordinator
    from broker.coordinators.share_coordinator import ShareCoordinator
    from broker.coordinators.transaction_coordinator import TransactionCoordinator
    from broker.membership.auto_create import AutoTopicCreation
    from broker.membership.broker_clients import BrokerClients
    from broker.membership.controller_port import Controller
    from broker.membership.controller_service import ControllerService
    from broker.observe.client_telemetry import ClientTelemetry
    from broker.security.delegation_tokens import DelegationTokens
    from broker.security.node_security import NodeSecurity
    from broker.security.permissions import Permissions
    from broker.share.share_partitions import SharePartitions


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster's metadata, its log (None if that is other nodes'), and the creation of topics on first use.

    `peers` are the other brokers, for questions about what they lead and coordinate. `controller_service` is what the
    node does as the controller of other nodes, None if it does not.
    """

    id: str
    cache: MetadataCache
    metadata_log: MetadataLog | None
    auto_topics: AutoTopicCreation
    peers: BrokerClients
    controller_service: ControllerService | None = None


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The coordinators of this node, and the ids of its new producers."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIds
    share: ShareCoordinator


@dataclass(frozen=True, slots=True)
class LocalServices:
    """The services of this node alone."""

    node_id: int
    current: CurrentConfig
    clock: Clock
    random: random.Random
    metrics: Metrics
    throttling: Throttling
    fetch_sessions: FetchSessionCache
    client_telemetry: ClientTelemetry
    security: NodeSecurity
    tokens: DelegationTokens
    share: SharePartitions

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is now; it may change while a request waits."""
        return self.current.config


@dataclass(frozen=True, slots=True)
class Services:
    """All of them, as the node makes them."""

    cluster: ClusterMetadata
    controller: Controller
    replicas: ReplicaManager
    coordinators: Coordinators
    local: LocalServices


@dataclass(slots=True)
class RequestContext:
    """One request (`broker.network.request.Request`), and the parts of the node that handlers use.

    `permissions` are those of the client, None without an authorizer. Requests that a client repeats have one context:
    `answered` is for their handlers, what was found last time and the response made of it.
    """

    cluster: ClusterMetadata
    controller: Controller
    replicas: ReplicaManager
    coordinators: Coordinators
    local: LocalServices
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
    answered: tuple[Any, Any] = (None, None)

    @property
    def image(self) -> MetadataImage:
        """Return the cluster's metadata as of the first time that this request asked: the same from start to end."""
        image = self._image
        if image is None:
            image = self._image = self.cluster.cache.image
        return image

    def require(self, feature: str, protocol: str | None = None) -> None:
        """Raises UnsupportedVersion unless the cluster has the feature, and this node offers the groups' protocol."""
        is_offered = protocol is None or protocol in self.local.config.list_("group.coordinator.rebalance.protocols")
        if not is_offered or not self.cluster.cache.image.features.get(feature, 0):
            raise UnsupportedVersion

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, name: str, *, log_denied: bool = True
    ) -> bool:
        """Whether the client may do this to this resource; it may do everything where there is no authorizer."""
        permissions = self.permissions
        return permissions is None or permissions.allows(operation, resource_type, name, log_denied=log_denied)

    def operations(self, resource_type: ResourceType, name: str, *, asked: bool = True) -> int:
        """All that the client may do to a resource, as a bit field (KIP-430), if it asked for that."""
        if not asked:
            return UNKNOWN
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

"""What a handler is given besides its request: five things, each with one concern."""

from __future__ import annotations

import random
from dataclasses import dataclass

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.share_coordinator import ShareCoordinator
from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.membership.auto_create import AutoTopicCreation
from broker.membership.broker_clients import BrokerClients
from broker.membership.controller_port import Controller
from broker.membership.controller_service import ControllerService
from broker.membership.metadata_cache import MetadataCache
from broker.membership.producer_ids import ProducerIds
from broker.observe.client_telemetry import ClientTelemetry
from broker.observe.metrics import Metrics
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session import FetchSessionCache
from broker.replication.replica_manager import ReplicaManager
from broker.security.delegation_tokens import DelegationTokens
from broker.security.node_security import NodeSecurity
from broker.share.share_partitions import SharePartitions
from controller.quorum.metadata_log import MetadataLog
from timing.clock import Clock


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the cluster agrees on, its log (None if that is other nodes'), and the creation of topics on first use.

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
class Local:
    """What is this node's alone."""

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
    """The five."""

    cluster: Cluster
    controller: Controller
    replicas: ReplicaManager
    coordinators: Coordinators
    local: Local

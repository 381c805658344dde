"""The first parts of a node, made before anything is read, and whether it can serve."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import structlog

from broker.config.broker_config import BrokerConfig, CurrentConfig
from broker.config.listeners import Listener
from broker.config.structured import super_users
from broker.observe.metrics import Metrics, SeriesLimits
from broker.peers.client import Connect, open_socket
from broker.peers.cuts import Cuts
from broker.replication.batch_checks import SchemaCheck
from broker.replication.folders import FolderChecks
from broker.replication.replica_manager import ReplicaManager
from broker.security.authorizer import Authorizer
from broker.security.delegation_tokens import Credentials
from broker.security.node_security import NodeSecurity
from broker.security.sources import Sources
from protocol import uuids
from storage.files import FileSystem
from storage.folders.log_dirs import LogDir
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from storage.workers import Workers
from timing.clock import Clock
from timing.wheel import TimingWheel

if TYPE_CHECKING:
    from broker.security.permissions import Permissions

logger = structlog.get_logger(__name__)


class RegistryPort(SchemaCheck, Protocol):
    """The schema registry of a node, for who cannot import it (`broker/registry/host.py`)."""

    @property
    def urls(self) -> list[str]:
        """Where it listens; empty if it does not."""

    @property
    def in_use(self) -> bool:
        """Whether there may be schemas: somebody has asked for it, or the cluster has its topic."""

    async def begin(self, host: str = "127.0.0.1", port: int = 0) -> list[str]:
        """Listen at this IP address if it does not yet, and return where. Raises ListenError."""

    async def ask(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """The status and the value of an answer, with all rights; without listeners, too."""

    async def ask_for(
        self, permissions: Permissions | None, method: str, path: str, body: Any = None, **query: str
    ) -> tuple[int, Any]:
        """The same with the rights of a user."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The listeners as they were opened: as the setting `listeners`, and what is advertised, by listener."""

    listeners: str
    advertised: dict[str, Listener]
    controllers: Sequence[Listener] = ()

    @property
    def addresses(self) -> dict[str, str]:
        """The advertised host:port by listener."""
        return {name: str(listener).partition("://")[2] for name, listener in self.advertised.items()}

    @property
    def hosts(self) -> list[str]:
        """The names of this node that others are told."""
        return [listener.host for listener in (*self.advertised.values(), *self.controllers)]


@dataclass(frozen=True, slots=True)
class Seams:
    """The outside world as a node sees it; tests pass their own.

    `clock` is the time of Kafka's rules, which the test kit may move; `clock.machine` nobody moves.
    `tell` takes what a long start is doing, from any thread.
    """

    clock: Clock
    fs: FileSystem
    workers: Workers
    random: random.Random
    connect: Connect = open_socket
    tell: Callable[[str], None] = lambda _: None


class NodeState:
    """Whether the node serves, and what is known of its partitions' folders.

    Attributes:
        not_ready: why it does not serve; None if it does.
        unusable: set when no metadata can be written any more; Kafka halts then.
        replicas: the node's replicas, None until their logs are open.
        metadata_problems: what an operator should know of the node's metadata, a sentence each.
        folder_checks: looks after the folders of `log.dirs`, None until then.
        cuts: opens the connections to other nodes, but none that a test has cut.
    """

    def __init__(self, connect: Connect) -> None:
        self.cuts = Cuts(connect)
        self.not_ready: str | None = "starting"
        self.unusable = asyncio.Event()
        self.replicas: ReplicaManager | None = None
        self.folder_checks: FolderChecks | None = None
        self.metadata_problems: Callable[[], list[str]] = list

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether a partition's log is known to be offline."""
        return self.replicas is not None and self.replicas.is_offline(topic, index)

    def problems(self) -> list[str]:
        """List the problems of a node that serves all the same, a sentence each."""
        if self.not_ready or self.folder_checks is None:
            return []
        return self.folder_checks.problems() + self.metadata_problems()

    def cannot_go_on(self, reason: str) -> None:
        if not self.unusable.is_set():
            logger.critical("the broker cannot go on", error=reason)
            self.not_ready = reason
            self.unusable.set()

    def folder_failed(self, log_dir: LogDir, metadata_dir: LogDir) -> None:
        if log_dir is metadata_dir:
            self.cannot_go_on(f"{log_dir.path}, the log directory with the metadata, has failed")


@dataclass(frozen=True, slots=True)
class Base:
    """The services that every part of a node is made with.

    `wheel` has what is due by Kafka's rules, `request_wheel` waits of connections and requests, in the machine's time.
    `authorizer` is None where all clients may do everything.
    """

    node_id: int
    seams: Seams
    current: CurrentConfig
    metrics: Metrics
    wheel: TimingWheel
    request_wheel: TimingWheel
    log_services: LogServices
    credentials: Credentials
    security: NodeSecurity
    state: NodeState
    authorizer: Authorizer | None

    def new_id(self) -> UUID:
        return uuids.random_uuid(self.seams.random)


def new_base(config: BrokerConfig, seams: Seams) -> Base:
    clock = seams.clock
    wheel = TimingWheel(clock)
    request_wheel = wheel if clock.machine is clock else TimingWheel(clock.machine)
    shortages = Shortages(clock.machine.monotonic_ms)
    current = CurrentConfig(config)
    workers = seams.workers.lane("security")
    credentials = Credentials(current, seams.random, clock.wall_ms, workers)
    sources = Sources(clock, seams.random, workers, credentials.find, credentials.salt)
    security, metrics = NodeSecurity(current, sources, request_wheel), Metrics(_most(config))
    count_authentications(metrics, security)
    return Base(
        config.node_id,
        seams,
        current,
        metrics,
        wheel,
        request_wheel,
        LogServices(seams.fs, clock, seams.workers, seams.random, shortages, seams.tell),
        credentials,
        security,
        NodeState(seams.connect),
        _authorizer(config),
    )


def count_authentications(metrics: Metrics, security: NodeSecurity) -> None:
    """Register the metric of who came in."""
    metrics.counter(
        "odradek_authentications_total",
        "Clients that authenticated by SASL, and those that were refused.",
        ("listener", "mechanism", "outcome"),
        security.counts,
        permanent=True,
    )


def _most(config: BrokerConfig) -> SeriesLimits:
    return SeriesLimits(config.integer("odradek.metrics.max.topics"), config.integer("odradek.metrics.max.clients"))


def _authorizer(config: BrokerConfig) -> Authorizer | None:
    """The authorizer, if there shall be one. It knows no ACLs yet."""
    if not config.string("authorizer.class.name"):
        return None
    everyone = config.boolean("allow.everyone.if.no.acl.found")
    return Authorizer(super_users(config), allow_everyone_if_no_acl_found=everyone)

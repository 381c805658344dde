"""One node: everything it is made of, put together, started and stopped in order."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from broker import process
from broker.cluster.auto_create import AutoTopicCreation
from broker.cluster.config_schema import NodeConfigSchema
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.producer_ids import ProducerIds
from broker.cluster.publisher import Follower
from broker.cluster.standalone import StandaloneMetadata
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Listener, Listeners
from broker.config.start_topics import parse_start_topics
from broker.config.topic_config import log_config
from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.hanging_transactions import HangingTransactions
from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.monitoring.client_telemetry import ClientTelemetry
from broker.monitoring.loop_lag import LoopLag
from broker.monitoring.metrics import Metrics
from broker.monitoring.node_metrics import register_gauges
from broker.network.dispatch import Dispatcher
from broker.network.server import Server
from broker.periodic import Periodic
from broker.quotas.connection_rates import ConnectionRates
from broker.quotas.throttling import Throttling, windows_of
from broker.replicas.fetch_session import FetchSessionCache
from broker.replicas.folder_checks import CHECK_MS, FolderChecks
from broker.replicas.log_maintenance import LogMaintenance
from broker.replicas.log_moves import LogMoves
from broker.replicas.replica_manager import ReplicaManager
from broker.stopping import Stopped, end_work
from controller.brokers import Registration
from controller.decision import Surroundings
from controller.local import LocalController
from controller.quorum.metadata_log import MetadataLog
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol import uuids
from protocol.metadata.brokers import Endpoint
from storage.folders.log_dirs import LogDir, LogDirs
from storage.folders.log_manager import LogManager
from storage.log.log_services import LogServices
from storage.shortages import Shortages
from timing.wheel import TimingWheel

if TYPE_CHECKING:
    from broker.monitoring.http import HttpServer
    from storage.files import FileSystem
    from storage.workers import Workers
    from timing.clock import Clock

logger = structlog.get_logger(__name__)

RETRY_MS = 2_000
"""Time between two attempts to write what there was no room for."""

STARTED_LIKE_KAFKA = "[KafkaServer id={}] started; Kafka Server started; Transitioning from RECOVERY to RUNNING"
"""What Testcontainers looks for in the lines of Kafka's images, depending on its language and version."""


PLAINTEXT = 0
"""The number of the security protocol in a registration."""

NO_METADATA = (
    "there is no metadata in {}, the first folder of log.dirs. Name the folder first that has __cluster_metadata-0, "
    "or restore it; otherwise all partitions would become strays."
)
"""After a change of the order of `log.dirs`, say, or if the first folder's disk is not mounted."""


@dataclass(frozen=True, slots=True)
class Seams:
    """The outside world as a node sees it; tests pass their own."""

    clock: Clock
    fs: FileSystem
    workers: Workers
    random: random.Random


class Node:
    """A broker: `start` until it serves, `stop` until everything is on disk.

    Attributes:
        unusable: set when no metadata can be written any more; Kafka halts then.
    """

    advertised: dict[str, Listener]
    bound_listeners: str
    metadata: StandaloneMetadata
    logs: LogManager
    log_moves: LogMoves
    replicas: ReplicaManager
    producer_ids: ProducerIds
    throttling: Throttling
    connection_rates: ConnectionRates
    client_telemetry: ClientTelemetry
    group_coordinator: GroupCoordinator
    transaction_coordinator: TransactionCoordinator
    server: Server
    cluster_id: str
    _maintenance: LogMaintenance
    _folder_checks: FolderChecks

    def __init__(self, config: BrokerConfig, listeners: Listeners, seams: Seams) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock = seams.clock
        self.random = seams.random
        self.metrics = Metrics()
        self.shortages = Shortages(seams.clock.monotonic_ms)
        self.wheel = TimingWheel(seams.clock)
        self.fetch_sessions = FetchSessionCache(
            config.integer("max.incremental.fetch.session.cache.slots"), seams.clock.monotonic_ms, seams.random
        )
        self.cache = MetadataCache()
        self.auto_topics = AutoTopicCreation(self)
        self.not_ready: str | None = "starting"
        self.stopping = False
        self.unusable = asyncio.Event()
        self._listeners = listeners
        self._seams = seams
        self._http: HttpServer | None = None
        self._periodic = Periodic(seams.clock)
        self._loop_lag = LoopLag(seams.clock, self.metrics.loop_lag_s)

    # -- start

    async def start(self) -> None:
        """Recover the data and open the listeners. A failure leaves nothing open, and the data as after a stop.

        Raises LogDirError if a data folder cannot be used, MetadataLogError if the metadata log cannot be, and
        ListenError if a listener, or the port for metrics and health, cannot be bound.
        """
        seams = self._seams
        async with AsyncExitStack() as undo:
            dirs = self._lock_folders(undo)
            await self._bind_http(undo)
            services = LogServices(seams.fs, self.clock, seams.workers, seams.random, self.shortages)
            await self._read_metadata(services, dirs, undo)
            await self._open_logs(services, dirs, undo)
            await self._bind(undo)
            await self._register(dirs)
            await self.replicas.start()
            self._start_coordinators(undo)
            self._follow_metadata()
            await self.auto_topics.create_at_start(parse_start_topics(self.config.string("odradek.create.topics")))
            await self.server.serve()
            self._register_metrics()
            undo.pop_all()
        self._loop_lag.start()
        self._maintenance.start(self.config, self._periodic)
        self._periodic.every(CHECK_MS, "check of the log directories", self._folder_checks.check)
        self._periodic.every(RETRY_MS, "what there was no room for", self._retry)
        self.not_ready = None
        logger.info(
            "started",
            node=self.node_id,
            cluster=self.cluster_id,
            partitions=len(self.replicas),
            like_kafka=STARTED_LIKE_KAFKA.format(self.node_id),
        )

    def _lock_folders(self, undo: AsyncExitStack) -> LogDirs:
        dirs = LogDirs.open(
            self._seams.fs,
            list(self.config.log_dirs),
            node_id=self.node_id,
            new_id=self._new_id,
            now_ms=self.clock.wall_ms(),
            cluster_id=self.config.optional_string("odradek.cluster.id"),
        )
        undo.callback(dirs.unlock)
        self.cluster_id = dirs.cluster_id
        self._metadata_dir = dirs.dirs[0]
        return dirs

    async def _read_metadata(self, services: LogServices, dirs: LogDirs, undo: AsyncExitStack) -> None:
        """Read the metadata log; from here on the dynamic configurations count.

        Raises LogDirError if there are partitions and no metadata: they would all become strays.
        """
        around = Surroundings(
            NodeConfigSchema(lambda: self.config),
            self._new_id,
            self.node_id,
            self._is_offline,
        )
        folder = dirs.dirs[0]
        directory_id = uuids.from_text(folder.directory_id)
        self.metadata = await StandaloneMetadata.open(
            services, folder.path, self.node_id, directory_id, self.cache, around, clean=folder.clean
        )
        undo.push_async_callback(self.metadata.log.close)
        if self.metadata.is_new:
            dirs.require_no_partitions(NO_METADATA.format(folder.path))
        self.metadata.log.on_failure = self._cannot_go_on
        config = self.config = self.config.with_dynamic(*self.cache.broker_configs(self.node_id))
        self.producer_ids = ProducerIds(self.metadata.allocate_producer_ids)
        self.client_telemetry = ClientTelemetry(self.cache, self.metrics, config.integer("telemetry.max.bytes"))
        self.throttling = Throttling(config, self.clock.monotonic_ms)
        self.throttling.follow(self.cache.image.quotas)
        self.connection_rates = ConnectionRates(windows_of(config), self.clock.monotonic_ms)
        await self.connection_rates.prepare(self.cache.image)
        self.connection_rates.follow(self.cache.image)

    @property
    def controller(self) -> LocalController:
        return self.metadata.controller

    @property
    def metadata_log(self) -> MetadataLog:
        return self.metadata.log

    async def _open_logs(self, services: LogServices, dirs: LogDirs, undo: AsyncExitStack) -> None:
        config, seams = self.config, self._seams
        self.logs = await seams.workers.call(
            lambda: LogManager.open(
                services,
                dirs,
                lambda topic: log_config(self.config, self.cache.topic_configs(topic)),
                new_id=self._new_id,
                topic_id_of=self._topic_id,
                folder_state_of=self.metadata.folder_state,
                recovery_threads=config.integer("num.recovery.threads.per.data.dir"),
                producer_expiration_ms=config.integer("producer.id.expiration.ms"),
            )
        )
        undo.push_async_callback(seams.workers.call, self._close_logs)
        self.logs.on_folder_failed = self._folder_failed
        self.metadata.before_snapshot = self.logs.sync_folders
        self.replicas = ReplicaManager(
            self.node_id,
            self.cache,
            self.logs,
            lambda configs: log_config(self.config, configs),
            self.wheel,
            self.metrics.topic_deleted,
        )
        self._maintenance = LogMaintenance(self.logs, self.replicas)
        self._folder_checks = FolderChecks(self.logs, process.require_spare_descriptor)
        self.log_moves = LogMoves(self.logs, self._maintenance.cleaner.is_busy_with, self._new_id)

    async def _bind(self, undo: AsyncExitStack) -> None:
        """Open the listeners, without accepting anybody yet: what is advertised has the ports."""
        self.dispatcher = Dispatcher(self)
        self.server = Server(self)
        undo.push_async_callback(self.server.stop)
        await self.server.start(self._listeners.bound)
        self.bound_listeners = self._listeners.with_ports(self.server.bound)
        self.advertised = self._listeners.resolve(self.server.bound, socket.gethostname())

    async def _register(self, dirs: LogDirs) -> None:
        config = self.config
        await self.metadata.lead(
            Registration(
                self.node_id,
                self._new_id(),
                [
                    Endpoint(name=name, host=address.host, port=address.port, security_protocol=PLAINTEXT)
                    for name, address in self.advertised.items()
                ],
                (),
                config.optional_string("broker.rack"),
                [uuids.from_text(log_dir.directory_id) for log_dir in dirs.dirs if log_dir.directory_id],
            ),
            config.integer("min.insync.replicas"),
        )
        # At the first start the registration has set what holds for the cluster.
        self.config = config.with_dynamic(*self.cache.broker_configs(self.node_id))

    def _follow_metadata(self) -> None:
        """What follows the metadata, in this order: replicas, coordinators, configurations, quotas."""
        self.metadata.publisher.start(
            [
                Follower("replicas", self.replicas.follow, self.replicas.prepare),
                Follower("group coordinator", self.group_coordinator.follow),
                Follower("transaction coordinator", self.transaction_coordinator.follow),
                Follower("configurations", self._configs_changed),
                Follower("client metrics", lambda delta, _: self.client_telemetry.follow(delta)),
                Follower("quotas", self._quotas_changed, self._quotas_changing),
            ]
        )

    def _start_coordinators(self, undo: AsyncExitStack) -> None:
        self.group_coordinator = GroupCoordinator(self)
        undo.callback(self.group_coordinator.stop)
        self.group_coordinator.start()
        groups = self.group_coordinator.runtime
        self.transaction_coordinator = TransactionCoordinator(self, groups, self.producer_ids)
        undo.callback(self.transaction_coordinator.stop)
        self.transaction_coordinator.start()
        self._hanging = HangingTransactions(self.transaction_coordinator, groups, self.replicas, self.clock)
        undo.callback(self._hanging.stop)
        self._hanging.start()

    def _register_metrics(self) -> None:
        groups = self.group_coordinator
        groups.register_metrics(self.metrics)
        self.transaction_coordinator.register_metrics(self.metrics)
        register_gauges(
            self.metrics,
            partitions=self.replicas,
            server=self.server,
            wheel=self.wheel,
            purgatories=(
                self.replicas.fetch_purgatory,
                self.replicas.produce_purgatory,
                groups.rebalances,
                groups.heartbeats,
            ),
            fetch_sessions=self.fetch_sessions,
            throttling=self.throttling,
            shortages=self.shortages,
        )

    def _is_offline(self, topic: str, index: int) -> bool:
        return self.replicas.is_offline(topic, index)

    def _topic_id(self, name: str) -> UUID | None:
        topic = self.cache.topic(name)
        return None if topic is None else topic.id

    def _new_id(self) -> UUID:
        return uuids.random_uuid(self.random)

    async def _bind_http(self, undo: AsyncExitStack) -> None:
        """Take the port for metrics and health now, so that no broker says that it started that will not."""
        port = self.config.integer("odradek.http.port")
        if port < 0:
            return
        from broker.monitoring.http import HttpServer

        host = self.config.string("odradek.http.host")
        self._http = HttpServer(host, port, self.metrics, lambda: self.not_ready, self._problems)
        undo.push_async_callback(self._http.stop)
        await self._http.bind(or_any="odradek.http.port" not in self.config.given)

    async def serve_http(self) -> int | None:
        """Answer on the port for metrics and health; return its number, or None if it is switched off.

        Raises ListenError if another process was faster.
        """
        if self._http is None:
            return None
        await self._http.serve()
        return self._http.port

    def _problems(self) -> list[str]:
        """What is wrong although the node serves, a sentence each."""
        return [] if self.not_ready else self._folder_checks.problems()

    # -- changes

    def _configs_changed(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if delta.touched("configs") and any(kind == ResourceType.BROKER for kind, _ in delta.configs.changed):
            self.config = self.config.with_dynamic(*self.cache.broker_configs(self.node_id))
            self.replicas.reconfigure()
            self.server.limits_changed()
            self._maintenance.reconfigure(self.config)

    async def _quotas_changing(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("quotas"):
            await self.connection_rates.prepare(image)

    def _quotas_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("quotas"):
            self.throttling.follow(delta.quotas.changed)
            self.connection_rates.follow(image)

    async def _retry(self) -> None:
        """Do what could not be done for want of room."""
        await self.metadata.retry()
        made = await self.replicas.retry()
        for coordinator in (self.group_coordinator, self.transaction_coordinator):
            coordinator.logs_made(made)

    def _folder_failed(self, log_dir: LogDir) -> None:
        if log_dir is self._metadata_dir:
            self._cannot_go_on(f"{log_dir.path}, the log directory with the metadata, has failed")

    def _cannot_go_on(self, reason: str) -> None:
        if not self.unusable.is_set():
            logger.critical("the broker cannot go on", error=reason)
            self.not_ready = reason
            self.unusable.set()

    # -- stop

    async def stop(self) -> Stopped:
        """Answer what is in flight, flush the logs and record the clean shutdown, as far as the disk allows."""
        self.not_ready = "stopping"
        self.stopping = True
        logger.info("stopping")
        self._loop_lag.stop()
        self.replicas.stop_waits()
        self._hanging.stop()
        self.transaction_coordinator.stop()
        self.group_coordinator.stop()
        await self.server.stop()
        await self.dispatcher.drain()
        stopped = await end_work(self.clock, self._last_works(), lambda: self.logs.closed)
        if self._http is not None:
            await self._http.stop()
        logger.info("stopped")
        return stopped

    def _last_works(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """What may wait for a device while the node stops, in order."""
        return {
            "new topics": self.auto_topics.stop,
            "moves of logs": self.log_moves.stop,
            "compaction": self._maintenance.stop,
            "periodic jobs": self._periodic.stop,
            "the metadata log": self._close_metadata,
            "the logs": lambda: self._seams.workers.lane("stop").call(self._close_logs),
        }

    async def _close_metadata(self) -> None:
        if not await self.metadata.close():
            self.logs.unclean.add(self._metadata_dir.path)

    def _close_logs(self) -> None:
        try:
            self.logs.checkpoint_high_watermarks(lambda one: one.log_end_offset)
        finally:
            self.logs.close(self.metadata.broker_epoch)

"""One node: its parts, what they follow, its periodic work, and its end. `broker.node_start` makes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from broker.background import Periodic, Stopped, end_work
from broker.coordinators.hanging_transactions import HangingTransactions
from broker.membership.controller_port import Controller
from broker.membership.publisher import Follower, NodeMetadata
from broker.network.dispatch import Dispatcher
from broker.network.server import Server
from broker.node_state import Base, Bound, RegistryPort
from broker.observe.controller_metrics import UncleanElections, register_controller_metrics
from broker.observe.exporter_metrics import register_exporter_metrics
from broker.observe.group_metrics import EndsElsewhere, register_group_metrics
from broker.observe.metrics import NOTE_MS, RecentRates
from broker.observe.node_metrics import register_gauges
from broker.observe.process_metrics import LoopLag, register_process, register_state
from broker.observe.replication_metrics import register_replication
from broker.observe.share_metrics import register_share_metrics
from broker.observe.transaction_metrics import register_transaction_metrics
from broker.process import own_version
from broker.quotas.connection_rates import ConnectionRates
from broker.replication.directory_assignments import CHECK_MS as ASSIGN_MS
from broker.replication.directory_assignments import DirectoryAssignments
from broker.replication.folders import CHECK_MS
from broker.replication.replica_manager import ReplicaManager
from broker.replication_settings import configure_maintenance, schedule_maintenance
from broker.request_context import ClusterMetadata, Coordinators, LocalServices, Services
from broker.security.node_security import CHECK_MS as SECURITY_CHECK_MS
from broker.security.node_security import RENEWAL_MS
from controller import brokers
from metadata.configs import ResourceType
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from protocol import uuids
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager
from timing.clock import Clock

if TYPE_CHECKING:
    from broker.faults.faults import Faults
    from broker.observe.http import HttpServer
    from broker.observe.http_app import Pages
    from broker.tiering.tier_manager import TierManager

logger = structlog.get_logger(__name__)

RETRY_MS = 2_000
"""Time between two attempts to write what there was no room for."""

STARTED_LIKE_KAFKA = (
    "[KafkaServer id={0}] started; [KafkaRaftServer nodeId={0}] Kafka Server started; "
    "Transitioning from RECOVERY to RUNNING"
)
"""What Testcontainers and the suites of clients look for in Kafka's lines, depending on language and version."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts above the network, which read what is on disk: a restored snapshot has all of it made anew."""

    dirs: LogDirs
    services: Services
    metadata: NodeMetadata
    connection_rates: ConnectionRates
    hanging: HangingTransactions
    tier: TierManager | None = None


class Node:
    """A broker, or a controller alone, that serves until `stop` has put everything on disk.

    Attributes:
        parts: what is made anew when a snapshot is restored; the attributes that follow are taken from it.
        changing: held while a snapshot is taken or restored.
    """

    cluster: ClusterMetadata
    controller: Controller
    replicas: ReplicaManager
    coordinators: Coordinators
    local: LocalServices

    def __init__(
        self, base: Base, parts: Parts, dispatcher: Dispatcher, server: Server, bound: Bound, http: HttpServer | None
    ) -> None:
        self.node_id = base.node_id
        self.state = base.state
        self.wheel = base.wheel
        self.base = base
        self.dispatcher, self.server = dispatcher, server
        self.bound = bound
        self.changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._http = http
        self._loop_lag = LoopLag(base.seams.clock.machine, base.metrics.loop_lag_s)
        self._loop_lag.start()
        self._elections = UncleanElections()
        self.faults: Faults | None = None  # only where a test may set some
        self.registry: RegistryPort | None = None  # where its setting asks for one, or a test may
        self.take(parts)

    def take(self, parts: Parts) -> None:
        """Be made of these parts from now on."""
        services = parts.services
        self.parts = parts
        self.cluster = services.cluster
        self.controller = services.controller
        self.replicas = services.replicas
        self.replicas.large_batches.schemas = self.registry
        self.coordinators = services.coordinators
        self.local = services.local
        self.metadata = parts.metadata
        self.connection_rates = parts.connection_rates
        self._hanging = parts.hanging
        self.tier = parts.tier
        self.server.lost = self.local.share.connection_lost, self.local.client_telemetry.connection_lost
        self._is_one_of_several = self.cluster.controller_service is not None or self.local.config.is_in_cluster
        self._periodic = Periodic(self.base.seams.clock)
        self._checks = Periodic(self.base.seams.clock.machine)
        self._assignments = DirectoryAssignments(
            self.node_id,
            lambda: self.metadata.broker_epoch,
            self.cluster.cache,
            self.replicas,
            self.metadata.assign_replicas_to_dirs,
        )

    async def serve_http(self, pages: Pages | None = None) -> int | None:
        """Answer on the port for metrics and health; return its number, or None if it is switched off.

        Other paths are answered by `pages`. Raises ListenError if another process was faster.
        """
        if self._http is None:
            return None
        await self._http.serve(pages)
        return self._http.port

    @property
    def clock(self) -> Clock:
        """The time of Kafka's rules."""
        return self.base.seams.clock

    @property
    def is_busy(self) -> bool:
        """Whether a thread works, or a periodic job: what somebody else may want to see the end of."""
        return self.base.seams.workers.is_busy or self._periodic.is_busy or self.replicas.maintenance.cleaner.is_busy

    # -- the end of the start

    def follow_metadata(self) -> None:
        """List who follows the metadata, in order: the authorizer, replicas, coordinators, configurations, quotas."""
        if self.base.authorizer is not None:
            self.base.authorizer.load(self.cluster.cache.image.acls)
        self.local.tokens.load(self.cluster.cache.image.tokens)
        of_broker = [Follower("replicas", self.replicas.follow, self.replicas.prepare)]
        if self._is_one_of_several:
            of_broker.append(Follower("directories of replicas", self._assignments.follow))
        if self.tier is not None:
            of_broker.append(Follower("tiered storage", self.tier.follow))
        self.metadata.publisher.start(
            [
                Follower("authorizer and tokens", self._rights_changed),
                *(of_broker if self.local.config.is_broker else ()),
                Follower("share coordinator", self.coordinators.share.follow),
                Follower("share partitions", self.local.share.follow),
                Follower("group coordinator", self.coordinators.groups.follow),
                Follower("transaction coordinator", self.coordinators.transactions.follow),
                Follower("configurations", self._configs_changed),
                Follower("client metrics", lambda delta, _: self.local.client_telemetry.follow(delta)),
                Follower("quotas", self._quotas_changed),
                Follower("unclean elections", self._elections.follow),
            ]
        )

    async def enter_cluster(self) -> None:
        """Return once clients may be served; in a cluster, once the controllers have unfenced the node."""
        await self.metadata.enter(self._assignments.reconcile if self._is_one_of_several else None)

    def register_metrics(self) -> None:
        """Register the metrics of the node's parts for `/metrics`."""
        metrics, groups = self.local.metrics, self.coordinators.groups
        rates = self._rates = RecentRates(self.local.clock.machine.monotonic_ms)
        register_replication(metrics, self.replicas)
        cache = self.cluster.cache
        elsewhere = partial(EndsElsewhere, self.node_id, cache, self.cluster.peers.reach)
        several = self._is_one_of_several
        register_group_metrics(metrics, groups, self.replicas, elsewhere() if several else None)
        shares = self.coordinators.share
        register_share_metrics(metrics, shares, self.replicas, elsewhere() if several else None, cache)
        register_transaction_metrics(metrics, self.coordinators.transactions, self.replicas, self.local.clock)
        if self.tier is not None:
            from broker.observe.tier_metrics import register_tier_metrics

            register_tier_metrics(metrics, self.tier)
        log = self.cluster.metadata_log
        if log is None:
            from broker.membership.followed_metadata import FollowedMetadata
            from broker.observe.cluster_metrics import register_cluster_metrics

            assert isinstance(self.metadata, FollowedMetadata)
            register_cluster_metrics(metrics, self.metadata, self.local.clock.machine, rates)
        else:
            register_controller_metrics(metrics, self.node_id, self.cluster.cache, log, self._elections, rates)
            register_state(metrics, lambda: self.state.not_ready)
        addresses = self.bound.addresses
        register_exporter_metrics(
            metrics, self.node_id, self.cluster.cache, self.replicas, lambda: next(iter(addresses.values()), "")
        )
        register_process(metrics, rates)
        register_gauges(
            metrics,
            partitions=self.replicas,
            server=self.server,
            wheel=self.wheel,
            purgatories=(
                self.replicas.fetch_purgatory,
                self.replicas.produce_purgatory,
                self.replicas.delete_purgatory,
            ),
            coordinators_wait=groups.waiting,
            fetch_sessions=self.local.fetch_sessions,
            throttling=self.local.throttling,
            shortages=self.base.log_services.shortages,
            rates=rates,
        )

    def begin_periodic_work(self) -> None:
        """Begin what the node does from time to time, as it serves now."""
        schedule_maintenance(self.replicas.maintenance, self.local.config, self._periodic)
        if self.tier is not None:
            self.tier.start(self._periodic)
        half_of_lag_ms = self.local.config.integer("replica.lag.time.max.ms") // 2
        self._checks.every(half_of_lag_ms, "in-sync replicas", self.replicas.shrink_in_sync_replicas)
        checks = self.state.folder_checks
        if checks is not None:
            self._checks.every(CHECK_MS, "check of the log directories", checks.check)
        self._checks.every(SECURITY_CHECK_MS, "keys and users in files", self.local.security.follow_files)
        self._checks.every(RENEWAL_MS, "certificates of our own", self.local.security.renew_certificates)
        if not self.controller.is_elsewhere:
            pause_ms = self.local.config.integer("delegation.token.expiry.check.interval.ms")
            self._periodic.every(pause_ms, "expired delegation tokens", self._remove_expired_tokens)
        pause_ms = self.local.config.integer("share.coordinator.state.topic.prune.interval.ms")
        self._periodic.every(pause_ms, "pruning of share state", self.coordinators.share.prune)
        self._checks.every(NOTE_MS, "rates", self._rates.note)
        self._checks.every(RETRY_MS, "what there was no room for", self._retry)
        if (service := self.cluster.controller_service) is not None:
            service.start(self._checks, self.local.config)
        if self._is_one_of_several:
            self._checks.every(ASSIGN_MS, "directories of replicas", self._assignments.reconcile)
        self.state.not_ready = None

    def say_where(self) -> None:
        """Log what a person wants to know first: the version, the addresses, where the data is."""
        config = self.local.config
        said = [f"Odradek {own_version()}", *(f"kafka://{address}" for address in self.bound.addresses.values())]
        said += [f"data {os.path.abspath(path)}" for path in config.log_dirs]
        if self._http is not None:
            said.append(f"http://{config.string('odradek.http.host')}:{self._http.port}")
        new = [log_dir.path for log_dir in self.parts.dirs.dirs if log_dir.is_new]
        logger.info("  ".join(said), **{"new_folders": new} if new else {})

    def say_started(self) -> None:
        logger.info(
            "started",
            node=self.node_id,
            cluster=self.cluster.id,
            partitions=len(self.replicas),
            like_kafka=STARTED_LIKE_KAFKA.format(self.node_id),
        )

    # -- changes

    def _configs_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.touched("configs") and any(kind == ResourceType.BROKER for kind, _ in delta.configs.changed):
            current = self.local.current
            current.follow(image)
            self.replicas.reconfigure()
            self._cordon()
            self.server.limits_changed()
            self._start(self.local.security.follow_settings())
            configure_maintenance(self.replicas.maintenance, current.config)

    def _cordon(self) -> None:
        """Apply `cordoned.log.dirs`; in a cluster, the next heartbeat tells its controllers."""
        logs = self.replicas.logs
        logs.dirs.cordon(self.local.config.cordoned_log_dirs)
        if self.metadata.log is not None:
            ids = [uuids.from_text(log_dir.directory_id) for log_dir in logs.dirs.cordoned if log_dir.directory_id]
            self._start(self.metadata.port.submit(lambda image: brokers.cordon(image, self.node_id, ids)))

    def _rights_changed(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if self.base.authorizer is not None and delta.touched("acls"):
            self.base.authorizer.follow(delta.acls.changed)
        if delta.touched("tokens"):
            self.local.tokens.follow(delta.tokens.changed)

    def _quotas_changed(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        if delta.touched("quotas"):
            self.local.throttling.follow(delta.quotas.changed)
            self.connection_rates.follow(delta.quotas.changed)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this soon; the node keeps it until it is done."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _remove_expired_tokens(self) -> None:
        await self.local.tokens.remove_expired(self.cluster.cache.image, self.clock.wall_ms(), self.controller.submit)

    async def _retry(self) -> None:
        """Do what could not be done for want of room."""
        await self.metadata.retry()
        made = await self.replicas.retry()
        self._assignments.logs_made(made)
        self.coordinators.groups.logs_made(made)
        self.coordinators.transactions.logs_made(made)
        self.coordinators.share.logs_made(made)

    # -- stop

    async def stop(self) -> Stopped:
        """Answer what is in flight, flush the logs and record the clean shutdown, as far as the disk allows."""
        self.state.not_ready = "stopping"
        logger.info("stopping")
        await self.metadata.leave()
        self._loop_lag.stop()
        self._stop_coordinating()
        await self.server.stop()
        await self.dispatcher.drain()
        self.metadata.stop_asking()
        stopped = await end_work(self.local.clock.machine, self._last_works(), lambda: self.replicas.logs.closed)
        if self._http is not None:
            await self._http.stop()
        logger.info("stopped")
        return stopped

    async def stop_parts(self) -> None:
        """End all that uses the folders of `log.dirs`, whose contents are about to be exchanged; keep the listeners.

        The files are left as a kill would leave them. Raises KafkaError, OSError.
        """
        self.state.not_ready = "restoring a snapshot"
        self._stop_coordinating()
        await self.dispatcher.drain()
        self.replicas.produce_purgatory.complete_all()
        for work in self._works_of_parts().values():
            await work()
        self.replicas.logs.retire()

    def _stop_coordinating(self) -> None:
        """Answer whoever waits."""
        self.cluster.auto_topics.stopping = True
        self.replicas.stop_waits()
        if self.cluster.controller_service is not None:
            self.cluster.controller_service.observers.stop()
        self._hanging.stop()
        self.local.share.stop()
        self.coordinators.transactions.stop()
        self.coordinators.groups.stop()
        self.coordinators.share.stop()
        self.cluster.peers.close()

    def _last_works(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """List the works that may wait for a device while the node stops, in order."""
        last = self.base.seams.workers.lane("stop")
        close = partial(close_logs, self.replicas.logs, self.metadata)
        return {**self._works_of_parts(), "the logs": lambda: last.call(close)}

    def _works_of_parts(self) -> dict[str, Callable[[], Awaitable[None]]]:
        tier = {} if self.tier is None else {"tiered storage": self.tier.stop}
        return {
            **tier,
            "new topics": self.cluster.auto_topics.stop,
            "replication": self.replicas.stop,
            "moves of logs": self.replicas.moves.stop,
            "compaction": self.replicas.maintenance.stop,
            "periodic jobs": self._periodic.stop,
            "checks": self._checks.stop,
            "the metadata log": self._close_metadata,
        }

    async def _close_metadata(self) -> None:
        if not await self.metadata.close():
            self.replicas.logs.unclean.add(self.metadata.folder)


def close_logs(logs: LogManager, metadata: NodeMetadata) -> None:
    """Flush and close the logs. Blocking, any thread."""
    logs.close(metadata.broker_epoch)

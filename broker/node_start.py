"""The start of a node: its parts are made and opened in the order of `start_node`, and undone if one fails."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from broker import process
from broker.api.table import handler_of
from broker.config.broker_config import BrokerConfig
from broker.config.listeners import Listeners
from broker.config.resource_configs import log_config
from broker.config.structured import parse_start_acls, parse_start_topics, windows_of
from broker.coordinators.group_coordinator import GroupCoordinator
from broker.coordinators.hanging_transactions import HangingTransactions
from broker.coordinators.hosted import Host
from broker.coordinators.share_coordinator import ShareCoordinator, ShareStates
from broker.coordinators.transaction_coordinator import TransactionCoordinator
from broker.folder_opening import lock_folders
from broker.membership.auto_create import AutoTopicCreation
from broker.membership.broker_clients import BrokerClients
from broker.membership.metadata_cache import MetadataCache
from broker.membership.producer_ids import ProducerIds
from broker.membership.publisher import NodeMetadata
from broker.membership.standalone import StandaloneMetadata
from broker.metadata_opening import (
    clients_for_inspection,
    clients_for_transactions,
    cluster_access,
    endpoint,
    joining,
    open_metadata,
)
from broker.network.dispatch import Dispatcher
from broker.network.request import NewRequest
from broker.network.server import Server
from broker.node import Node, Parts, close_logs
from broker.node_state import Base, Bound, Seams, new_base
from broker.observe.client_telemetry import ClientTelemetry
from broker.quotas.connection_rates import ConnectionRates
from broker.quotas.throttling import Throttling
from broker.replication.fetch_session_cache import FetchSessionCache
from broker.replication.folders import FolderChecks
from broker.replication.replica_manager import ReplicaManager
from broker.request_context import ClusterMetadata, Coordinators, LocalServices, RequestContext, Services
from broker.security.delegation_tokens import DelegationTokens
from broker.share.share_partitions import SharePartitions
from controller.acls import decide_create
from metadata.image import MetadataImage
from storage.folders.log_dirs import LogDirs
from storage.folders.log_manager import LogManager

if TYPE_CHECKING:
    from broker.authorization.guard import Guard
    from broker.membership.controller_service import ControllerService
    from broker.observe.http import HttpServer
    from broker.tiering.tier_manager import TierManager


async def start_node(config: BrokerConfig, listeners: Listeners, seams: Seams) -> Node:
    """Recover the data and open the listeners. A failure leaves nothing open, and the data as after a stop.

    Raises LogDirError if a data folder cannot be used, MetadataLogError if the metadata log cannot be, SecurityError if
    keys or users of a listener cannot be, and ListenError if a listener, or the port for metrics and health, cannot be
    bound.
    """
    async with AsyncExitStack() as undo:
        base = new_base(config, seams)
        dirs = lock_folders(base, undo)
        base.credentials.name_cluster(dirs.cluster_id)
        http = await _bind_http(base, [*listeners.hosts, socket.gethostname()], undo)
        opened = await _open_parts(base, dirs, undo, serves_others=bool(listeners.controllers))
        machine = seams.clock.machine
        names = frozenset(listener.name for listener in listeners.controllers)
        dispatcher = Dispatcher(
            opened.new_request, handler_of, base.metrics, machine, opened.limits.throttling, names, _guard(base)
        )
        await base.security.open((*listeners.bound, *listeners.controllers), [*listeners.hosts, socket.gethostname()])
        server = Server(
            base.current,
            machine,
            base.request_wheel,
            base.wheel,
            opened.limits.connection_rates,
            dispatcher,
            base.security.listeners,
            seams.workers.lane("TLS handshakes"),
        )
        bound = await _bind(server, listeners, undo)
        parts = await _start_parts(base, opened, dispatcher, bound, undo)
        node = Node(base, parts, dispatcher, server, bound, http)
        await _serve_metadata(node)
        node.say_where()
        await server.serve()
        undo.pop_all()
    node.begin_periodic_work()
    node.say_started()
    return node


async def restart_parts(node: Node, exchange: Callable[[], None], undo_exchange: Callable[[], None]) -> None:
    """Stop all parts above the network, let `exchange` replace the contents of the folders, and start them anew.

    Connections stay, and their requests wait. What clients know of leader epochs and producer ids stays behind what
    comes. If anything fails, `undo_exchange` is called, the parts are started on what was there before, and the error
    is raised. Both functions block. The node must be alone in its cluster.
    """
    base, workers = node.base, node.base.seams.workers
    former = node.cluster.cache.image
    node.server.hold()
    try:
        await node.stop_parts()
        try:
            await workers.call(exchange)
            await _restart(node, former)
        except BaseException:
            await workers.call(undo_exchange)
            await _restart(node, former)
            raise
    except BaseException as error:
        if node.state.not_ready is not None:
            base.state.cannot_go_on(f"the node could not be started again: {error}")
        raise
    finally:
        node.server.resume()


async def _restart(node: Node, former: MetadataImage) -> None:
    base = node.base
    async with AsyncExitStack() as undo:
        dirs = lock_folders(base, undo, node.parts.dirs)
        opened = await _open_parts(base, dirs, undo, serves_others=bool(node.bound.controllers))
        opened.metadata.rise_above(former)
        parts = await _start_parts(base, opened, node.dispatcher, node.bound, undo)
        node.take(parts)
        node.dispatcher.use(opened.new_request, opened.limits.throttling)
        node.server.use(opened.limits.connection_rates)
        await _serve_metadata(node)
        undo.pop_all()
    node.begin_periodic_work()


async def _serve_metadata(node: Node) -> None:
    """Let everything follow the metadata, from here on."""
    node.follow_metadata()
    await node.enter_cluster()
    config = node.base.current.config
    if config.is_broker:  # a controller alone has no brokers for them yet; these create them
        await node.cluster.auto_topics.create_at_start(parse_start_topics(config.string("odradek.create.topics")))
    if acls := parse_start_acls(config.string("odradek.create.acls")):
        new_id = node.controller.around.new_id
        await node.controller.submit(lambda image: decide_create(image, acls, new_id))
    node.register_metrics()


def _guard(base: Base) -> Guard | None:
    if base.authorizer is None:
        return None
    from broker.authorization.guard import Guard

    return Guard(base.authorizer)


async def _bind_http(base: Base, hosts: list[str], undo: AsyncExitStack) -> HttpServer | None:
    """Take the port for metrics and health now, so that no broker says that it started that will not."""
    config, state = base.current.config, base.state
    if config.integer("odradek.http.port") < 0:
        return None
    from broker.observe.http import HttpServer

    machine = base.seams.clock.machine
    http = HttpServer(config, base.metrics, lambda: state.not_ready, machine, state.problems, hosts)
    undo.push_async_callback(http.stop)
    await http.bind(or_any="odradek.http.port" not in config.given)
    return http


@dataclass(frozen=True, slots=True)
class _Limits:
    """The parts that hold clients back."""

    throttling: Throttling
    connection_rates: ConnectionRates


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts above the network that have read what is on disk, and serve nobody yet."""

    dirs: LogDirs
    metadata: NodeMetadata
    limits: _Limits
    services: Services
    new_request: NewRequest
    service: ControllerService | None


async def _open_parts(base: Base, dirs: LogDirs, undo: AsyncExitStack, *, serves_others: bool) -> _Opened:
    base.metrics.forget_parts()
    metadata = await open_metadata(base, dirs, undo)
    limits = _open_limits(base, metadata.cache)
    replicas = await _open_replicas(base, dirs, metadata, undo, serves_others=serves_others)
    service = _controller_service(base, dirs, metadata) if serves_others else None
    brokers = clients_for_transactions(base, metadata.cache)
    services = _services(base, dirs, metadata, replicas, limits, service, brokers)
    new_request = partial(
        RequestContext,
        services.cluster,
        services.controller,
        services.replicas,
        services.coordinators,
        services.local,
    )
    return _Opened(dirs, metadata, limits, services, new_request, service)


async def _start_parts(
    base: Base, opened: _Opened, dispatcher: Dispatcher, bound: Bound, undo: AsyncExitStack
) -> Parts:
    """Register the broker, host its partitions, and begin to load the coordinators."""
    await opened.metadata.join(joining(base, opened.dirs, bound.advertised, bound.controllers))
    # At the first start the registration has set what holds for the cluster.
    base.current.follow(opened.metadata.cache.image)
    if opened.service is not None:
        _begin_service(opened.service, dispatcher, bound)
    if base.current.config.is_broker:
        await opened.services.replicas.start()
    hanging = _start_coordinators(opened.services, undo)
    tier = await _open_tier(base, opened.services)
    return Parts(opened.dirs, opened.services, opened.metadata, opened.limits.connection_rates, hanging, tier)


async def _open_tier(base: Base, services: Services) -> TierManager | None:
    """The tiered storage, if it is switched on. Raises LogDirError if its store cannot be used."""
    if not base.current.config.boolean("remote.log.storage.system.enable"):
        services.replicas.say_what_is_tiered()
        return None
    from broker.tiering.tier_manager import open_tier

    cluster, seams = services.cluster, base.seams
    wheel, replicas = base.request_wheel, services.replicas
    return await open_tier(
        Host(
            base.node_id,
            base.current,
            cluster.cache,
            cluster.auto_topics,
            seams.random,
            seams.clock,
            wheel,
            replicas,
            cluster.peers,
        )
    )


def _open_limits(base: Base, cache: MetadataCache) -> _Limits:
    config, monotonic_ms = base.current.config, base.seams.clock.monotonic_ms
    throttling = Throttling(config, monotonic_ms)
    throttling.follow(cache.image.quotas)
    connection_rates = ConnectionRates(windows_of(config), monotonic_ms)
    connection_rates.follow(cache.image.quotas)
    return _Limits(throttling, connection_rates)


async def _open_replicas(
    base: Base, dirs: LogDirs, metadata: NodeMetadata, undo: AsyncExitStack, *, serves_others: bool
) -> ReplicaManager:
    """Open the logs of all partitions; they are not hosted before the node leads them."""
    current, cache, workers = base.current, metadata.cache, base.seams.workers

    def topic_id(name: str) -> UUID | None:
        topic = cache.topic(name)
        return None if topic is None else topic.id

    logs = await workers.call(
        lambda: LogManager.open(
            base.log_services,
            dirs,
            lambda topic: log_config(current.config, topic, cache.topic_configs(topic)),
            new_id=base.new_id,
            topic_id_of=topic_id,
            folder_state_of=metadata.folder_state,
            recovery_threads=current.config.integer("num.recovery.threads.per.data.dir"),
            producer_expiration_ms=current.config.integer("producer.id.expiration.ms"),
        )
    )
    undo.push_async_callback(workers.call, partial(close_logs, logs, metadata))
    dirs.cordon(current.config.cordoned_log_dirs)
    logs.on_folder_failed = lambda log_dir: base.state.folder_failed(log_dir, dirs.dirs[0])
    metadata.before_snapshot = logs.sync_folders
    replicas = ReplicaManager(
        base.node_id,
        cache,
        logs,
        lambda topic, configs: log_config(current.config, topic, configs),
        base.request_wheel,
        base.new_id,
        base.metrics.topic_deleted,
        cluster_access(base, metadata, serves_others=serves_others),
    )
    base.state.replicas = replicas
    own = [] if metadata.log is None else [metadata.log.log]
    base.state.folder_checks = FolderChecks(logs, own, process.require_spare_descriptor)
    return replicas


def _controller_service(base: Base, dirs: LogDirs, metadata: NodeMetadata) -> ControllerService | None:
    """Make the service by which a node with its own controller is the controller of other nodes too."""
    if not isinstance(metadata, StandaloneMetadata):
        return None
    from broker.membership.controller_service import ControllerService

    session_timeout_ms = base.current.config.integer("broker.session.timeout.ms")
    clock = base.seams.clock.machine
    return ControllerService(metadata.controller, metadata.log, clock, dirs.cluster_id, session_timeout_ms)


def _begin_service(service: ControllerService, dispatcher: Dispatcher, bound: Bound) -> None:
    """Begin to serve other nodes, as the node leads now, as soon as its listeners are there."""
    service.answer = dispatcher.answer_enveloped
    service.endpoint = endpoint(bound.controllers[0])
    service.begin()


def _services(
    base: Base,
    dirs: LogDirs,
    metadata: NodeMetadata,
    replicas: ReplicaManager,
    limits: _Limits,
    service: ControllerService | None,
    brokers: BrokerClients,
) -> Services:
    current, cache, seams = base.current, metadata.cache, base.seams
    base.credentials.use(cache)
    auto_topics = AutoTopicCreation(current, cache, metadata.port)
    host = Host(base.node_id, current, cache, auto_topics, seams.random, seams.clock, base.wheel, replicas, brokers)
    share_coordinator = ShareCoordinator(host)
    share_states = ShareStates(host, share_coordinator)
    groups = GroupCoordinator(host, share_states)
    producer_ids = ProducerIds(metadata.allocate_producer_ids)
    transactions = TransactionCoordinator(host, groups.runtime, producer_ids)
    config = current.config
    slots = config.integer("max.incremental.fetch.session.cache.slots")
    fetch_sessions = FetchSessionCache(slots, seams.clock.machine.monotonic_ms, seams.random)
    replicas.tell_changes_to(fetch_sessions)
    local = LocalServices(
        base.node_id,
        current,
        seams.clock,
        seams.random,
        base.metrics,
        limits.throttling,
        fetch_sessions,
        ClientTelemetry(cache, base.metrics, seams.clock.machine, seams.workers, config.integer("telemetry.max.bytes")),
        base.security,
        DelegationTokens(current),
        SharePartitions(host, share_states),
    )
    return Services(
        ClusterMetadata(
            dirs.cluster_id, cache, metadata.log, auto_topics, clients_for_inspection(base, cache), service
        ),
        metadata.port,
        replicas,
        Coordinators(groups, transactions, producer_ids, share_coordinator),
        local,
    )


async def _bind(server: Server, listeners: Listeners, undo: AsyncExitStack) -> Bound:
    """Open the listeners, without accepting anybody yet: what is advertised has the ports."""
    undo.push_async_callback(server.stop)
    await server.start((*listeners.bound, *listeners.controllers))
    host_name = socket.gethostname()
    return Bound(
        listeners.with_ports(server.bound),
        listeners.resolve(server.bound, host_name),
        listeners.resolve_controllers(server.bound, host_name),
    )


def _start_coordinators(services: Services, undo: AsyncExitStack) -> HangingTransactions:
    groups, transactions = services.coordinators.groups, services.coordinators.transactions
    for coordinator in (services.coordinators.share, groups, transactions):
        undo.callback(coordinator.stop)
        coordinator.start()
    hanging = HangingTransactions(transactions, groups.runtime, services.replicas, services.local.clock.machine)
    undo.callback(hanging.stop)
    if not services.local.config.is_in_cluster and services.cluster.controller_service is None:
        # In a cluster, transactions of other nodes' coordinators are not known here.
        hanging.start()
    return hanging

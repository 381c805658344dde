"""The first part of a node's start: its metadata, its own or those of the cluster that it belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from broker.config.broker_config import BrokerConfig
from broker.config.controllers import (
    CONTROLLER_MECHANISM,
    INTER_BROKER_MECHANISM,
    inter_broker_listener,
    listener_of_brokers,
    listener_of_controllers,
)
from broker.config.listeners import Listener
from broker.membership.broker_clients import BrokerClients
from broker.membership.config_schema import NodeConfigSchema
from broker.membership.metadata_cache import MetadataCache, endpoint_of
from broker.membership.publisher import Joining, NodeMetadata
from broker.membership.standalone import StandaloneMetadata
from broker.node_state import Base
from broker.peers.client import INSPECTION_CLIENT_ID, PeerClient, PeerClients, PeerNetwork, PeerSettings, ask_versions
from broker.replication.cluster_access import ALONE, ClusterAccess
from broker.replication_settings import settings_of_now
from controller.brokers import Registration
from controller.decision import Surroundings
from protocol import uuids
from protocol.metadata.brokers import Endpoint
from storage.folders.log_dirs import UNKNOWN_EPOCH, LogDirs

if TYPE_CHECKING:
    from broker.membership.followed_metadata import FollowedMetadata

INSPECTION_TIMEOUT_MS = 2_000
"""Somebody waits for the answer: a broker that gives none for so long is told of instead."""

NO_METADATA = (
    "there is no metadata in {}, the first folder of log.dirs. Name the folder first that has __cluster_metadata-0, "
    "or restore it; otherwise all partitions would become strays."
)
"""After a change of the order of `log.dirs`, say, or if the first folder's disk is not mounted."""

NO_BROKER = (
    "process.roles is controller alone, and such a node has no partitions. Give it a folder of its own, or let it be a "
    "broker too until they are moved to other brokers."
)

NO_CLUSTER_ID = (
    "it is not known which cluster this node belongs to, since the folders of log.dirs are new. Format them with the "
    "id that the controllers have (`odradek format --cluster-id ID --config FILE`), or set odradek.cluster.id to it"
)


async def open_metadata(base: Base, dirs: LogDirs, undo: AsyncExitStack) -> NodeMetadata:
    """Read the metadata; from here on the dynamic configurations count.

    Raises LogDirError if a node that stands alone has partitions and no metadata: they would all become strays.
    """
    current = base.current
    around = Surroundings(NodeConfigSchema(lambda: current.config), base.new_id, base.node_id, base.state.is_offline)
    metadata: NodeMetadata
    if current.config.is_in_cluster:
        metadata = await _follow(base, dirs, around, undo)
    else:
        metadata = await _read_own(base, dirs, around, undo)
    metadata.on_failure = base.state.cannot_go_on
    base.state.metadata_problems = metadata.problems
    current.follow(metadata.cache.image)
    return metadata


async def _read_own(base: Base, dirs: LogDirs, around: Surroundings, undo: AsyncExitStack) -> StandaloneMetadata:
    folder = dirs.dirs[0]
    directory_id = uuids.from_text(folder.directory_id)
    metadata = await StandaloneMetadata.open(
        base.log_services, folder.path, base.node_id, directory_id, MetadataCache(), around, clean=folder.clean
    )
    undo.push_async_callback(metadata.log.close)
    if not base.current.config.is_broker:
        dirs.require_no_partitions(NO_BROKER)
    elif metadata.is_new:
        dirs.require_no_partitions(NO_METADATA.format(folder.path))
    return metadata


async def _follow(base: Base, dirs: LogDirs, around: Surroundings, undo: AsyncExitStack) -> FollowedMetadata:
    from broker.membership.followed_metadata import Belonging, FollowedMetadata

    who = Belonging(
        base.node_id,
        dirs.cluster_id,
        [uuids.from_text(each.directory_id) for each in dirs.dirs if each.directory_id],
        lambda: [uuids.from_text(each.directory_id) for each in dirs.dirs if each.failed and each.directory_id],
        lambda: cordoned(base.current.config, dirs),
    )
    network = _network(base, listener_of_controllers(base.current.config), CONTROLLER_MECHANISM)
    metadata = FollowedMetadata(
        base.log_services, dirs.dirs[0].path, who, base.current.config, MetadataCache(), around, network
    )
    undo.push_async_callback(metadata.close)
    await metadata.open()
    return metadata


def _network(base: Base, listener: Listener, mechanism_setting: str) -> PeerNetwork:
    """How connections to such listeners of other nodes are opened."""
    seams = base.seams
    network = PeerNetwork(seams.clock.machine, seams.random, base.state.cuts.connect)
    if not listener.uses_tls and not listener.uses_sasl:
        return network
    from broker.security.as_client import secured

    return secured(network, base.current, listener, seams.workers, mechanism_setting)


def cluster_access(base: Base, metadata: NodeMetadata, *, serves_others: bool) -> ClusterAccess:
    """How this node's replicas reach the controller and other brokers, if there are any.

    `serves_others`: the node's own controller is that of other nodes too.
    """
    if not serves_others and not base.current.config.is_in_cluster:
        return ALONE
    return ClusterAccess(
        lambda: metadata.broker_epoch,
        metadata.alter_partition,
        partial(_new_client, base, metadata.cache),
        settings_of_now(base.current),
    )


def _new_client(base: Base, cache: MetadataCache, node_id: int) -> PeerClient | None:
    """A new client of another broker, for a fetcher."""
    config = base.current.config
    endpoint = endpoint_of(cache.image, node_id, inter_broker_listener(config))
    if endpoint is None:
        return None
    network = _network(base, listener_of_brokers(config), INTER_BROKER_MECHANISM)
    settings = PeerSettings(f"broker-{base.node_id}-fetcher", config.integer("replica.socket.timeout.ms"))
    return PeerClient(endpoint.host, endpoint.port, settings, network, ask_versions)


def clients_for_transactions(base: Base, cache: MetadataCache) -> BrokerClients:
    """How this node's transaction coordinators and leaders reach those of other brokers."""
    return _clients(base, cache, PeerSettings(f"broker-{base.node_id}-transactions"))


def clients_for_inspection(base: Base, cache: MetadataCache) -> BrokerClients:
    """How this node asks other brokers what they lead and coordinate, for whoever asks this node about the cluster."""
    return _clients(base, cache, PeerSettings(INSPECTION_CLIENT_ID, INSPECTION_TIMEOUT_MS))


def _clients(base: Base, cache: MetadataCache, settings: PeerSettings) -> BrokerClients:
    network = _network(base, listener_of_brokers(base.current.config), INTER_BROKER_MECHANISM)
    clients = PeerClients(settings, network, ask_versions)
    return BrokerClients(cache, inter_broker_listener(base.current.config), clients)


def endpoint(listener: Listener) -> Endpoint:
    """A listener as it is registered."""
    return Endpoint(
        name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.protocol_number
    )


def cordoned(config: BrokerConfig, dirs: LogDirs) -> list[UUID]:
    """The ids of the folders that get no new replicas."""
    paths = config.cordoned_log_dirs
    return [
        uuids.from_text(each.directory_id)
        for each in dirs.dirs
        if each.directory_id and os.path.abspath(each.path) in paths
    ]


def joining(base: Base, dirs: LogDirs, advertised: Mapping[str, Listener], controllers: Sequence[Listener]) -> Joining:
    """All that this run of the node joins its cluster with, or begins a cluster with."""
    config = base.current.config
    registration = Registration(
        base.node_id,
        base.new_id(),
        [endpoint(listener) for listener in advertised.values()],
        [endpoint(listener) for listener in controllers],
        config.optional_string("broker.rack"),
        [uuids.from_text(log_dir.directory_id) for log_dir in dirs.dirs if log_dir.directory_id],
        is_broker=config.is_broker,
        cordoned=cordoned(config, dirs),
    )
    return Joining(registration, _last_clean_epoch(dirs), config.integer("min.insync.replicas"))


def _last_clean_epoch(dirs: LogDirs) -> int:
    """The broker epoch of the last run, if all folders were closed by it in good order (KIP-966)."""
    closed_in = {each.closed_in if each.clean and not each.failed else UNKNOWN_EPOCH for each in dirs.dirs}
    return closed_in.pop() if len(closed_in) == 1 else UNKNOWN_EPOCH

"""What partitions are made of in tests: their state in the image, and what their node's leaders share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from broker.membership.metadata_cache import MetadataCache
from broker.replication.cluster_access import ALONE
from broker.replication.leading.alter_partition import AlterPartition
from broker.replication.leading.leader_state import Replication
from metadata.brokers import BrokerRegistration, ClusterImage
from metadata.image import MetadataImage
from metadata.maps import Map
from metadata.topics import PartitionRegistration
from timing.clock import Clock

NODE = 1
LAG_MS = 30_000


def state(
    leader_epoch: int = 0,
    *,
    leader: int = NODE,
    replicas: tuple[int, ...] = (NODE,),
    isr: tuple[int, ...] | None = None,
    partition_epoch: int | None = None,
) -> PartitionRegistration:
    """A partition in the image; without `partition_epoch`, each leader epoch begins a hundred of them."""
    return PartitionRegistration(
        replicas=replicas,
        directories=(None,) * len(replicas),
        isr=replicas if isr is None else isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch * 100 if partition_epoch is None else partition_epoch,
    )


def alone(clock: Clock) -> Replication:
    """Of a node that is its own cluster."""
    return replication(clock, ALONE.ask_controller)


def replication(
    clock: Clock, ask: Callable[[Any], Awaitable[Any]], brokers: tuple[int, ...] = (1, 2, 3), lag_ms: int = LAG_MS
) -> Replication:
    """Of a node in a cluster of these brokers, whose epochs are ten times their ids."""
    cache = MetadataCache(MetadataImage(cluster=ClusterImage(Map({one: broker(one) for one in brokers}))))
    controller = AlterPartition(NODE, lambda: NODE * 10, ask, clock)
    return Replication(NODE, clock, cache, controller, lambda: lag_ms, lambda _key: None)


def broker(node_id: int, epoch: int | None = None, *, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(
        node_id, node_id * 10 if epoch is None else epoch, UUID(int=node_id), Map(), Map(), fenced=fenced
    )

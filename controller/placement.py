"""Which brokers get the replicas of new partitions (Kafka's `StripedReplicaPlacer`, `ReplicationControlManager`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest
from uuid import UUID

from metadata.brokers import BrokerRegistration, ClusterImage
from metadata.topics import PartitionRegistration
from protocol.errors import InvalidReplicaAssignment, InvalidReplicationFactor

UNASSIGNED = UUID(int=1)
"""The directory of a replica whose broker will choose one of its several (KIP-858)."""


def place(
    cluster: ClusterImage, partition_count: int, replication_factor: int, start: int = 0
) -> list[PartitionRegistration]:
    """Spread new partitions over the brokers; `start` is the number of the broker that gets the first leader.

    Replicas of a partition lie in different racks, as far as there are such. Raises InvalidReplicationFactor.
    """
    brokers = _alternating_racks(cluster.alive())
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The replication factor {replication_factor} cannot be reached: "
            f"{len(brokers)} broker(s) are registered and not fenced. Ask for fewer replicas, or start more brokers."
        )
    return [
        new_partition(
            cluster,
            [brokers[(start + index + replica) % len(brokers)].id for replica in range(replication_factor)],
        )
        for index in range(partition_count)
    ]


def _alternating_racks(brokers: Sequence[BrokerRegistration]) -> list[BrokerRegistration]:
    """The brokers in an order in which neighbours are of different racks, as far as that is possible."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or "", []).append(broker)
    return [broker for broker in chain(*zip_longest(*racks.values())) if broker is not None]


def new_partition(cluster: ClusterImage, replicas: Sequence[int]) -> PartitionRegistration:
    """A new partition: its live replicas are in sync, and the first of these leads.

    Raises InvalidReplicaAssignment if none is alive.
    """
    isr = tuple(node_id for node_id in replicas if not cluster.brokers[node_id].fenced)
    if not isr:
        raise InvalidReplicaAssignment(
            f"All brokers of the replica list {_list(replicas)} are fenced. Name one that is up."
        )
    directories = tuple(_directory(cluster.brokers[node_id]) for node_id in replicas)
    return PartitionRegistration(tuple(replicas), directories, isr, leader=isr[0], leader_epoch=0, partition_epoch=0)


def _directory(broker: BrokerRegistration) -> UUID | None:
    """The log directory of a new replica: a broker's only one, or for the broker to choose."""
    return broker.directories[0] if len(broker.directories) == 1 else UNASSIGNED


def check_replicas(cluster: ClusterImage, replicas: Sequence[int]) -> None:
    """Raises InvalidReplicaAssignment unless `replicas` are different registered brokers, and at least one."""
    if not replicas:
        raise InvalidReplicaAssignment("A partition needs at least one replica; the replica list is empty.")
    for node_id in replicas:
        if node_id not in cluster.brokers:
            raise InvalidReplicaAssignment(f"Broker {node_id} of the replica list {_list(replicas)} is not registered.")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"The replica list {_list(replicas)} names a broker more than once.")


def _list(replicas: Sequence[int]) -> str:
    return ", ".join(map(str, replicas))

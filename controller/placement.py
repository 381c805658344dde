"""Which brokers get the replicas of new partitions (Kafka's `StripedReplicaPlacer`, `ReplicationControlManager`).

Partitions are spread in stripes. Each begins one rack after the one before it, and takes a broker of each rack in turn;
within a rack it begins one broker further. Brokers that are fenced, or whose directories are all cordoned, come last
or not at all, and never first: the first replica leads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from controller.replica_rules import default_directory
from metadata.brokers import BrokerRegistration, ClusterImage
from metadata.topics import PartitionRegistration
from protocol.errors import InvalidReplicaAssignment, InvalidReplicationFactor


def place(
    cluster: ClusterImage, partition_count: int, replication_factor: int, seed: int = 0
) -> list[PartitionRegistration]:
    """Spread new partitions over the brokers; `seed` chooses where the first begins. Raises InvalidReplicationFactor.

    Replicas of a partition lie in different racks, as far as there are such.
    """
    usable = [broker for broker in cluster.brokers.values() if _is_usable(broker)]
    if replication_factor > len(usable):
        raise InvalidReplicationFactor(
            f"The replication factor {replication_factor} cannot be reached: {len(usable)} broker(s) are registered. "
            "Ask for fewer replicas, or start more brokers."
        )
    if all(broker.fenced for broker in usable):
        raise InvalidReplicationFactor("All brokers are fenced. Start one of them.")
    stripes = _stripes(usable, replication_factor, Random(seed))
    return [new_partition(cluster, next(stripes)) for _ in range(partition_count)]


def _is_usable(broker: BrokerRegistration) -> bool:
    """Whether new replicas may be placed there: it does not shut down, and not all its directories are cordoned."""
    is_leaving = broker.in_controlled_shutdown and not broker.fenced
    is_cordoned = bool(broker.directories) and set(broker.directories) <= set(broker.cordoned_directories or ())
    return not (is_leaving or is_cordoned)


def _stripes(brokers: Sequence[BrokerRegistration], factor: int, random: Random) -> Iterator[list[int]]:
    """The replicas of one partition after the other, without an end."""
    racks: dict[str, list[BrokerRegistration]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    names = sorted(racks)
    begin = {name: random.randrange(len(racks[name])) for name in names}
    at = random.randrange(len(names))
    round_length = sum(not broker.fenced for broker in brokers)
    number = 0
    while True:
        order = names[at:] + names[:at]
        queues = [_from(racks[name], begin[name]) for name in order]
        yield _stripe(queues, factor)
        at = (at + 1) % len(names)
        begin = {name: begin[name] + 1 for name in names}
        number += 1
        if number % round_length == 0:  # the same stripes would come again
            random.shuffle(names)
            for members in racks.values():
                random.shuffle(members)


def _from(rack: Sequence[BrokerRegistration], begin: int) -> list[BrokerRegistration]:
    """The brokers of a rack: those that are up, from that one on, then the fenced ones likewise."""
    up = [broker for broker in rack if not broker.fenced]
    fenced = [broker for broker in rack if broker.fenced]
    return [*_rotated(up, begin), *_rotated(fenced, begin)]


def _rotated(brokers: list[BrokerRegistration], begin: int) -> list[BrokerRegistration]:
    at = begin % len(brokers) if brokers else 0
    return brokers[at:] + brokers[:at]


def _stripe(queues: list[list[BrokerRegistration]], factor: int) -> list[int]:
    """One broker of each rack in turn, the first of them one that is up."""
    first = next(at for at, queue in enumerate(queues) if queue and not queue[0].fenced)
    replicas = [queues[first].pop(0).id]
    turn = 0
    while len(replicas) < factor:
        if turn == first:
            first = -1  # it had its turn already
        elif queues[turn]:
            replicas.append(queues[turn].pop(0).id)
        turn = (turn + 1) % len(queues)
    return replicas


def new_partition(cluster: ClusterImage, replicas: Sequence[int]) -> PartitionRegistration:
    """A new partition: its live replicas are in sync, and the first of these leads.

    Raises InvalidReplicaAssignment if none is alive.
    """
    isr = tuple(node_id for node_id in replicas if cluster.brokers[node_id].is_active)
    if not isr:
        raise InvalidReplicaAssignment(
            f"All brokers of the replica list {_list(replicas)} are fenced or shut down. Name one that is up."
        )
    directories = tuple(default_directory(cluster.brokers[node_id]) for node_id in replicas)
    return PartitionRegistration(tuple(replicas), directories, isr, leader=isr[0], leader_epoch=0, partition_epoch=0)


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

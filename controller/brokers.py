"""The broker that runs with this controller: its registration at each start, and its shutdown (KIP-631).

A start registers the broker anew and elects it where it may lead. If it was not shut down cleanly, its partitions lose
their leader first, as they do in a clean shutdown: between two runs the leader epochs of what it led rise by two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controller import broker_changes
from controller.broker_changes import image_after
from controller.decision import ConfigSchema, Decision
from controller.features import DEFAULTS, SUPPORTED
from controller.partition_change import PartitionChange
from controller.replica_rules import MIN_ISR, ReplicaRules, min_isr_record
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import MetadataImage
from metadata.settings import METADATA_VERSION
from protocol.metadata.brokers import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
)
from protocol.metadata.topics import FeatureLevelRecord


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node registers: ids, listeners of its broker and of its controller, rack, ids of log directories.

    `is_broker`: it is not a controller alone, which registers no broker.
    `cordoned`: those of the directories that get no new replicas.
    """

    broker_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    controller_endpoints: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[UUID]
    is_broker: bool = True
    cordoned: Sequence[UUID] = ()


def bootstrap(image: MetadataImage, min_insync_replicas: int) -> Decision[None]:
    """Make a new cluster's first records: the feature levels, and `min.insync.replicas` as it is at the first start.

    Of this KIP-966 says that it is then set for the cluster, and stays.
    """
    records: list[Any] = []
    if not image.features:
        names = sorted(DEFAULTS, key=lambda name: (name != METADATA_VERSION, name))
        records += [FeatureLevelRecord(name=name, feature_level=DEFAULTS[name]) for name in names]
    if MIN_ISR not in image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT):
        records.append(min_isr_record(CLUSTER_DEFAULT, str(min_insync_replicas)))
    return Decision(records, None)


def resign(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Decision[None]:
    """A broker that was not shut down cleanly leads nothing, until it is registered again.

    Deviation: where it is the only replica it is elected without a recovery, since no other can have more.
    """
    former = image.cluster.brokers.get(broker_id)
    is_clean = former is None or former.fenced
    return Decision([] if is_clean else list(broker_changes.crashed(image, schema, broker_id, keeps_alone=True)), None)


def register(image: MetadataImage, new: Registration, next_offset: int) -> Decision[int]:
    """Register the broker, fenced.

    `next_offset` is that of the first of these records. The response is the broker epoch: the registration's offset.
    """
    epoch = next_offset + 1
    return Decision([_controller(new), _broker(new, epoch)], epoch)


def register_controller(new: Registration) -> Decision[None]:
    """Register a node that is a controller alone."""
    return Decision([_controller(new)], None)


def elect(image: MetadataImage, schema: ConfigSchema, new: Registration) -> Decision[None]:
    """Unfence a broker that was registered, and let it lead what it may.

    If it has one directory, all its replicas are noted to lie there, wherever they lay before.
    """
    moved = list(_moved(image, schema, new)) if len(new.directories) == 1 else []
    unfenced = broker_changes.unfence(image_after(image, moved), schema, new.broker_id)
    return Decision([*moved, *unfenced], None)


def _moved(image: MetadataImage, schema: ConfigSchema, new: Registration) -> Iterator[Any]:
    """The records by which the broker's replicas that lay in another directory lie in its only one."""
    rules = ReplicaRules(image, schema)
    for topic in image.topics.sorted():
        for index, partition in topic.in_order():
            known = dict(zip(partition.replicas, partition.directories, strict=False))
            if known.get(new.broker_id, new.directories[0]) != new.directories[0]:
                change = PartitionChange(rules, topic, index)
                change.directories = {new.broker_id: new.directories[0]}
                yield change.record()


def shut_down(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Decision[None]:
    """The broker leads nothing any more, and is fenced (controlled shutdown)."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return Decision([], None)
    begun = list(broker_changes.begin_controlled_shutdown(image, schema, broker_id))
    fenced = broker_changes.fence(image_after(image, begun), schema, broker_id)
    return Decision([*begun, *fenced], None)


def cordon(image: MetadataImage, broker_id: int, directories: Sequence[UUID]) -> Decision[None]:
    """These directories of the broker, and no others, get no new replicas (KIP-1066)."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or set(directories) == set(broker.cordoned_directories or ()):
        return Decision([], None)
    changed = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=tuple(directories)
    )
    return Decision([changed], None)


def _broker(new: Registration, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=new.broker_id,
        incarnation_id=new.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(new.endpoints),
        features=tuple(_supported()),
        rack=new.rack,
        fenced=True,
        log_dirs=tuple(new.directories),
        cordoned_log_dirs=tuple(new.cordoned) or None,
    )


def _controller(new: Registration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=new.broker_id,
        incarnation_id=new.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(new.controller_endpoints),
        features=tuple(_supported()),
    )


def _supported() -> Iterator[SupportedFeature]:
    for name, (lowest, highest) in SUPPORTED.items():
        yield SupportedFeature(name=name, min_supported_version=lowest, max_supported_version=highest)

"""Registration and shutdown of the broker that runs with this controller (KIP-631; Kafka's `ClusterControlManager`).

A start registers the broker anew and elects it where it may lead. If it was not shut down cleanly, its partitions lose
their leader first, as they do in a clean shutdown: between two runs the leader epochs rise by two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controller import elections
from controller.decision import Decision
from controller.features import DEFAULTS, SUPPORTED
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.settings import METADATA_VERSION
from protocol.metadata.brokers import (
    BrokerRegistrationChangeRecord,
    Endpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
)
from protocol.metadata.settings import ConfigRecord, FeatureLevelRecord

UNFENCED, FENCED = -1, 1
MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node says of itself: ids, listeners of its broker and of its controller, rack, ids of log directories."""

    broker_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    controller_endpoints: Sequence[Endpoint]
    rack: str | None
    directories: Sequence[UUID]


def bootstrap(image: MetadataImage, min_insync_replicas: int) -> Decision[None]:
    """What a new cluster begins with: the feature levels, and `min.insync.replicas` as it is at the first start.

    Of this KIP-966 says that it is then set for the cluster, and stays.
    """
    records: list[Any] = []
    if not image.features:
        names = sorted(DEFAULTS, key=lambda name: (name != METADATA_VERSION, name))
        records += [FeatureLevelRecord(name=name, feature_level=DEFAULTS[name]) for name in names]
    if MIN_ISR not in image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT):
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name=CLUSTER_DEFAULT,
                name=MIN_ISR,
                value=str(min_insync_replicas),
            )
        )
    return Decision(records, None)


def register(image: MetadataImage, new: Registration, next_offset: int) -> Decision[int]:
    """Register, unfence and elect the broker.

    `next_offset` is that of the first of these records. The response is the broker epoch: the registration's offset.
    """
    former = image.cluster.brokers.get(new.broker_id)
    records = [] if former is None or former.fenced else list(elections.resign(image, new.broker_id))
    records.append(_controller(new))
    epoch = next_offset + len(records)
    records.append(_broker(new, epoch))
    records.append(BrokerRegistrationChangeRecord(broker_id=new.broker_id, broker_epoch=epoch, fenced=UNFENCED))
    directory = new.directories[0] if len(new.directories) == 1 else None
    records += elections.elect(_after(image, records), new.broker_id, directory)
    return Decision(records, epoch)


def shut_down(image: MetadataImage, broker_id: int) -> Decision[None]:
    """The broker leads nothing any more, and is fenced (controlled shutdown)."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return Decision([], None)
    return Decision(
        [
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1),
            *elections.resign(image, broker_id),
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCED),
        ],
        None,
    )


def _after(image: MetadataImage, records: Iterable[Any]) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset, image.epoch, image.timestamp_ms)


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

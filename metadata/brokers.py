"""The cluster's brokers and controllers (Kafka's `ClusterImage`, `BrokerRegistration`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from metadata.maps import Map
from protocol.metadata.brokers import Endpoint

Record = Any
"""A record of `protocol.metadata.brokers`."""

FEATURE_RANGE = tuple[int, int]


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A registered broker.

    `epoch` is the offset of its registration; `features` has the lowest and highest level that it supports of each;
    `directories` are the ids of its log directories. A fenced broker leads nothing and is named to no client.
    """

    id: int
    epoch: int
    incarnation_id: UUID
    listeners: Map[str, Endpoint]
    features: Map[str, FEATURE_RANGE]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[UUID | None, ...] = ()
    cordoned_directories: tuple[UUID | None, ...] | None = None

    @property
    def is_active(self) -> bool:
        """Whether it may lead: it is neither fenced nor shutting down."""
        return not (self.fenced or self.in_controlled_shutdown)

    @classmethod
    def of(cls, record: Record) -> BrokerRegistration:
        """The broker of a RegisterBrokerRecord."""
        return cls(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            listeners_of(record.end_points),
            features_of(record.features),
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            record.log_dirs,
            record.cordoned_log_dirs,
        )

    def merge(self, change: Record) -> BrokerRegistration:
        """The broker after a BrokerRegistrationChangeRecord."""
        return replace(
            self,
            fenced=change.fenced > 0 if change.fenced else self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown or bool(change.in_controlled_shutdown),
            directories=change.log_dirs or self.directories,
            cordoned_directories=_or(change.cordoned_log_dirs, self.cordoned_directories),
        )


def _or(new: tuple[UUID | None, ...] | None, old: tuple[UUID | None, ...] | None) -> tuple[UUID | None, ...] | None:
    return old if new is None else new


def listeners_of(endpoints: Iterable[Endpoint]) -> Map[str, Endpoint]:
    return Map({endpoint.name: endpoint for endpoint in endpoints})


def features_of(features: Iterable[Any]) -> Map[str, FEATURE_RANGE]:
    return Map({each.name: (each.min_supported_version, each.max_supported_version) for each in features})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Brokers by id, and the records of the registered controllers by id."""

    brokers: Map[int, BrokerRegistration] = Map()
    controllers: Map[int, Record] = Map()

    def alive(self) -> list[BrokerRegistration]:
        """The brokers that are not fenced, by id."""
        return [self.brokers[node_id] for node_id in sorted(self.brokers) if not self.brokers[node_id].fenced]


class ClusterDelta:
    """Changes of records to brokers and controllers; `changed` has None for a broker that is gone."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self.changed: dict[int, BrokerRegistration | None] = {}
        self._controllers = image.controllers.mutate()

    def register(self, record: Record) -> None:
        self.changed[record.broker_id] = BrokerRegistration.of(record)

    def unregister(self, record: Record) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self.changed[record.broker_id] = None

    def fence(self, record: Record) -> None:
        self.changed[record.id] = replace(self._broker(record.id, record.epoch), fenced=True)

    def unfence(self, record: Record) -> None:
        self.changed[record.id] = replace(self._broker(record.id, record.epoch), fenced=False)

    def change(self, record: Record) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self.changed[record.broker_id] = broker.merge(record)

    def register_controller(self, record: Record) -> None:
        self._controllers[record.controller_id] = record

    def unregister_controller(self, record: Record) -> None:
        self._controllers.pop(record.controller_id, None)

    def _broker(self, node_id: int, epoch: int) -> BrokerRegistration:
        """The broker as it is now. Raises KeyError if it is not registered with this epoch."""
        broker = self.changed[node_id] if node_id in self.changed else self._image.brokers.get(node_id)
        if broker is None or broker.epoch != epoch:
            raise KeyError(f"no broker {node_id} is registered with epoch {epoch}")
        return broker

    def apply(self) -> ClusterImage:
        brokers = self._image.brokers.mutate()
        for node_id, broker in self.changed.items():
            if broker is None:
                brokers.pop(node_id, None)
            else:
                brokers[node_id] = broker
        return ClusterImage(brokers.finish(), self._controllers.finish())

"""BrokerRegistration: a broker joins the cluster (KIP-631, KIP-858, KIP-966; Kafka's `ClusterControlManager`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

from kio.schema.broker_registration.v4 import BrokerRegistrationRequest

from controller import broker_changes
from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import ConfigSchema, Decision
from controller.replica_rules import RESERVED
from metadata.brokers import FEATURE_RANGE, BrokerRegistration
from metadata.image import MetadataImage
from metadata.settings import METADATA_VERSION
from protocol.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from protocol.metadata.brokers import Endpoint, RegisterBrokerRecord, SupportedFeature

ORIGINAL_METADATA_VERSION: FEATURE_RANGE = (1, 1)
"""What a broker works with that says nothing of `metadata.version`."""
NOT_SUPPORTED: FEATURE_RANGE = (0, 0)


def decide(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    schema: ConfigSchema,
    *,
    cluster_id: str,
    is_alive: bool,
    next_offset: int,
) -> Decision[int | None]:
    """Register a broker, fenced; the response is its epoch, which is the offset of the registration.

    While the incarnation before this one still has many partitions, the response is None: the next step is to be
    decided. A new incarnation of a known broker must wait until the session of the one before it is over (`is_alive`).
    The same incarnation may register again, with the same epoch. `next_offset` is that of the first of these records.

    Raises InconsistentClusterId, DuplicateBrokerRegistration, InvalidRegistration, UnsupportedVersion.
    """
    if request.cluster_id != cluster_id:
        raise InconsistentClusterId(f"The cluster id here is {cluster_id}, the broker's is {request.cluster_id}.")
    former = image.cluster.brokers.get(request.broker_id)
    is_same = former is not None and former.incarnation_id == request.incarnation_id
    if is_alive and not is_same:
        raise DuplicateBrokerRegistration(f"Another broker is registered with the id {request.broker_id}, and is up.")
    _check_directories(image, request)
    _check_listeners(request)
    features = _checked_features(image.features, request)
    records: list[Any] = []
    if not is_same:
        records += islice(_end_former(image, schema, request, former), MOST_IN_A_STEP)
        if len(records) == MOST_IN_A_STEP:
            return Decision(records, None)
    epoch = former.epoch if is_same and former is not None else next_offset + len(records)
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=tuple(_endpoints(request)),
            features=tuple(features),
            rack=request.rack,
            fenced=former.fenced if is_same and former is not None else True,
            in_controlled_shutdown=is_same and former is not None and former.in_controlled_shutdown,
            log_dirs=request.log_dirs,
        )
    )
    return Decision(records, epoch)


def _end_former(
    image: MetadataImage,
    schema: ConfigSchema,
    request: BrokerRegistrationRequest,
    former: BrokerRegistration | None,
) -> Iterator[Any]:
    """The end of the incarnation before this one, if nobody has seen it yet.

    After a clean shutdown, which the epoch proves, the broker has all that it had. After any other it may have lost
    records, and is eligible nowhere.
    """
    if former is not None and request.previous_broker_epoch == former.epoch:
        return broker_changes.leave(image, schema, request.broker_id)
    return broker_changes.crashed(image, schema, request.broker_id)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise InvalidRegistration("The request names no log directory. A broker has at least one.")
    if any(directory in RESERVED for directory in directories):
        raise InvalidRegistration("The request has a reserved id of a log directory.")
    if len(set(directories)) < len(directories):
        raise InvalidRegistration("The request has the id of a log directory twice.")
    for other in image.cluster.brokers.values():
        taken: set[UUID | None] = set(directories).intersection(other.directories)
        if taken and other.id != request.broker_id:
            raise InvalidRegistration(f"Broker {other.id} is registered with a log directory of the same id.")


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    """Deviation: Kafka 4.4's controller gives up its leadership over a port of 0."""
    for listener in request.listeners:
        if not listener.port:
            raise InvalidRegistration(f"The listener {listener.name} has port 0. Register the port that was opened.")


def _checked_features(finalized: Mapping[str, int], request: BrokerRegistrationRequest) -> Iterator[SupportedFeature]:
    """The broker's features. Raises UnsupportedVersion unless it can work with every finalized level."""
    supported = {each.name: (each.min_supported_version, each.max_supported_version) for each in request.features}
    supported.setdefault(METADATA_VERSION, ORIGINAL_METADATA_VERSION)
    for name in {**supported, **finalized}:
        level = finalized.get(name, 1 if name == METADATA_VERSION else 0)
        lowest, highest = supported.get(name, NOT_SUPPORTED)
        if not lowest <= level <= highest:
            raise UnsupportedVersion(
                f"Broker {request.broker_id} does not support level {level} of {name}, which is finalized; it supports "
                f"the levels {lowest} to {highest}."
            )
    return (
        SupportedFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in supported.items()
    )


def _endpoints(request: BrokerRegistrationRequest) -> Iterable[Endpoint]:
    for each in request.listeners:
        yield Endpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)


def require_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker. Raises StaleBrokerEpoch unless it is registered with this epoch."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"No broker with the id {broker_id} is registered.")
    if broker.epoch != epoch:
        raise StaleBrokerEpoch(f"The epoch of broker {broker_id} is {broker.epoch}, not {epoch}.")
    return broker


def unregister(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Decision[bool]:
    """UnregisterBroker: the broker is no part of the cluster any more. Raises BrokerIdNotRegistered.

    While it still has many partitions, the response is False: the next step is to be decided.
    """
    if broker_id not in image.cluster.brokers:
        raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
    return Decision(*broker_changes.unregister(image, schema, broker_id))

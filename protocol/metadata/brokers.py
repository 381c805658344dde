"""Records of the cluster's brokers and controllers: registration, fencing, and features they support (KIP-631)."""

from __future__ import annotations

from typing import Annotated

from ..declared import Bool, Int8, Int16, Int32, Int64, Placed, String, Uint16, Uuid, record


@record()
class Endpoint:
    """A listener: its name, where it is reached, and the number of its security protocol."""

    name: String
    host: String
    port: Uint16
    security_protocol: Int16


@record()
class SupportedFeature:
    """The lowest and the highest level of a feature that a node can work with."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@record(0, highest=4)
class RegisterBrokerRecord:
    """A broker has registered; its epoch is this record's offset."""

    broker_id: Int32
    is_migrating_zk_broker: Annotated[Bool, Placed(since=2)] = False
    incarnation_id: Uuid | None
    broker_epoch: Int64
    end_points: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: String | None = None
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, Placed(since=1)] = False
    log_dirs: Annotated[tuple[Uuid | None, ...], Placed(since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid | None, ...] | None, Placed(since=4, tag=1)] = None


@record(1)
class UnregisterBrokerRecord:
    """A broker is no longer part of the cluster."""

    broker_id: Int32
    broker_epoch: Int64


@record(7)
class FenceBrokerRecord:
    """A broker leads nothing and is named to no client, until it is unfenced. Older than BrokerRegistrationChange."""

    id: Int32
    epoch: Int64


@record(8)
class UnfenceBrokerRecord:
    """A broker takes part again. Older than BrokerRegistrationChange."""

    id: Int32
    epoch: Int64


@record(17, highest=3)
class BrokerRegistrationChangeRecord:
    """What has changed in a broker's registration.

    `fenced` is -1 when the broker was unfenced, 1 when it was fenced; `in_controlled_shutdown` is 1 when it began to
    shut down; 0 is no change. An empty `log_dirs` and a `cordoned_log_dirs` of None are no change either.
    """

    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Placed(tag=0)] = 0
    in_controlled_shutdown: Annotated[Int8, Placed(since=1, tag=1)] = 0
    log_dirs: Annotated[tuple[Uuid | None, ...], Placed(since=2, tag=2)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid | None, ...] | None, Placed(since=3, tag=3)] = None


@record(27)
class RegisterControllerRecord:
    """A controller has registered (KIP-919)."""

    controller_id: Int32
    incarnation_id: Uuid | None
    zk_migration_ready: Bool
    end_points: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]


@record(29)
class UnregisterControllerRecord:
    """A controller is no longer part of the cluster."""

    controller_id: Int32

"""Records of the cluster's brokers and controllers: registration, fencing, and features they support (KIP-631).

The control records that Raft writes between the records of `__cluster_metadata` (KIP-595, KIP-630, KIP-853).
"""

from __future__ import annotations

from uuid import UUID

from .message import (
    boolean,
    entities,
    entity,
    int8,
    int16,
    int32,
    int64,
    metadata_record,
    string,
    uint16,
    uuid,
    uuid_array,
)


@metadata_record()
class Endpoint:
    """A listener: its name, where it is reached, and the number of its security protocol."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@metadata_record()
class SupportedFeature:
    """The lowest and the highest level of a feature that a node can work with."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@metadata_record(0, highest=4)
class RegisterBrokerRecord:
    """A broker has registered; its epoch is this record's offset."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(default=False, since=2)
    incarnation_id: UUID | None = uuid()
    broker_epoch: int = int64()
    end_points: tuple[Endpoint, ...] = entities()
    features: tuple[SupportedFeature, ...] = entities()
    rack: str | None = string(default=None)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean(default=False, since=1)
    log_dirs: tuple[UUID | None, ...] = uuid_array(default=(), since=3, tag=0)
    cordoned_log_dirs: tuple[UUID | None, ...] | None = uuid_array(default=None, since=4, tag=1)


@metadata_record(1)
class UnregisterBrokerRecord:
    """A broker is no longer part of the cluster."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@metadata_record(7)
class FenceBrokerRecord:
    """A broker leads nothing and is named to no client, until it is unfenced. Older than BrokerRegistrationChange."""

    id: int = int32()
    epoch: int = int64()


@metadata_record(8)
class UnfenceBrokerRecord:
    """A broker takes part again. Older than BrokerRegistrationChange."""

    id: int = int32()
    epoch: int = int64()


@metadata_record(17, highest=3)
class BrokerRegistrationChangeRecord:
    """What has changed in a broker's registration.

    `fenced` is -1 when the broker was unfenced, 1 when it was fenced; `in_controlled_shutdown` is 1 when it began to
    shut down; 0 is no change. An empty `log_dirs` and a `cordoned_log_dirs` of None are no change either.
    """

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(default=0, tag=0)
    in_controlled_shutdown: int = int8(default=0, since=1, tag=1)
    log_dirs: tuple[UUID | None, ...] = uuid_array(default=(), since=2, tag=2)
    cordoned_log_dirs: tuple[UUID | None, ...] | None = uuid_array(default=None, since=3, tag=3)


@metadata_record(27)
class RegisterControllerRecord:
    """A controller has registered (KIP-919)."""

    controller_id: int = int32()
    incarnation_id: UUID | None = uuid()
    zk_migration_ready: bool = boolean()
    end_points: tuple[Endpoint, ...] = entities()
    features: tuple[SupportedFeature, ...] = entities()


@metadata_record(29)
class UnregisterControllerRecord:
    """A controller is no longer part of the cluster."""

    controller_id: int = int32()


@metadata_record()
class Voter:
    """A voter's node id, and the id of the folder in which it keeps the log."""

    voter_id: int = int32()
    voter_directory_id: UUID | None = uuid(since=1)


@metadata_record(2, highest=1)
class LeaderChangeMessage:
    """A leader's first record in its epoch."""

    version: int = int16()
    leader_id: int = int32()
    voters: tuple[Voter, ...] = entities()
    granting_voters: tuple[Voter, ...] = entities()


@metadata_record(3)
class SnapshotHeaderRecord:
    """The first record of a snapshot; the time in milliseconds is that of the last record that it covers."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


@metadata_record(4)
class SnapshotFooterRecord:
    """The last record of a snapshot."""

    version: int = int16()


@metadata_record(5)
class KRaftVersionRecord:
    """The level of `kraft.version`; with 1, voters are added and removed by records."""

    version: int = int16()
    k_raft_version: int = int16()


@metadata_record()
class VoterEndpoint:
    """Where a voter is reached."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@metadata_record()
class KRaftVersionFeature:
    """The levels of `kraft.version` that a voter can work with."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@metadata_record()
class VoterDescription:
    """A voter: its ids, endpoints and supported levels."""

    voter_id: int = int32()
    voter_directory_id: UUID | None = uuid()
    endpoints: tuple[VoterEndpoint, ...] = entities()
    k_raft_version_feature: KRaftVersionFeature = entity()


@metadata_record(6)
class VotersRecord:
    """All voters, from here on."""

    version: int = int16()
    voters: tuple[VoterDescription, ...] = entities()

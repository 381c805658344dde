"""Records of the nodes: registration, fencing and features of brokers and controllers (KIP-631), and Raft's own.

The latter are the control records that Raft writes between the others (KIP-595, KIP-630, KIP-853).
"""

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
    """A change of a broker's registration.

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


@record()
class Voter:
    """A voter's node id, and the id of the folder in which it keeps the log."""

    voter_id: Int32
    voter_directory_id: Annotated[Uuid | None, Placed(since=1)]


@record(2, highest=1)
class LeaderChangeMessage:
    """A leader's first record in its epoch."""

    version: Int16
    leader_id: Int32
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]


@record(3)
class SnapshotHeaderRecord:
    """The first record of a snapshot; the time in milliseconds is that of the last record that it covers."""

    version: Int16
    last_contained_log_timestamp: Int64


@record(4)
class SnapshotFooterRecord:
    """The last record of a snapshot."""

    version: Int16


@record(5)
class KRaftVersionRecord:
    """The level of `kraft.version`; with 1, voters are added and removed by records."""

    version: Int16
    k_raft_version: Int16


@record()
class VoterEndpoint:
    """Where a voter is reached."""

    name: String
    host: String
    port: Uint16


@record()
class KRaftVersionFeature:
    """The levels of `kraft.version` that a voter can work with."""

    min_supported_version: Int16
    max_supported_version: Int16


@record()
class VoterDescription:
    """A voter: its ids, endpoints and supported levels."""

    voter_id: Int32
    voter_directory_id: Uuid | None
    endpoints: tuple[VoterEndpoint, ...]
    k_raft_version_feature: KRaftVersionFeature


@record(6)
class VotersRecord:
    """All voters, from here on."""

    version: Int16
    voters: tuple[VoterDescription, ...]

"""The control records that Raft writes between the records of `__cluster_metadata` (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from uuid import UUID

from .message import entities, entity, int16, int32, int64, metadata_record, string, uint16, uuid


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

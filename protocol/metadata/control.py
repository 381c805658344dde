"""The control records that Raft writes between the records of `__cluster_metadata` (KIP-595, KIP-630, KIP-853)."""

from __future__ import annotations

from typing import Annotated

from ..declared import Int16, Int32, Int64, Placed, String, Uint16, Uuid, record


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

"""The facts in a metadata log about the quorum, and whether this release knows them all.

Record types and versions are looked at, bodies are not, except those of the quorum's own control records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from controller.quorum.metadata_batches import MetadataLogError
from metadata.settings import METADATA_VERSION
from protocol import uuids
from protocol.metadata import serde
from protocol.metadata.serde import UnknownRecordError
from protocol.primitives import DecodeError
from protocol.records.batch import BatchHeader
from protocol.records.build import iter_records

HIGHEST_KRAFT_VERSION = 1


@dataclass(slots=True)
class LogFacts:
    """The facts found so far.

    Attributes:
        epoch: that of the last batch.
        timestamp: that of the last batch, in ms; -1 before the first.
        kraft_version: with 1 the voters are in the log, with 0 they are configured.
        voters: the last VotersRecord.
        voters_offset: where it is, -1 in a snapshot's header.
        leader_change: the last LeaderChangeMessage.
        metadata_version: the last level of `metadata.version`.
        snapshot_timestamp: in a snapshot's header: when the last record that it covers was appended.
        last_control: the type of the last control record.
        has_records: there are others than control records.
    """

    epoch: int = 0
    timestamp: int = -1
    kraft_version: int = 0
    voters: Any = None
    voters_offset: int = -1
    leader_change: Any = None
    metadata_version: int | None = None
    snapshot_timestamp: int = -1
    last_control: str = ""
    has_records: bool = False

    def note(self, header: BatchHeader, batch: memoryview, path: str) -> None:
        """Take a batch of the file at `path`. Raises MetadataLogError for records that are not known."""
        try:
            for record in iter_records(batch, header):
                if header.is_control:
                    self._note_control(record.offset, serde.decode_control(record.key, record.value))
                else:
                    self._note_value(record.value or b"")
        except UnknownRecordError as error:
            raise MetadataLogError(
                f"{path}: {error} (in the batch at offset {header.base_offset}). A newer Kafka wrote it: the log's "
                f"metadata.version is {self.metadata_version or 'not known'}."
            ) from error
        except (DecodeError, ValueError) as error:
            raise MetadataLogError(f"{path}: the records from offset {header.base_offset} on: {error}") from error
        self.epoch, self.timestamp = header.leader_epoch, max(self.timestamp, header.max_timestamp)

    def _note_value(self, value: bytes) -> None:
        self.has_records = True
        cls, _, _ = serde.read_type(value)
        if cls.__name__ == "FeatureLevelRecord":
            record = serde.decode_record(value)
            if record.name == METADATA_VERSION:
                self.metadata_version = record.feature_level

    def _note_control(self, offset: int, record: Any) -> None:
        name = record.__class__.__name__
        self.last_control = name
        match name:
            case "SnapshotHeaderRecord":
                self.snapshot_timestamp = record.last_contained_log_timestamp
            case "LeaderChangeMessage":
                self.leader_change = record
            case "KRaftVersionRecord":
                if record.k_raft_version > HIGHEST_KRAFT_VERSION:
                    raise UnknownRecordError(f"kraft.version {record.k_raft_version} is not known")
                self.kraft_version = record.k_raft_version
            case "VotersRecord":
                self.voters, self.voters_offset = record, offset

    def check_voters(self, path: str, node_id: int, directory_id: UUID | None, configured: tuple[int, ...]) -> None:
        """Raises MetadataLogError if anyone but this node, with this folder, is a voter.

        `configured` are the voters that `quorum-state` has. Without `directory_id` the folder is not compared.
        """
        if self.kraft_version == 0:
            known = configured
            if self.leader_change is not None:
                known = tuple(voter.voter_id for voter in self.leader_change.voters)
            voters = sorted({*known, *configured})
        else:
            voters = [voter.voter_id for voter in self.voters.voters] if self.voters is not None else []
        if voters and voters != [node_id]:
            raise MetadataLogError(
                f"{path}: the voters of this quorum are the nodes {', '.join(map(str, voters))}, but this is node "
                f"{node_id}, which can only be the single voter of a quorum."
            )
        if self.kraft_version and self.voters is None:
            raise MetadataLogError(
                f"{path}: kraft.version is {self.kraft_version}, but no record says who the voters are."
            )
        if self.kraft_version and directory_id is not None:
            (voter,) = self.voters.voters
            if voter.voter_directory_id != directory_id:
                known_as = uuids.to_text(voter.voter_directory_id or uuids.ZERO)
                raise MetadataLogError(
                    f"{path}: node {node_id} is a voter with the folder {known_as}, but the id of this folder is "
                    f"{uuids.to_text(directory_id)}."
                )

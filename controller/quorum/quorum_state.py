"""`quorum-state`: who leads in which epoch, and whom this node has voted for (Kafka's `FileQuorumStateStore`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from controller.quorum.metadata_batches import MetadataLogError
from storage.files import FileSystem, read_file, write_file_atomically

FILE_NAME = "quorum-state"
NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The file's content.

    `data_version` 0 has the voters, for a static quorum; 1 has the directory voted for, and the voters are in the log.
    """

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voted_id: int = NOBODY
    voted_directory_id: str = NO_DIRECTORY
    voters: tuple[int, ...] = ()
    cluster_id: str = ""
    applied_offset: int = 0
    data_version: int = 0

    def elected(self, node_id: int, epoch: int) -> QuorumState:
        """The state once the node, which is the only voter, leads in that epoch."""
        voters = (node_id,) if self.data_version == 0 else ()
        return QuorumState(node_id, epoch, voters=voters, cluster_id=self.cluster_id, data_version=self.data_version)


def read(fs: FileSystem, folder: str) -> QuorumState | None:
    """The state, None if there is no file. Raises MetadataLogError, OSError."""
    path = f"{folder}/{FILE_NAME}"
    if not fs.exists(path):
        return None
    try:
        found = json.loads(read_file(fs, path))
        version = found["data_version"]
        if version not in (0, 1):
            raise MetadataLogError(f"{path}: data_version is {version!r}, and this release knows 0 and 1.")
        return QuorumState(
            leader_id=int(found["leaderId"]),
            leader_epoch=int(found["leaderEpoch"]),
            voted_id=int(found["votedId"]),
            voted_directory_id=str(found.get("votedDirectoryId", NO_DIRECTORY)),
            voters=tuple(int(voter["voterId"]) for voter in found.get("currentVoters") or ()),
            cluster_id=str(found.get("clusterId", "")),
            applied_offset=int(found.get("appliedOffset", 0)),
            data_version=version,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise MetadataLogError(f"{path} is damaged ({error!r}); restore it from a backup.") from error


def write(fs: FileSystem, folder: str, state: QuorumState) -> None:
    """Replace the file, atomically and durably. Raises OSError."""
    text = json.dumps(_fields(state), separators=(",", ":"))
    write_file_atomically(fs, f"{folder}/{FILE_NAME}", text.encode())


def _fields(state: QuorumState) -> dict[str, Any]:
    common = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    if state.data_version:
        return {**common, "votedDirectoryId": state.voted_directory_id, "data_version": state.data_version}
    return {
        "clusterId": state.cluster_id,
        **common,
        "appliedOffset": state.applied_offset,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": state.data_version,
    }

"""The content of the folder of a metadata log, read before anything in it is changed.

The newest complete snapshot and the log after it must be whole, known to this release, and of a quorum in which this
node is the only voter. The end of the log may be torn by a power failure: only one batch at a time is ever not synced.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from controller.quorum import quorum_state, snapshots
from controller.quorum.facts import LogFacts
from controller.quorum.metadata_batches import (
    DamagedError,
    MetadataLogError,
    damaged,
    decode_batch,
    good_batches,
    has_batch_after,
)
from controller.quorum.quorum_state import QuorumState
from controller.quorum.snapshots import BOOTSTRAP, SnapshotId, list_snapshots
from storage import damage
from storage.files import FileSystem
from storage.folders import partition_metadata
from storage.folders.partition_metadata import CorruptPartitionMetadataError
from storage.segments.segment_files import LOG_SUFFIX, file_name

FOLDER_NAME = "__cluster_metadata-0"
TOPIC_ID = UUID(int=1)
OLD_BOOTSTRAP = "bootstrap.checkpoint"
"""Where releases before 4.4 keep the records to begin a log with: in the root of the folder of `log.dirs`."""

_SEGMENT = re.compile(r"(\d{20})\.log")


@dataclass(slots=True)
class Survey:
    """The content that was found.

    Attributes:
        state: the content of `quorum-state`.
        bootstrap: the records to begin a new log with.
        snapshots: those that are not known to be damaged, oldest first.
        snapshot: the one to begin with; none if the log begins at offset 0.
        facts: what snapshot and log say.
        segments: base offsets.
        end_offset: the offset after the last whole batch, or after what the snapshot covers if that is later.
        bytes_after_snapshot: the size of the batches that the snapshot does not cover.
        is_torn: there is something after the last whole batch, as a power failure leaves it.
        leftovers: names of unfinished and removed snapshots.
        covers_log: the snapshot goes further than the log.
        directory_id: that of the folder of `log.dirs`, if it is known.
    """

    state: QuorumState | None = None
    bootstrap: tuple[Any, ...] = ()
    snapshots: list[SnapshotId] = field(default_factory=list)
    snapshot: SnapshotId | None = None
    facts: LogFacts = field(default_factory=LogFacts)
    segments: list[int] = field(default_factory=list)
    end_offset: int = 0
    bytes_after_snapshot: int = 0
    is_torn: bool = False
    leftovers: list[str] = field(default_factory=list)
    covers_log: bool = False
    directory_id: UUID | None = None

    @property
    def start_offset(self) -> int:
        """The first offset that the snapshot does not cover."""
        return 0 if self.snapshot is None else self.snapshot.offset


def survey(fs: FileSystem, root: str, node_id: int, directory_id: UUID | None) -> Survey:
    """Look at the log in `root`, a folder of `log.dirs`. Blocking, changes nothing.

    Raises MetadataLogError, which says why the log cannot be used; OSError.
    """
    folder = f"{root}/{FOLDER_NAME}"
    found = Survey(directory_id=directory_id)
    if fs.is_dir(folder):
        _look_into(fs, folder, found)
    if not found.bootstrap and not found.facts.has_records and fs.exists(f"{root}/{OLD_BOOTSTRAP}"):
        found.bootstrap = _records(fs, f"{root}/{OLD_BOOTSTRAP}")
    configured = found.state.voters if found.state is not None else ()
    found.facts.check_voters(folder, node_id, directory_id, configured)
    return found


def _look_into(fs: FileSystem, folder: str, survey: Survey) -> None:
    _check_topic_id(fs, folder)
    survey.state = quorum_state.read(fs, folder)
    survey.segments = sorted(int(match[1]) for name in fs.listdir(folder) if (match := _SEGMENT.fullmatch(name)))
    bad = _choose_snapshot(fs, folder, survey)
    _read_log(fs, folder, survey)
    _judge_damaged(folder, survey, bad)


def _records(fs: FileSystem, path: str) -> tuple[Any, ...]:
    """The records in a file of batches, which must be whole."""
    file = fs.open_to_read(path)
    try:
        end = offset = 0
        records: list[Any] = []
        for position, header, batch in good_batches(file, 0, 0):
            records += decode_batch(header, batch, path)
            end, offset = position + header.size, header.next_offset
        if end != file.size():
            raise damaged(path, end, offset)
    finally:
        file.close()
    return tuple(records)


def _check_topic_id(fs: FileSystem, folder: str) -> None:
    try:
        topic_id = partition_metadata.read(fs, folder)
    except CorruptPartitionMetadataError as error:
        raise DamagedError(str(error)) from error
    if topic_id not in (None, TOPIC_ID):
        raise MetadataLogError(f"{folder} belongs to a topic with the id {topic_id}: it is no metadata log.")


def _choose_snapshot(fs: FileSystem, folder: str, survey: Survey) -> list[tuple[SnapshotId, DamagedError]]:
    """Find the newest complete snapshot; return the damaged ones that are newer."""
    all_snapshots, survey.leftovers = list_snapshots(fs, folder)
    bad: list[tuple[SnapshotId, DamagedError]] = []
    for snapshot in reversed(all_snapshots):
        path = f"{folder}/{snapshot.file_name}"
        try:
            facts = snapshots.check(fs, path)
        except DamagedError as error:
            bad.append((snapshot, error))
            continue
        facts.epoch, facts.voters_offset = snapshot.epoch, snapshot.offset - 1
        survey.facts = facts
        if snapshot == BOOTSTRAP:
            survey.bootstrap = _records(fs, path) or survey.bootstrap
            facts.timestamp = -1
        else:
            survey.snapshot = snapshot
            facts.timestamp = facts.snapshot_timestamp
        break
    survey.snapshots = [each for each in all_snapshots if each not in {snapshot for snapshot, _ in bad}]
    if survey.segments and survey.segments[0] > survey.start_offset:
        if bad:
            raise bad[0][1]
        raise MetadataLogError(
            f"{folder} begins at offset {survey.segments[0]}, but there is no snapshot of what was before that. "
            "Restore the folder from a backup."
        )
    return bad


def _judge_damaged(folder: str, survey: Survey, bad: list[tuple[SnapshotId, DamagedError]]) -> None:
    """Raises DamagedError for a damaged snapshot whose records are nowhere else."""
    for snapshot, error in bad:
        if snapshot.offset > survey.end_offset or survey.end_offset == 0:
            raise error
        damage.repaired(f"{folder}/{snapshot.file_name}", error, "an older snapshot and the log are read instead")


def _read_log(fs: FileSystem, folder: str, survey: Survey) -> None:
    """Read the segments from the one on that has the first offset after the snapshot."""
    start = survey.start_offset
    needed = survey.segments[max(0, bisect_right(survey.segments, start) - 1) :]
    expected = needed[0] if needed else start
    epoch = 0
    for base in needed:
        path = f"{folder}/{file_name(base, LOG_SUFFIX)}"
        if base != expected:
            raise DamagedError(f"{path} begins at offset {base}, but the segment before it ends at offset {expected}.")
        file = fs.open_to_read(path)
        try:
            end = 0
            for position, header, batch in good_batches(file, 0, base):
                if header.leader_epoch < epoch:
                    raise damaged(path, position, expected)
                end, expected, epoch = position + header.size, header.next_offset, header.leader_epoch
                if header.last_offset >= start:
                    survey.facts.note(header, batch, path)
                    survey.bytes_after_snapshot += header.size
                elif survey.snapshot == (expected, epoch) or expected != start:
                    continue
                else:
                    raise DamagedError(f"{path} has epoch {epoch} before offset {start}, unlike the snapshot there.")
            rest = file.size() - end
            survey.is_torn = rest > 0
            if rest and (base != needed[-1] or has_batch_after(file.pread(rest, end), expected)):
                raise damaged(path, end, expected)
        finally:
            file.close()
    survey.covers_log = expected < start
    survey.end_offset = max(expected, start)

"""The metadata log `__cluster_metadata-0` of the only voter of a quorum (Kafka's `KafkaRaftClient`, `KafkaRaftLog`).

Its life: `open` reads and checks what is there, `batches` hands it out, `lead` makes this node the leader of a new
epoch; then records are appended, and now and then all they have led to is written as a snapshot, which lets older
segments go. Every file has Kafka's own format, so that an Apache Kafka node can go on with the folder, and we with its.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import structlog

from controller.quorum import quorum_state, snapshots
from controller.quorum.group_commit import GroupCommit
from controller.quorum.metadata_batches import (
    CommittedBatch,
    DamagedError,
    MetadataLogError,
    NoRoomError,
    decode_batch,
    encode_values,
    good_batches,
)
from controller.quorum.opening import MetadataLogConfig, open_partition_log
from controller.quorum.quorum_state import QuorumState
from controller.quorum.snapshots import SnapshotId
from controller.quorum.survey import Survey, survey
from protocol.errors import KafkaError, SnapshotNotFound
from protocol.metadata.brokers import KRaftVersionRecord, LeaderChangeMessage, Voter, VoterEndpoint
from storage.files import is_transient
from storage.log.log_services import LogServices
from storage.log.retention import apply_retention
from storage.log.unified_log import UnifiedLog
from storage.segments.segment_files import LOG_SUFFIX, file_name
from storage.workers import Workers, folder_lane

logger = structlog.get_logger(__name__)

KEPT_SNAPSHOTS = 2


class MetadataLog:
    """The log, on the loop, except for `open` and `batches`, which block.

    Attributes:
        log: the partition's log, for those who fetch from it; nothing else may append to it.
        bootstrap: the records that a new log is to begin with, from when the folder was formatted; none if it was not.
        epoch: the epoch in which this node leads, -1 before `lead`.
        on_refused: called when all that is not durable is refused for want of room, before anything else can be
            appended.
        on_failure: called once, with the reason, when nothing can be made durable any more.
    """

    def __init__(
        self,
        services: LogServices,
        node_id: int,
        config: MetadataLogConfig,
        survey: Survey,
        log: UnifiedLog,
    ) -> None:
        self.log = log
        self.bootstrap = survey.bootstrap
        self.epoch = -1
        self._services = services
        self._folder = log.folder
        self._node_id = node_id
        self._config = config
        self._survey = survey
        self._state = replace(survey.state or QuorumState(), data_version=survey.facts.kraft_version)
        self._opened_end = log.log_end_offset
        self.on_refused: Callable[[NoRoomError], None] = lambda _: None
        self.on_failure: Callable[[str], None] = lambda reason: logger.error("metadata log failed", error=reason)
        self._commit = GroupCommit(
            log,
            survey.facts.timestamp,
            on_refused=self._refused,
            on_failure=self._failed,
        )
        self._snapshots = survey.snapshots
        self._snapshot_bytes = 0
        self._bytes_counted = -survey.bytes_after_snapshot
        self._is_writing_snapshot = False
        self._becoming_dynamic: asyncio.Future[None] | None = None

    @classmethod
    def open(
        cls,
        services: LogServices,
        root: str,
        node_id: int,
        *,
        directory_id: UUID | None = None,
        config: MetadataLogConfig | None = None,
        clean: bool = False,
    ) -> MetadataLog:
        """Open the log in `root`, a folder of `log.dirs` that the caller has locked. Blocking, for a worker thread.

        `directory_id` is the folder's id, which must be the voter's if `kraft.version` is 1. `clean`: the log was
        closed by whoever used it last, so nothing has to be written, for which there may be no room.

        Raises MetadataLogError if the log is damaged, has other voters, or was written by a newer Kafka, and then
        nothing is changed; OSError.
        """
        config = config or MetadataLogConfig()
        found = survey(services.fs, root, node_id, directory_id)
        log = open_partition_log(services, root, found, config.log_config, clean=clean)
        return cls(services, node_id, config, found, log)

    def batches(self) -> Iterator[CommittedBatch]:
        """Yield the batches that the log had when it was opened: the snapshot's batches, then those after it. Blocking.

        The bootstrap snapshot is left out, as in Kafka: its records count once they are appended. Raises
        MetadataLogError, OSError.
        """
        fs, snapshot = self._services.fs, self._survey.snapshot
        if snapshot is not None:
            path = f"{self._folder}/{snapshot.file_name}"
            self._snapshot_bytes = fs.size(path)
            yield from snapshots.read(fs, path, snapshot, self._survey.facts.snapshot_timestamp)
        start = end = self._survey.start_offset
        for segment in self.log.segments.from_offset(start):
            path = f"{self._folder}/{file_name(segment.base_offset, LOG_SUFFIX)}"
            file = fs.open_to_read(path)
            try:
                for _, header, batch in good_batches(file, 0, segment.base_offset):
                    if start <= header.last_offset < self._opened_end:
                        records = decode_batch(header, batch, path)[max(0, start - header.base_offset) :]
                        yield CommittedBatch(header.last_offset, header.leader_epoch, header.max_timestamp, records)
                        end = header.next_offset
            finally:
                file.close()
        if end != self._opened_end:
            raise DamagedError(f"{self._folder} could be read up to offset {end} alone, and was longer before.")

    # -- leading

    async def lead(self) -> None:
        """Become the leader of the next epoch, as the only voter. Raises MetadataLogError; NoRoomError: try again."""
        if self.epoch >= 0:
            raise MetadataLogError(f"This node leads already, in epoch {self.epoch}.")
        facts = self._survey.facts
        epoch = 1 + max(self._state.leader_epoch, facts.epoch)
        state = self._state.elected(self._node_id, epoch)
        try:
            await self._files_lane().call(partial(quorum_state.write, self._services.fs, self._folder, state))
        except OSError as error:
            raise self._not_written("quorum-state", error) from error
        self._state = state
        self.log.begin_epoch(epoch)
        voters = (Voter(voter_id=self._node_id, voter_directory_id=None),)
        records: list[Any] = [
            LeaderChangeMessage(version=0, leader_id=self._node_id, voters=voters, granting_voters=voters)
        ]
        if facts.kraft_version and facts.voters_offset < 0:  # only the bootstrap snapshot has them
            records += self._quorum_records()
        self._commit.epoch = epoch
        await self._commit.durable(self._commit.append_control(records))
        self.epoch = epoch

    def _quorum_records(self) -> list[Any]:
        facts = self._survey.facts
        if not facts.kraft_version:
            return []
        return [KRaftVersionRecord(version=0, k_raft_version=facts.kraft_version), facts.voters]

    @property
    def kraft_version(self) -> int:
        """The finalized level of `kraft.version`."""
        return self._survey.facts.kraft_version

    @property
    def voter_directory_id(self) -> UUID | None:
        """The id of this node's folder as that of a voter, which voters of a dynamic quorum alone have."""
        facts = self._survey.facts
        directory_id: UUID | None = facts.voters.voters[0].voter_directory_id if facts.kraft_version else None
        return directory_id

    def become_dynamic(self, endpoint: VoterEndpoint) -> asyncio.Future[None]:
        """Raise `kraft.version` to 1: the log says from now on that this node is the voter, and where it is reached.

        It is appended at once, and what is returned is done when it is durable: do not cancel it. Whoever asks again
        before that waits for the same. Raises MetadataLogError; then nothing is appended.
        """
        from controller.quorum.format import voters_record

        if self._becoming_dynamic is not None:
            return self._becoming_dynamic
        if self._survey.directory_id is None:
            raise MetadataLogError(
                f"The folder of {self._folder} has no id, which the voter of a dynamic quorum needs."
            )
        voters = voters_record(self._node_id, self._survey.directory_id, endpoint)
        offset = self._commit.append_control([KRaftVersionRecord(version=0, k_raft_version=1), voters])

        def became(done: asyncio.Future[None]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._becoming_dynamic = None
                return
            facts = self._survey.facts
            facts.kraft_version, facts.voters, facts.voters_offset = 1, voters, offset

        done = self._becoming_dynamic = self._commit.durable(offset)
        done.add_done_callback(became)
        return done

    # -- for observers

    @property
    def snapshots(self) -> tuple[SnapshotId, ...]:
        """The snapshots that can be read, oldest first; the bootstrap snapshot is none of them."""
        return tuple(snapshot for snapshot in self._snapshots if snapshot.offset > 0)

    def call_when_durable(self, moved: Callable[[], None]) -> None:
        """Call `moved` whenever `durable_end` has moved."""
        self._commit.on_durable = moved

    async def read_snapshot(self, snapshot: SnapshotId, position: int, most: int) -> tuple[bytes, int]:
        """At most so many bytes of a snapshot's file from `position` on, and the file's size.

        Raises SnapshotNotFound, PositionOutOfRange, OSError.
        """
        if snapshot not in self.snapshots:
            raise SnapshotNotFound
        path = f"{self._folder}/{snapshot.file_name}"
        return await self._files_lane().call(partial(snapshots.read_part, self._services.fs, path, position, most))

    # -- appending

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._commit.next_offset

    @property
    def timestamp(self) -> int:
        """When the newest batch was appended, in ms."""
        return self._commit.timestamp

    @property
    def commits(self) -> tuple[int, float]:
        """How many batches became durable, and the milliseconds that this took, together."""
        return self._commit.commits, self._commit.commit_ms

    @property
    def durable_end(self) -> int:
        """The offset after the last record that is on the device: the quorum's high watermark."""
        return self._commit.durable_end

    def append(self, records: Iterable[Any]) -> int:
        """Append records that take effect together; return the last one's offset. `durable` says when they are safe.

        Raises MetadataLogError before `lead` and after a failure; InvalidRequest for more than a batch of 8 MiB holds.
        """
        if self.epoch < 0:
            raise MetadataLogError("This node does not lead the metadata log yet.")
        values = encode_values(records)
        if not values:
            raise MetadataLogError("There are no records to append.")
        return self._commit.append(values)

    def durable(self, offset: int) -> asyncio.Future[None]:
        """Done when the record at `offset`, which `append` returned, is on the device.

        Fails with NoRoomError if it was refused for want of room: of all that was appended since the last durable
        record nothing is or will be in the log. Fails with another MetadataLogError after a failed write or sync: the
        record may be found at the next start, or not. Call this in the turn of the loop in which `append` was called:
        a refused offset is given to a later record.
        """
        return self._commit.durable(offset)

    def _refused(self, error: NoRoomError) -> None:
        self.on_refused(error)

    def _failed(self, reason: str) -> None:
        self.on_failure(reason)

    # -- snapshots

    @property
    def snapshot_offset(self) -> int:
        """The offset of the newest snapshot; 0 without one."""
        return self._snapshots[-1].offset if self._snapshots else 0

    def is_snapshot_due(self, offset: int) -> bool:
        """Whether it is time for a snapshot, and there can be one at `offset`: a batch must end there.

        It is time once enough bytes were written since the last snapshot, or since the last attempt. Raises
        MetadataLogError.
        """
        since = self._commit.bytes_written - self._bytes_counted
        return since > self._config.bytes_between_snapshots(self._snapshot_bytes) and self._can_have_snapshot(offset)

    def _can_have_snapshot(self, offset: int) -> bool:
        if not self.snapshot_offset < offset <= self.durable_end or self._is_writing_snapshot:
            return False
        try:
            return offset == self.log.log_end_offset or self.log.segments.batch_start(offset) == offset
        except OSError as error:
            raise MetadataLogError(f"{self._folder} cannot be read: {error}") from error

    async def write_snapshot(self, offset: int, epoch: int, timestamp: int, records: Iterable[Any]) -> None:
        """Write what the records below `offset` have led to as a snapshot, then remove what nobody needs any more.

        `epoch` and `timestamp` are those of the record before `offset`, with which a batch must end. `records` are
        taken in a worker thread, so they must come from what does not change. The newest two snapshots are kept, and
        the log from the older one on. Raises NoRoomError and MetadataLogError: there is no new snapshot then, and the
        log goes on.
        """
        if not self._can_have_snapshot(offset) or self.log.leader_epochs.epoch_for(offset - 1) != epoch:
            raise MetadataLogError(f"There can be no snapshot at offset {offset} and epoch {epoch} now.")
        snapshot = SnapshotId(offset, epoch)
        work = partial(
            snapshots.write,
            self._services.fs,
            self._folder,
            snapshot,
            records,
            timestamp=timestamp,
            quorum=self._quorum_records(),
            now_ms=self._services.clock.wall_ms,
        )
        self._bytes_counted = self._commit.bytes_written
        self._is_writing_snapshot = True
        try:
            self._snapshot_bytes = await self._files_lane().call(work)
        except OSError as error:
            raise self._not_written(snapshot.file_name, error) from error
        finally:
            self._is_writing_snapshot = False
        self._snapshots = sorted({*self._snapshots, snapshot})[-KEPT_SNAPSHOTS:]
        await self._remove_old()

    async def _remove_old(self) -> None:
        oldest = self._snapshots[0]
        kept = tuple(self._snapshots)
        self._commit.roll_next = True
        if not self.log.is_offline and len(self._snapshots) == KEPT_SNAPSHOTS:
            self.log.increment_log_start_offset(oldest.offset)
            apply_retention(self.log, self.durable_end)
        try:
            await self._files_lane().call(partial(_remove_snapshots, self._services, self._folder, kept))
        except OSError as error:  # they are tried again after the next one
            logger.warning("old metadata snapshots not removed", folder=self._folder, error=str(error))

    async def close(self) -> None:
        """Wait for what was appended, then close the files. Raises MetadataLogError if that fails."""
        await self._commit.drain()
        self.log.removal.stop()
        try:
            if not self.log.is_offline:
                await self._files_lane().call(self.log.close)
        except KafkaError as error:
            raise MetadataLogError(f"closing the metadata log failed: {error.message}") from error
        finally:
            self._commit.failure = self._commit.failure or "the metadata log is closed"
            self.log.flusher.stop()
            self.log.release_files()

    def _files_lane(self) -> Workers:
        return self._services.workers.lane(folder_lane("files", self._folder))

    def _not_written(self, name: str, error: OSError) -> MetadataLogError:
        text = f"{self._folder}/{name} could not be written: {error}"
        if not is_transient(error):
            return MetadataLogError(text)
        self._services.note_shortage(self._folder, error)
        return NoRoomError(text)


def _remove_snapshots(services: LogServices, folder: str, kept: Sequence[SnapshotId]) -> None:
    found, _ = snapshots.list_snapshots(services.fs, folder)
    doomed = [each for each in found if each < kept[-1] and each not in kept]
    for snapshot in doomed:
        services.fs.unlink(f"{folder}/{snapshot.file_name}")
    if doomed:
        services.fs.fsync_dir(folder)

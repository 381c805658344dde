"""A follower's log begins anew where its leader's own files begin; what lies below is in remote storage (KIP-405).

All that the log has is dropped. The leader epochs and the producers are those that the remote segment before the new
beginning has with it (Kafka's `TierStateMachine.buildRemoteLogAuxState`), and the log's start is the leader's. From
then on the follower fetches. `tier_marker` has what a kill in the middle leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.files import File, write_fully
from storage.log.follower_append import Truncation
from storage.log.tier_marker import path_in, unmark
from storage.producers.snapshot_files import SnapshotFiles

if TYPE_CHECKING:
    from storage.log.log_services import ReplicaState
    from storage.log.unified_log import UnifiedLog


class TierStart(Truncation):
    """As any truncation, in the same steps; `log_start_offset` is the leader's."""

    def __init__(self, log: UnifiedLog, state: ReplicaState, log_start_offset: int) -> None:
        super().__init__(log, state.next_offset, min(log_start_offset, state.next_offset))
        self._state = state

    def lower(self) -> None:
        super().lower()
        if self._write(path_in(self._log.folder), b"%d" % self.offset):
            self._log.services.fs.fsync_dir(self._log.folder)

    def cut(self) -> None:
        super().cut()
        epochs = self._log.leader_epochs
        epochs.recall(self._state.epochs)
        epochs.forget_from(self.offset)
        epochs.truncate_from_start(self._log.log_start_offset)

    def follow(self) -> None:
        log = self._log
        if not self._write(log.producers.snapshots.path(self.offset), self._state.producers, alone=True):
            return
        super().follow()
        log.host.checkpoint()
        self.give_up()

    def give_up(self) -> None:
        """Note that nothing is half done; blocking. Raises OSError."""
        log = self._log
        with log.removal.lock:
            if log.removal.is_stopped:
                return
        unmark(log.services.fs, log.folder)

    def _write(self, path: str, content: bytes, *, alone: bool = False) -> bool:
        """Write and sync a file, `alone` without other snapshots of producers; False if the log was deleted.

        The folder may have another log's files then. Raises OSError.
        """
        log, fs = self._log, self._log.services.fs
        with log.removal.lock:
            if log.removal.is_stopped:
                return False
            if alone:
                snapshots = SnapshotFiles(fs, log.folder)
                for offset in snapshots.offsets:
                    snapshots.delete(offset)
            file: File = fs.open(path, create=True)
            try:
                file.truncate(0)
                write_fully(file, content, 0)
            except OSError:
                file.close()
                raise
        try:
            file.fdatasync()
        finally:
            file.close()
        return True

"""`metadata.log` and `metadata.snapshot` on disk. Every method blocks; the store calls them from a worker thread.

Both are in the root of the first log dir, where Kafka's LogManager and ours look only at folders.
"""

from __future__ import annotations

from broker.metadata.entries import Commit, CorruptMetadataError, apply, decode_entries, encode_entry
from broker.metadata.store import Versioned
from storage.files import File, FileSystem, is_transient, read_file, write_file_atomically, write_fully

LOG_NAME = "metadata.log"
SNAPSHOT_NAME = "metadata.snapshot"


class NoRoomError(OSError):
    """There was no room for an entry; the log is unchanged."""


class MetadataFiles:
    """An append log, and the snapshot on which it builds; for one writer."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        self._log_path = f"{folder}/{LOG_NAME}"
        self._snapshot_path = f"{folder}/{SNAPSHOT_NAME}"
        self._log: File | None = None
        self.log_bytes = 0

    def load(self) -> tuple[int, dict[str, Versioned]]:
        """Open the log, drop a torn last entry, and return the newest revision with the state.

        Raises CorruptMetadataError for a damaged entry before the last one, a damaged snapshot, or missing commits
        between the two.
        """
        revision, state = self._load_snapshot()
        is_new = not self._fs.exists(self._log_path)
        self._log = self._fs.open(self._log_path, create=True)
        if is_new:
            self._fs.fsync_dir(self._folder)
        data = self._log.pread(self._log.size(), 0)
        for end, commits in decode_entries(data, self._log_path, covered=revision):
            for commit in commits:
                if commit.revision <= revision:  # after a crash between the snapshot and the truncation of the log
                    continue
                if commit.revision != revision + 1:
                    raise CorruptMetadataError(
                        f"{self._log_path}: commit {commit.revision} follows {revision}; commits between are missing"
                    )
                apply(state, commit)
                revision = commit.revision
            self.log_bytes = end
        if data:
            # What is about to be shown must survive, and the process that wrote it may have died before its fsync.
            self._log.truncate(self.log_bytes)
            self._log.fdatasync()
        return revision, state

    def _load_snapshot(self) -> tuple[int, dict[str, Versioned]]:
        if not self._fs.exists(self._snapshot_path):
            return 0, {}
        data = read_file(self._fs, self._snapshot_path)
        entries = list(decode_entries(data, self._snapshot_path))
        if len(entries) != 1 or entries[0][0] != len(data) or len(entries[0][1]) != 1:
            raise CorruptMetadataError(f"{self._snapshot_path} is damaged; restore it from a backup")
        state: dict[str, Versioned] = {}
        commit = entries[0][1][0]
        apply(state, commit)
        return commit.revision, state

    def append(self, commits: list[Commit]) -> None:
        """Make the commits durable together, as one entry. Raises NoRoomError, and OSError."""
        entry = encode_entry(commits)
        log = self._opened()
        try:
            write_fully(log, entry, self.log_bytes)
        except OSError as error:
            log.truncate(self.log_bytes)
            if is_transient(error):
                raise NoRoomError(*error.args) from error
            raise
        log.fdatasync()
        self.log_bytes += len(entry)

    def write_snapshot(self, revision: int, state: dict[str, Versioned]) -> None:
        """Write the whole state beside the log. A crash or an OSError at any point leaves both readable."""
        snapshot = Commit(
            revision,
            puts={key: versioned.value for key, versioned in state.items()},
            versions={key: versioned.version for key, versioned in state.items()},
        )
        write_file_atomically(self._fs, self._snapshot_path, encode_entry([snapshot]))

    def empty_log(self) -> None:
        """Drop what the snapshot contains."""
        self._opened().truncate(0)
        self._opened().fdatasync()
        self.log_bytes = 0

    def close(self) -> None:
        """Close the log; `append` and `empty_log` then raise OSError. Harmless if it is not open."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _opened(self) -> File:
        if self._log is None:
            raise OSError("the metadata log is not open")
        return self._log

"""The snapshot files in a partition's folder (Kafka's SnapshotFile, and ProducerStateManager's map of them)."""

from __future__ import annotations

from collections.abc import Iterable, Set

from storage.files import FileSystem, read_file, write_fully
from storage.producers import producer_snapshot
from storage.producers.producer_snapshot import SnapshotEntry


class SnapshotFiles:
    """The snapshots by offset: each is the state of all producers below its offset."""

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder
        found = map(producer_snapshot.offset_of, fs.listdir(folder))
        self._offsets = sorted(offset for offset in found if offset is not None)
        self._unsynced: list[str] = []

    @property
    def offsets(self) -> tuple[int, ...]:
        """Ascending."""
        return tuple(self._offsets)

    @property
    def newest(self) -> int | None:
        """The highest offset, None without a snapshot."""
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        """Where the snapshot of `offset` is or would be."""
        return f"{self._folder}/{producer_snapshot.file_name(offset)}"

    def read(self, offset: int) -> list[SnapshotEntry]:
        """Raises OSError, CorruptSnapshotError."""
        return producer_snapshot.decode(read_file(self._fs, self.path(offset)))

    def write(self, offset: int, entries: Iterable[SnapshotEntry]) -> str:
        """Write a snapshot newer than all others; `take_unsynced` lists it until it is synced. Returns the path.

        Raises OSError.
        """
        path = self.path(offset)
        file = self._fs.open(path, create=True)
        try:
            file.truncate(0)
            write_fully(file, producer_snapshot.encode(entries), 0)
        finally:
            file.close()
        self._offsets.append(offset)
        self._unsynced.append(path)
        return path

    def take_unsynced(self) -> list[str]:
        """The files written since the last call that still exist; the caller syncs them."""
        taken, self._unsynced = self._unsynced, []
        return taken

    def relocate(self, folder: str) -> None:
        """Note that the snapshot files were moved to another folder."""
        self._folder = folder
        self._unsynced = [f"{folder}/{path.rpartition('/')[2]}" for path in self._unsynced]

    def forget(self, offset: int) -> str | None:
        """Forget the snapshot of a removed segment; return its path for the caller to remove, None if there is none."""
        if offset not in self._offsets:
            return None
        path = self.path(offset)
        self._offsets.remove(offset)
        if path in self._unsynced:
            self._unsynced.remove(path)
        return path

    def delete(self, offset: int) -> None:
        """Delete one snapshot; fine if its file is gone. Raises OSError."""
        path = self.path(offset)
        if self._fs.exists(path):
            self._fs.unlink(path)
        self.forget(offset)

    def delete_strays(self, segment_bases: Set[int]) -> None:
        """Delete the snapshots of earlier stops that belong to no segment; the newest stays. Raises OSError.

        The rule is ProducerStateManager.removeStraySnapshots'.
        """
        for offset in self._offsets[:-1]:
            if offset not in segment_bases:
                self.delete(offset)

"""Checking a data folder, or one partition's, without changing anything; and repairing a damaged log.

A repair is recovery as after a crash, over the whole log, without throwing anything away: a copy is kept of whatever is
removed, since a user may want to undo it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from protocol.primitives import Buffer
from protocol.records.batch import MAGIC, BatchHeader, check_crc
from protocol.records.build import iter_records
from storage.append_types import LogConfig
from storage.checkpoint_file import CorruptCheckpointError
from storage.file_system_over import FileSystemOver
from storage.files import File, FileSystem, read_file, write_fully
from storage.folders import log_names, meta_properties, partition_metadata
from storage.folders.log_checkpoints import CLEANER, LOG_START, RECOVERY_POINT, REPLICATION, OffsetCheckpoint
from storage.folders.meta_properties import MetaPropertiesError
from storage.folders.partition_metadata import CorruptPartitionMetadataError
from storage.log import leader_epochs
from storage.log.leader_epochs import FILE_NAME, LeaderEpochs
from storage.log.recovery import LoadRequest, load
from storage.log.segment_recovery import whole_batches
from storage.producers import snapshot_files as producer_snapshot
from storage.producers.producer_state import ProducerStateManager
from storage.segments.index import CorruptIndexError, OffsetIndex, TimeIndex
from storage.segments.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
)
from storage.segments.txn_index import TXN_INDEX_SUFFIX, TxnIndex

_CHUNK = 1 << 20


class _KeepingFile:
    """A segment's file: what a truncation cuts off is copied first."""

    def __init__(self, file: File, keep: Callable[[File, int], None]) -> None:
        self._file = file
        self._keep = keep
        self.pread = file.pread
        self.pread_nowait = file.pread_nowait
        self.pwrite: Callable[[Buffer, int], int] = file.pwrite
        self.fdatasync = file.fdatasync
        self.size = file.size
        self.identity = file.identity
        self.close = file.close

    def truncate(self, size: int) -> None:
        if size < self._file.size():
            self._keep(self._file, size)
        self._file.truncate(size)


class KeepingFileSystem(FileSystemOver):
    """Unlinking a path below `root` moves it to the same place below `aside`.

    Attributes:
        kept: the paths below `aside`, in order.
    """

    def __init__(self, fs: FileSystem, root: str, aside: str) -> None:
        super().__init__(fs)
        self._root = root
        self._aside = aside
        self.kept: list[str] = []
        self.rename = fs.rename
        self.link = fs.link
        self.copy_file = fs.copy_file
        self.mkdir = fs.mkdir
        self.rmdir = fs.rmdir
        self.fsync_dir = fs.fsync_dir

    def open(self, path: str, *, create: bool = False) -> File:
        file = self._fs.open(path, create=create)
        if not path.endswith(LOG_SUFFIX):
            return file
        return _KeepingFile(file, lambda inner, size: self._keep_tail(path, inner, size))

    def unlink(self, path: str) -> None:
        target = self._place(path)
        self._fs.rename(path, target)
        self._fs.fsync_dir(target.rpartition("/")[0])

    def _keep_tail(self, path: str, file: File, start: int) -> None:
        target = self._place(f"{path}.from-{start}")
        copy = self._fs.open(target, create=True)
        try:
            for position in range(start, file.size(), _CHUNK):
                write_fully(copy, file.pread(min(_CHUNK, file.size() - position), position), position - start)
            copy.fdatasync()
        finally:
            copy.close()
        self._fs.fsync_dir(target.rpartition("/")[0])

    def _place(self, path: str) -> str:
        """The path to move a file to, whose folder is made; a name that was kept before gets a number."""
        target = self._aside + path.removeprefix(self._root)
        self._fs.mkdir(target.rpartition("/")[0])
        number = 1
        while self._fs.exists(target):
            number += 1
            target = f"{self._aside}{path.removeprefix(self._root)}.{number}"
        self.kept.append(target)
        return target


CHECKPOINTS = (RECOVERY_POINT, LOG_START, REPLICATION, CLEANER)
_ENOUGH = 1 << 40
Progress = Callable[[int], None]
"""Called with the number of bytes of log read since the last call."""


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A finding about a file. The next start tidies up what is not `serious`."""

    path: str
    text: str
    serious: bool = True


def is_partition(fs: FileSystem, path: str) -> bool:
    """Whether a folder belongs to one partition, judging by its name and contents."""
    named = log_names.parse(path.rstrip("/").rpartition("/")[2]) is not None
    return named and any(name.endswith(LOG_SUFFIX) for name in fs.listdir(path))


def partitions_in(fs: FileSystem, data_folder: str) -> list[str]:
    """The folders of the partitions in a data folder."""
    paths = [f"{data_folder}/{name}" for name in sorted(fs.listdir(data_folder)) if log_names.parse(name) is not None]
    return [path for path in paths if fs.is_dir(path)]


def verify_data_folder(fs: FileSystem, path: str) -> Iterator[FileFinding]:
    """Check the files that lie next to the partitions' folders. Raises OSError."""
    try:
        if meta_properties.read(fs, path) is None:
            yield FileFinding(f"{path}/meta.properties", "is missing")
    except MetaPropertiesError as error:
        yield FileFinding(f"{path}/meta.properties", str(error))
    for name in CHECKPOINTS:
        try:
            OffsetCheckpoint(fs, path, name).read()
        except ValueError as error:
            yield FileFinding(f"{path}/{name}", str(error))


def verify_partition(fs: FileSystem, folder: str, progress: Progress) -> Iterator[FileFinding]:
    """Check every batch and record, index entry and small file of a partition. Raises OSError."""
    try:
        partition_metadata.read(fs, folder)
    except CorruptPartitionMetadataError as error:
        yield FileFinding(f"{folder}/{partition_metadata.FILE_NAME}", str(error))
    try:
        leader_epochs.LeaderEpochs(fs, folder)
    except ValueError as error:
        yield FileFinding(f"{folder}/{leader_epochs.FILE_NAME}", str(error))
    names = sorted(fs.listdir(folder))
    bases = [int(name[:20]) for name in names if name.endswith(LOG_SUFFIX) and name[:20].isdigit()]
    for name in names:
        yield from _verify_name(fs, folder, name, bases)
    next_offset = 0
    for base_offset in bases:
        if base_offset < next_offset:
            yield FileFinding(f"{folder}/{file_name(base_offset, LOG_SUFFIX)}", f"starts before offset {next_offset}")
        checked = _Segment(fs, folder, base_offset)
        yield from checked.verify_log(progress)
        yield from checked.verify_indexes()
        next_offset = checked.next_offset


def _verify_name(fs: FileSystem, folder: str, name: str, bases: list[int]) -> Iterator[FileFinding]:
    path = f"{folder}/{name}"
    if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, ".tmp")):
        yield FileFinding(path, "is a leftover of something that was interrupted", serious=False)
    elif producer_snapshot.offset_of(name) is not None:
        try:
            producer_snapshot.decode(read_file(fs, path))
        except ValueError as error:
            yield FileFinding(path, str(error))
    elif name.endswith(SEGMENT_SUFFIXES) and name[:20].isdigit() and int(name[:20]) not in bases:
        yield FileFinding(path, "belongs to no segment", serious=False)


class _Segment:
    """One segment under examination."""

    def __init__(self, fs: FileSystem, folder: str, base_offset: int) -> None:
        self._fs = fs
        self._folder = folder
        self._base_offset = base_offset
        self._last_offsets: dict[int, int] = {}  # by position
        self._max_timestamp = -1
        self.next_offset = base_offset

    def _path(self, suffix: str) -> str:
        return f"{self._folder}/{file_name(self._base_offset, suffix)}"

    def verify_log(self, progress: Progress) -> Iterator[FileFinding]:
        path = self._path(LOG_SUFFIX)
        file = self._fs.open(path)
        try:
            size, end = file.size(), 0
            for position, header, batch in whole_batches(file, 0, size):
                wrong = self._wrong_batch(header, batch)
                end = position + len(batch)
                progress(len(batch))
                if wrong is not None:
                    yield FileFinding(path, f"the batch at position {position} {wrong}")
                    continue
                self._last_offsets[position] = header.last_offset
                self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
                self.next_offset = header.next_offset
            if end < size:
                yield FileFinding(path, f"{size - end} bytes from position {end} on are no whole batch")
        finally:
            file.close()

    def _wrong_batch(self, header: BatchHeader, batch: memoryview) -> str | None:
        if header.magic != MAGIC:
            return f"has magic {header.magic}"
        if not check_crc(batch, 0, header):
            return "has a wrong CRC"
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            return f"has offsets {header.base_offset} to {header.last_offset}, after {self.next_offset - 1}"
        try:
            for _ in iter_records(batch, header):
                pass
        except (ValueError, IndexError) as error:
            return f"cannot be read: {error}"
        return None

    def verify_indexes(self) -> Iterator[FileFinding]:
        try:
            TxnIndex(self._fs, self._folder, self._base_offset)
        except ValueError as error:
            yield FileFinding(self._path(TXN_INDEX_SUFFIX), str(error))
        for suffix, check in ((INDEX_SUFFIX, self._wrong_offset), (TIME_INDEX_SUFFIX, self._wrong_time)):
            path = self._path(suffix)
            if not self._fs.exists(path):
                yield FileFinding(path, "is missing")
                continue
            try:
                wrong = check(path)
            except CorruptIndexError as error:
                wrong = str(error)
            if wrong is not None:
                yield FileFinding(path, wrong)

    def _wrong_offset(self, path: str) -> str | None:
        for offset, position in OffsetIndex(self._fs, path, self._base_offset, _ENOUGH).entries():
            if self._last_offsets.get(position) != offset:
                return f"says that the batch at position {position} ends at offset {offset}"
        return None

    def _wrong_time(self, path: str) -> str | None:
        before = -1
        for timestamp, offset in TimeIndex(self._fs, path, self._base_offset, _ENOUGH).entries():
            inside = self._base_offset <= offset < max(self.next_offset, self._base_offset + 1)
            if not before < timestamp <= self._max_timestamp or not inside:
                return f"has timestamp {timestamp} at offset {offset}, after {before}"
            before = timestamp
        return None


# Gaps between segments are no damage: compaction leaves them, and whether it ran is not known here.
_ALL_CLEANED = 2**63 - 1


def repair_data_folder(fs: FileSystem, path: str) -> None:
    """Remove unreadable checkpoints; the next start does not need them. Raises OSError."""
    for name in CHECKPOINTS:
        try:
            OffsetCheckpoint(fs, path, name).read()
        except CorruptCheckpointError:
            fs.unlink(f"{path}/{name}")
    fs.fsync_dir(path)


def repair_partition(fs: FileSystem, folder: str, now_ms: int) -> int:
    """Cut the log at its first bad batch, and rebuild its indexes, snapshots and epochs. Returns its new end offset.

    Raises OSError.
    """
    folder = os.path.abspath(folder)  # the data folder is the one above
    data_folder, _, name = folder.rpartition("/")
    partition = log_names.parse(name)
    assert partition is not None
    try:
        LeaderEpochs(fs, folder)
    except ValueError:
        fs.unlink(f"{folder}/{FILE_NAME}")
    try:
        log_start = OffsetCheckpoint(fs, data_folder, LOG_START).read().get(partition, 0)
    except CorruptCheckpointError:
        log_start = 0
    request = LoadRequest(
        fs=fs,
        folder=folder,
        name=name,
        config=LogConfig(),
        clean=False,
        recovery_point=0,
        log_start_offset=log_start,
        cleaned_to=_ALL_CLEANED,
        now_ms=now_ms,
        jitter_ms=lambda: 0,
        producers=ProducerStateManager(fs, folder, name),
    )
    return load(request).log_end_offset

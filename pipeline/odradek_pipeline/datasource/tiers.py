"""Where the tier is: a folder in the layout of Kafka's LocalTieredStorage, or a bucket in that of Aiven's plugin.

A tier says which files a segment has, and lists the segments of a partition, for who has no `__remote_log_metadata`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from odradek_pipeline.datasource import walk
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.indexes import read_offset_index
from odradek_pipeline.datasource.places import Place, open_log
from odradek_pipeline.datasource.remote_files import FolderFile, S3Index, S3Log, asked, bucket_of
from odradek_pipeline.datasource.segments import Segment
from odradek_pipeline.protocol.remote_storage.folder_layout import (
    LOG_SUFFIX,
    ROOT,
    SUFFIXES,
    file_of,
    folder_of,
    parse_file,
    parse_folder,
)
from odradek_pipeline.protocol.remote_storage.s3 import S3Settings
from odradek_pipeline.protocol.remote_storage.segment import RemoteSegment, State
from odradek_pipeline.protocol.remote_storage.store import IndexKind
from odradek_pipeline.protocol.topic_partition import EpochEntry

logger = logging.getLogger(__name__)

Wants = Callable[[str, int], bool]
"""Whether a partition, by topic and number, is wanted."""


@dataclass(frozen=True, slots=True)
class FolderTier:
    """The folder that `rsm.config.dir` names."""

    directory: str

    def __str__(self) -> str:
        return self.directory

    def files(self, remote: RemoteSegment) -> Segment:
        """The segment as the source reads it."""
        return _segment(remote, self._file(remote, LOG_SUFFIX), lambda kind: self._file(remote, SUFFIXES[kind]))

    def index(self, remote: RemoteSegment, kind: IndexKind) -> bytes:
        """Raises RemoteFileMissing, OSError, DataSourceError."""
        return self._file(remote, SUFFIXES[kind]).content()

    def _file(self, remote: RemoteSegment, suffix: str) -> FolderFile:
        return FolderFile(f"{self.directory}/{ROOT}/{folder_of(remote.partition)}/{file_of(remote, suffix)}")

    def check(self) -> None:
        """Raises DataSourceError if nothing can be read there."""
        self._names()

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(f"{self.directory}/{ROOT}"))
        except OSError as error:
            raise DataSourceError(f"The tier {self.directory} cannot be read: {error}") from error

    def listed(self, wants: Wants, *, salvage: bool = False) -> Iterator[RemoteSegment]:
        """The segments that are there of the wanted partitions.

        With `salvage` also what is not whole: its state is COPY_STARTED. Raises DataSourceError, OSError.
        """
        root = f"{self.directory}/{ROOT}"
        for name in self._names():
            partition = parse_folder(name)
            if partition is None or not wants(partition.topic, partition.index):
                continue
            for entry in sorted(os.listdir(f"{root}/{name}")):
                parsed = parse_file(entry)
                if parsed is not None and parsed[2] == LOG_SUFFIX:
                    bare = RemoteSegment(partition, parsed[1], parsed[0], parsed[0], -1, -1, -1, (), 0)
                    found = self._look(bare, f"{root}/{name}/{entry}", strict=not salvage)
                    if found is not None:
                        yield found
                    elif salvage:
                        yield replace(bare, txn_index_empty=True)

    def _look(self, bare: RemoteSegment, log: str, *, strict: bool) -> RemoteSegment | None:
        """What the files of a segment say; None for one that is half copied or removed, or, if not strict, damaged."""
        base = bare.start_offset
        try:
            file = os.stat(log)
            found = replace(
                bare,
                event_timestamp=int(file.st_mtime * 1000),
                size=file.st_size,
                state=State.COPY_FINISHED,
                txn_index_empty=not os.path.exists(log.removesuffix(LOG_SUFFIX) + SUFFIXES[IndexKind.TRANSACTION]),
            )
            end = _end_of(self.files(found))
            lineage = decode_epochs(self.index(found, IndexKind.LEADER_EPOCH))
        except FileNotFoundError:
            return None
        except DataSourceError:
            if strict:
                raise
            return None
        if end is None:
            if strict:
                logger.warning("remote segment left out, as it is not whole: %s", log)
            return None
        first = [EpochEntry(entry.epoch, base) for entry in lineage if entry.start_offset <= base][-1:]
        later = [entry for entry in lineage if base < entry.start_offset < end]
        return replace(found, end_offset=end - 1, epochs=(*first, *later))


@dataclass(frozen=True, slots=True)
class S3Tier:
    """The bucket and prefix of `rsm.config.storage.s3.bucket.name` and `rsm.config.key.prefix`."""

    settings: S3Settings

    def __str__(self) -> str:
        return f"s3://{self.settings.bucket}/{self.settings.prefix}"

    def files(self, remote: RemoteSegment) -> Segment:
        """See `FolderTier`."""
        return _segment(remote, S3Log(self.settings, remote), lambda kind: S3Index(self.settings, remote, kind))

    def index(self, remote: RemoteSegment, kind: IndexKind) -> bytes:
        """See `FolderTier`."""
        return S3Index(self.settings, remote, kind).content()

    def check(self) -> None:
        """See `FolderTier`."""
        asked(str(self), bucket_of(self.settings).check)

    def listed(self, wants: Wants, *, salvage: bool = False) -> Iterator[RemoteSegment]:
        """See `FolderTier`."""
        found = bucket_of(self.settings).segments(wants, salvage=salvage)
        while (segment := asked(str(self), lambda: next(found, None))) is not None:
            yield segment


Tier = FolderTier | S3Tier


def tier_of(
    place: str,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> Tier:
    """The tier at a folder, or at `s3://BUCKET/PREFIX`, where the rest is as in S3Settings.

    Raises DataSourceError for any other place.
    """
    scheme, found, rest = place.partition("://")
    if not found:
        return FolderTier(place.rstrip("/") or "/")
    name, _, prefix = rest.partition("/")
    if scheme not in ("s3", "s3a") or not name:
        raise DataSourceError(f"The tier cannot be at {place}: it is a folder or s3://BUCKET/PREFIX.")
    return S3Tier(S3Settings(name, prefix, endpoint, region, access_key=access_key, secret_key=secret_key))


def _segment(remote: RemoteSegment, log: Place, index: Callable[[IndexKind], Place]) -> Segment:
    transactions = None if remote.txn_index_empty else index(IndexKind.TRANSACTION)
    return Segment(remote.start_offset, log, index(IndexKind.OFFSET), index(IndexKind.TIMESTAMP), transactions, remote)


def _end_of(segment: Segment) -> int | None:
    """The offset behind a whole segment; None if its log ends before its offset index does, or within a batch."""
    index = read_offset_index(segment)
    position = int(index.positions[-1]) if len(index.positions) else 0
    end = None
    with open_log(segment.log) as log:
        for at, header in walk.headers(log, position, segment.base_offset):
            end, position = header.next_offset, at + header.size
        return end if position == log.size else None


def decode_epochs(content: bytes) -> list[EpochEntry]:
    """The entries of a leader epoch checkpoint. Raises DataSourceError for anything else."""
    lines = content.decode(errors="replace").splitlines()
    try:
        entries = [EpochEntry(*map(int, line.split(" "))) for line in lines[2:]]
        whole = lines[0] == "0" and int(lines[1]) == len(entries)
    except (ValueError, IndexError, TypeError) as error:
        raise DataSourceError(f"A leader epoch checkpoint cannot be read: {error}") from error
    if not whole:
        raise DataSourceError("A leader epoch checkpoint is of another version than 0, or not whole.")
    return entries

"""A copy of a data folder whose older segments are in remote storage alone, as a broker with a tier leaves it."""

from __future__ import annotations

import shutil
import struct
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from uuid import UUID, uuid4

from broker.tiering.segment_content import plan_copy, read_content
from protocol import uuids
from protocol.records.batch import read_header
from protocol.records.build import Record, build_batch
from protocol.remote_log_records import encode_remote_log_record
from protocol.remote_storage.s3 import S3Store
from protocol.remote_storage.segment import RemoteSegment, State, TopicIdPartition, metadata_record, update_record
from protocol.remote_storage.store import IndexKind, RemoteStore, SegmentData
from protocol.topic_partition import EpochEntry
from storage.log.unified_log import UnifiedLog
from storage.segments.segment import LogSegment
from tests.unit.storage.cleaner.cleaning import last_stable_offset
from tests.unit.storage.support import NOW, TOPIC_ID

METADATA = "__remote_log_metadata"
FOREIGN = 1
"""A leader epoch that the log itself has not."""


@dataclass
class TieredCopy:
    """`root` is the data folder, `store` where the rest is; `records` become the metadata topic."""

    log: UnifiedLog
    store: RemoteStore
    root: Path
    records: list[bytes] = field(default_factory=list)
    copied: list[RemoteSegment] = field(default_factory=list)

    @property
    def partition(self) -> TopicIdPartition:
        topic, _, index = self.log.name.rpartition("-")
        return TopicIdPartition(topic, TOPIC_ID, int(index))

    def sealed(self) -> list[tuple[LogSegment, int]]:
        """The segments that a broker would copy, and the offset behind each."""
        segments = list(self.log.segments)
        stable = last_stable_offset(self.log)
        return [(one, after.base_offset) for one, after in pairwise(segments) if after.base_offset <= stable]

    def tier(self, local: int) -> None:
        """Copy all that may be copied; of these the newest `local` segments stay in the folder, too."""
        sealed = self.sealed()
        shutil.copytree(Path(self.log.folder).parent, self.root)
        for segment, next_offset in sealed:
            if next_offset > self.log.log_start_offset:
                self.copied.append(self.copy(segment, next_offset))
        for segment, _ in sealed[: max(len(sealed) - local, 0)]:
            self._remove(segment.base_offset)
        start = self.log.log_start_offset
        checkpoint = self.root / "log-start-offset-checkpoint"
        checkpoint.write_text(f"0\n1\n{self.partition.topic} {self.partition.index} {start}\n")

    def _remove(self, base_offset: int) -> None:
        for file in (self.root / self.log.name).glob(f"{base_offset:020d}.*"):
            file.unlink()

    def copy_both(self, first: tuple[LogSegment, int], second: tuple[LogSegment, int]) -> RemoteSegment:
        """Copy two segments as one, as another leader may have had them."""
        contents = []
        for segment, next_offset in (first, second):
            file = self.log.services.fs.open_to_read(segment.path(".log"))
            try:
                content = read_content(plan_copy(self.log, segment, next_offset), file)
                contents.append((content, content.read(content.size, 0)))
            finally:
                file.close()
        data = b"".join(log for _, log in contents)
        indexes = {**contents[1][0].indexes, IndexKind.OFFSET: b"", IndexKind.TIMESTAMP: b""}
        content = SegmentData(len(data), lambda size, position: data[position : position + size], indexes)
        epochs: dict[int, int] = {}
        for segment, next_offset in (second, first):
            epochs |= dict(plan_copy(self.log, segment, next_offset).own_epochs)
        return self._store(
            content, first[0].base_offset, second[1], tuple(map(EpochEntry._make, sorted(epochs.items())))
        )

    def copy_foreign(self, segment: LogSegment, next_offset: int) -> RemoteSegment:
        """A segment of another leader, whose records are not the log's any more (an unclean election)."""
        file = self.log.services.fs.open_to_read(segment.path(".log"))
        try:
            content = read_content(plan_copy(self.log, segment, next_offset), file)
            data, position = bytearray(content.read(content.size, 0)), 0
        finally:
            file.close()
        while position < len(data):
            header = read_header(data, position)
            struct.pack_into(">i", data, position + 12, FOREIGN)
            position += header.size
        lines = b"0\n1\n%d %d\n" % (FOREIGN, segment.base_offset)
        content = SegmentData(
            len(data),
            lambda size, position: bytes(data[position : position + size]),
            {**content.indexes, IndexKind.LEADER_EPOCH: lines},
        )
        return self._store(content, segment.base_offset, next_offset, (EpochEntry(FOREIGN, segment.base_offset),))

    def copy(self, segment: LogSegment, next_offset: int, *, finish: bool = True) -> RemoteSegment:
        """Copy a segment once more, or begin to."""
        planned = plan_copy(self.log, segment, next_offset)
        file = self.log.services.fs.open_to_read(segment.path(".log"))
        try:
            content = read_content(planned, file)
            return self._store(content, segment.base_offset, next_offset, planned.own_epochs, finish=finish)
        finally:
            file.close()

    def _store(
        self, content: SegmentData, base: int, next_offset: int, epochs: tuple[EpochEntry, ...], *, finish: bool = True
    ) -> RemoteSegment:
        started = RemoteSegment(
            self.partition,
            uuid4(),
            base,
            next_offset - 1,
            1,
            NOW,
            NOW,
            epochs,
            content.size,
            txn_index_empty=len(content.indexes) < 5,
        )
        self.records.append(encode_remote_log_record(metadata_record(started)))
        if not finish:
            self._copy_half(started, replace(content, size=content.size // 2))
            return started
        self.store.copy(started, content)
        return self.into(started, State.COPY_FINISHED)

    def _copy_half(self, segment: RemoteSegment, content: SegmentData) -> None:
        """What a kill leaves; on S3 the manifest would come last."""
        if isinstance(self.store, S3Store):
            self.store._bucket.put(self.store.names(segment)[0], content.read(content.size, 0))
        else:
            self.store.copy(segment, content)

    def into(self, segment: RemoteSegment, state: State) -> RemoteSegment:
        """A segment in its next state, of which there is a record."""
        after = segment.with_state(state, broker_id=1, now_ms=NOW)
        self.records.append(encode_remote_log_record(update_record(after)))
        return after

    def delete(self, segment: RemoteSegment) -> None:
        """As retention does."""
        started = self.into(segment, State.DELETE_STARTED)
        self.store.delete(segment)
        self.into(started, State.DELETE_FINISHED)

    def write_metadata(self) -> None:
        """The topic `__remote_log_metadata` in the data folder, a batch for each record."""
        folder = self.root / f"{METADATA}-0"
        folder.mkdir(exist_ok=True)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuids.to_text(UUID(int=77))}\n")
        log = b""
        for offset, value in enumerate(self.records):
            batch = bytearray(build_batch([Record(0, NOW, None, value, ())]))
            batch[:8] = offset.to_bytes(8, "big")
            log += batch
        (folder / f"{0:020d}.log").write_bytes(log)

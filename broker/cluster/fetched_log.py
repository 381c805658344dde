"""The end of the metadata log as an observer fetches it: what is committed, and what may yet be taken back.

A leader also hands out records that the quorum has not committed. They are kept here until the high watermark passes
them; if another leader says that its log diverges, those that it does not have are dropped (KIP-595).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from controller.quorum.errors import MetadataLogError
from controller.quorum.metadata_batches import CommittedBatch, decode_batch
from protocol.metadata import serde
from protocol.metadata.brokers import KRaftVersionRecord, VotersRecord
from protocol.primitives import DecodeError
from protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader, check_crc, read_header
from protocol.records.build import iter_records

SOURCE = "the metadata log of the controllers"


@dataclass(frozen=True, slots=True)
class _Fetched:
    header: BatchHeader
    batch: memoryview


class FetchedLog:
    """Batches in the order of their offsets, of which the committed ones are taken away.

    Attributes:
        committed_end: the offset after the last batch that was taken.
        committed_epoch: the epoch of that batch.
        quorum_records: the newest control records that say who the voters are, if the log has any.
    """

    def __init__(self, end_offset: int = 0, epoch: int = 0) -> None:
        self.committed_end = end_offset
        self.committed_epoch = epoch
        self.quorum_records: dict[str, KRaftVersionRecord | VotersRecord] = {}
        self._pending: deque[_Fetched] = deque()

    @property
    def kraft_version(self) -> int:
        """The finalized level of `kraft.version`."""
        record = self.quorum_records.get(KRaftVersionRecord.__name__)
        return record.k_raft_version if isinstance(record, KRaftVersionRecord) else 0

    @property
    def end_offset(self) -> int:
        """The offset to fetch next."""
        return self._pending[-1].header.next_offset if self._pending else self.committed_end

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch."""
        return self._pending[-1].header.leader_epoch if self._pending else self.committed_epoch

    def append(self, data: bytes) -> None:
        """Take what was fetched at `end_offset`; the last batch may be cut off. Raises MetadataLogError."""
        view, at = memoryview(data), 0
        while at + HEADER_SIZE <= len(data):
            header = read_header(view, at)
            end = at + header.size
            if end > len(data):
                break
            if header.magic != MAGIC or header.size < HEADER_SIZE or not check_crc(view, at, header):
                raise MetadataLogError(f"{SOURCE}: the batch at offset {header.base_offset} was damaged on its way")
            if header.base_offset > self.end_offset:
                raise MetadataLogError(f"{SOURCE}: offset {self.end_offset} is missing before {header.base_offset}")
            if header.last_offset >= self.end_offset:
                self._pending.append(_Fetched(header, view[at:end]))
            at = end

    def truncate(self, epoch: int, end_offset: int) -> None:
        """The leader's log has nothing of ours after `end_offset`, nor of an epoch after `epoch`.

        Raises MetadataLogError if that takes back what was committed.
        """
        while self._pending:
            last = self._pending[-1].header
            if last.leader_epoch <= epoch and last.next_offset <= end_offset:
                break
            self._pending.pop()
        if not self._pending and (self.committed_end > end_offset or self.committed_epoch > epoch):
            raise MetadataLogError(
                f"{SOURCE} ends at offset {end_offset} of epoch {epoch}, but this node has followed it up to offset "
                f"{self.committed_end} of epoch {self.committed_epoch}: the controllers have lost what was committed"
            )

    def take_committed(self, high_watermark: int) -> Iterator[CommittedBatch]:
        """Take away the batches below the high watermark. Raises MetadataLogError for records that are not known."""
        while self._pending and self._pending[0].header.next_offset <= high_watermark:
            fetched = self._pending.popleft()
            header = fetched.header
            if header.is_control:
                self._note_control(fetched)
            records = decode_batch(header, fetched.batch, SOURCE)
            if header.base_offset < self.committed_end:  # the fetch began within the batch
                records = records[self.committed_end - header.base_offset :]
            self.committed_end, self.committed_epoch = header.next_offset, header.leader_epoch
            yield CommittedBatch(header.last_offset, header.leader_epoch, header.max_timestamp, records)

    def _note_control(self, fetched: _Fetched) -> None:
        try:
            for record in iter_records(fetched.batch, fetched.header):
                control = serde.decode_control(record.key, record.value)
                if isinstance(control, KRaftVersionRecord | VotersRecord):
                    self.quorum_records[control.__class__.__name__] = control
        except (DecodeError, ValueError) as error:
            raise MetadataLogError(
                f"{SOURCE}: the control records from {fetched.header.base_offset} on: {error}"
            ) from error

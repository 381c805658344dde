"""The data source against storage: whatever was done to a log, its files hold what a broker would tell a consumer."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource.columns import COLUMNS
from odradek_pipeline.datasource.log_view import Planner
from odradek_pipeline.datasource.offsets import batch_ranges
from odradek_pipeline.datasource.options import Isolation, SourceOptions
from odradek_pipeline.datasource.reader import read_split
from odradek_pipeline.datasource.splits import plan_splits
from protocol.records.batch import read_header
from protocol.records.build import Headers, Record, build_batch, iter_records
from protocol.records.compression import Compression
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.cleaner.cleaning import clean, end_txn, last_stable_offset
from tests.unit.storage.support import NOW, Rig, append, contents

PRODUCERS = (7, 8, 9)
CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=200, min_cleanable_dirty_ratio=0.0)


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    producer_id: int
    sequence: int
    transactional: bool


@dataclass
class Workload:
    """What was done to the log, and what became of each transaction: `aborted` holds base offsets of batches.

    The `epoch` is that of the leader.
    """

    rig: Rig
    draw: random.Random
    sequences: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PRODUCERS, 0))
    written: dict[int, list[int]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    epoch: int = 0

    @property
    def log(self) -> UnifiedLog:
        return self.rig.log()

    def records(self) -> list[Record]:
        draw = self.draw
        return [
            Record(
                number,
                NOW + draw.randrange(-500, 500),
                draw.choice((b"a", b"b", b"c", b"k" * 70, b"d" if self.rig.config.compact else None)),
                draw.choice((None, b"", draw.randbytes(draw.randrange(300)))),
                tuple(
                    (b"h" * draw.randrange(4), draw.choice((None, b"", b"v"))) for _ in range(draw.choice((0, 0, 3)))
                ),
            )
            for number in range(draw.randrange(1, 8))
        ]

    def append(self, producer: int | None) -> None:
        records = self.records()
        codec = self.draw.choice(list(Compression))
        if producer is None:
            append(self.log, memoryview(build_batch(records, compression=codec)), epoch=self.epoch)
            return
        batch = build_batch(
            records,
            compression=codec,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences[producer],
            transactional=True,
        )
        self.sequences[producer] += len(records)
        self.written.setdefault(producer, []).append(append(self.log, memoryview(batch), epoch=self.epoch).first_offset)

    def end(self, producer: int, commit: bool) -> None:
        if producer in self.written:
            batches = self.written.pop(producer)
            if not commit:
                self.aborted.update(batches)
            end_txn(self.log, producer, commit=commit, epoch=self.epoch)

    def delete_records(self) -> None:
        log = self.log
        log.increment_log_start_offset(self.draw.randrange(log.log_start_offset, last_stable_offset(log) + 1))
        self.rig.manager.checkpoint_log_start_offsets()

    def step(self, kind: str) -> None:
        producer = self.draw.choice(PRODUCERS)
        match kind:
            case "plain":
                self.append(None)
            case "transactional":
                self.append(producer)
            case "commit" | "abort":
                self.end(producer, kind == "commit")
            case "elect":
                self.epoch += 2
            case "delete":
                self.delete_records()
            case "compact":
                clean(self.rig)
            case "restart":
                self.rig.restart()
            case "kill":
                self.rig.kill()

    def expected(self, committed: bool) -> list[Row]:
        """By storage's own reader."""
        log = self.log
        end = last_stable_offset(log) if committed else log.log_end_offset
        return [row for row in self._rows(committed) if log.log_start_offset <= row.offset < end]

    def _rows(self, committed: bool) -> Iterator[Row]:
        for batch in contents(self.log):
            header = read_header(batch)
            if header.is_control or (committed and header.base_offset in self.aborted):
                continue
            for record in iter_records(batch, header):
                sequence = -1
                if header.base_sequence >= 0:
                    sequence = header.base_sequence + record.offset - header.base_offset
                yield Row(
                    record.offset,
                    record.key,
                    record.value,
                    record.headers,
                    record.timestamp,
                    header.producer_id,
                    sequence,
                    header.is_transactional,
                )


def rows_of(planner: Planner, options: SourceOptions) -> list[Row]:
    """What is there now, split by split."""
    splits = plan_splits(batch_ranges(planner.look(), options), options.split_bytes, options.min_partitions)
    return [
        Row(
            found["offset"],
            found["key"],
            found["value"],
            tuple((one["key"].encode(), one["value"]) for one in found["headers"]),
            round(found["timestamp"].timestamp() * 1000),
            found["producer_id"],
            found["sequence"],
            found["is_transactional"],
        )
        for split in splits
        for batch in read_split(split, options, tuple(COLUMNS))
        for found in batch.to_pylist()
    ]


STEPS = st.lists(
    st.sampled_from(
        ("plain",) * 4
        + ("transactional",) * 6
        + ("commit",) * 2
        + ("abort",) * 3
        + ("delete", "compact", "restart", "kill")
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_reads_what_storage_reads(steps: list[str], seed: int) -> None:
    """Also for a look that goes on where the last one ended, as a stream's does."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as root:
        config = replace(CONFIG, compact=draw.random() < 0.5, segment_bytes=draw.choice((3000, 100_000)))
        work = Workload(Rig(OsFileSystem(), config, root), draw)
        options = SourceOptions(
            paths=(root,), split_bytes=draw.choice((1, 400, 1 << 20)), batch_bytes=draw.choice((1, 500, 1 << 20))
        )
        every = replace(options, isolation=Isolation.READ_UNCOMMITTED)
        lasting = Planner(options)
        for kind in steps:
            work.step(kind)
            if draw.random() < 0.3:
                assert rows_of(lasting, options) == work.expected(committed=True)
        assert rows_of(Planner(options), options) == work.expected(committed=True)
        assert rows_of(Planner(every), every) == work.expected(committed=False)
        work.rig.manager.release()

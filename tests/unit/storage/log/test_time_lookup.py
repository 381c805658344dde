"""ListOffsets by timestamp, and by the largest one."""

from __future__ import annotations

import pytest

from protocol.errors import InvalidRecord
from protocol.records import walk
from protocol.records.build import Record, build_batch, encode_record
from protocol.records.compression import Compression, compress
from storage.append_types import LogConfig
from storage.log import time_lookup
from storage.log.log_segments import TimestampOffsetEpoch
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.log.validator_cases import with_section
from tests.unit.storage.support import NOW, Rig, append, batch, now


def test_list_offsets_by_time(fs: MemoryFileSystem) -> None:
    log = Rig(fs, LogConfig(index_interval_bytes=1)).log()
    append(log, batch(b"a", b"b", timestamp=NOW), epoch=1)
    append(log, batch(b"c", timestamp=NOW - 500), epoch=1)
    log.roll()
    append(log, batch(b"d", timestamp=NOW + 10), epoch=2)
    assert now(time_lookup.first_at_or_after(log, 0)) == TimestampOffsetEpoch(NOW, 0, 1)
    assert now(time_lookup.first_at_or_after(log, NOW + 1)) == TimestampOffsetEpoch(NOW + 1, 1, 1)
    assert now(time_lookup.first_at_or_after(log, NOW + 2)) == TimestampOffsetEpoch(NOW + 10, 3, 2)
    assert now(time_lookup.first_at_or_after(log, NOW + 11)) is None
    assert now(time_lookup.largest(log)) == TimestampOffsetEpoch(NOW + 10, 3, 2)


def test_list_offsets_max_timestamp_is_found_inside_its_batch(fs: MemoryFileSystem) -> None:
    log = Rig(fs).log()
    assert now(time_lookup.largest(log)) is None
    records = [Record(0, NOW, None, b""), Record(1, NOW + 9, None, b""), Record(2, NOW + 9, None, b"")]
    append(log, memoryview(build_batch(records)))
    append(log, batch(timestamp=NOW + 5))
    assert now(time_lookup.largest(log)) == TimestampOffsetEpoch(NOW + 9, 1, 0)


def test_damage_behind_the_record_with_the_largest_timestamp_does_not_matter(fs: MemoryFileSystem) -> None:
    """Of a compressed batch that is stored as it came the sizes of records are not looked at, as in Kafka."""
    second = encode_record(1, -5, None, b"b")
    section = encode_record(0, 0, None, b"a") + bytes((second[0] + 2,)) + second[1:]
    log = Rig(fs).log()
    append(log, memoryview(bytearray(with_section(NOW, compress(Compression.GZIP, section), 2, Compression.GZIP))))
    assert now(time_lookup.largest(log)) == TimestampOffsetEpoch(NOW, 0, 0)
    with pytest.raises(InvalidRecord):
        now(time_lookup.first_at_or_after(log, NOW))


def test_a_lookup_takes_nothing_of_the_decompression_budget(
    fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes through millions of records in Python, while checks of produced batches would wait."""
    log = Rig(fs).log()
    values = [bytes(walk.FREE_BYTES), b"a", b""]
    records = [Record(index, NOW + index, b"k", value, ((b"h", b""),)) for index, value in enumerate(values)]
    append(log, memoryview(build_batch(records, compression=Compression.GZIP)))
    monkeypatch.setattr(walk, "BUDGET", None)
    assert now(time_lookup.first_at_or_after(log, NOW + 1)) == TimestampOffsetEpoch(NOW + 1, 1, 0)
    assert now(time_lookup.largest(log)) == TimestampOffsetEpoch(NOW + 2, 2, 0)


def test_a_lookup_refuses_a_record_that_is_longer_than_its_fields(fs: MemoryFileSystem) -> None:
    first = encode_record(0, 0, None, b"a")
    section = bytes((first[0] + 2,)) + first[1:] + encode_record(1, 1, None, b"b")
    log = Rig(fs).log()
    append(log, memoryview(bytearray(with_section(NOW + 1, compress(Compression.GZIP, section), 2, Compression.GZIP))))
    with pytest.raises(InvalidRecord):
        now(time_lookup.first_at_or_after(log, NOW + 1))

"""What compaction makes of batches that are valid, but that few clients write."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from protocol.records import compression
from protocol.records.build import encode_varint, pack_batch
from protocol.records.compression import Compression
from storage.append_types import LogConfig
from storage.log import time_lookup
from storage.log.log_segments import TimestampOffsetEpoch
from tests.unit.storage.cleaner.cleaning import Kept, clean, put, records
from tests.unit.storage.log.validator_cases import EXCESS_BITS, with_section
from tests.unit.storage.support import NOW, Rig, append, now

COMPACT = LogConfig(compact=True, delete=False, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)


def record(offset_delta: int, key: bytes | int, value: bytes | int) -> bytes:
    """A record; a number in place of a key or value is its length, and nothing follows."""
    fields = [encode_varint(one) if isinstance(one, int) else encode_varint(len(one)) + one for one in (key, value)]
    body = b"\0" + encode_varint(0) + encode_varint(offset_delta) + b"".join(fields) + encode_varint(0)
    return encode_varint(len(body)) + body


@pytest.mark.parametrize("length", [-1, -2, -1000])
def test_any_negative_length_means_null(length: int) -> None:
    """As in Kafka, to which these records were sent."""
    rig = Rig(config=LogConfig())
    log = rig.log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    section = record(0, length, b"no key") + record(1, b"a", length) + record(2, b"c", b"1")
    append(log, memoryview(pack_batch(section, 3, last_offset_delta=2, base_timestamp=NOW, max_timestamp=NOW)))
    log.config = COMPACT  # from now on, records without a key would be refused
    for _ in range(2):  # the second time the tombstone goes
        log.roll()
        put(log, (b"last", b"record"))
        assert clean(rig)
        rig.clock.advance(1)
    assert records(log)[:2] == [Kept(1, b"b", b"1"), Kept(4, b"c", b"1")]


@pytest.mark.parametrize(
    ("deltas", "left"),
    [
        ((0, 5), [Kept(7, b"b", b"new")]),
        ((0, -3), [Kept(1, b"b", b"old")]),
        ((1, 0), [Kept(2, b"b", b"new")]),
        ((0, 0), [Kept(2, b"b", b"new")]),
        ((-(2**31), 1), [Kept(3, b"b", b"new")]),
        ((7,), [Kept(1, b"b", b"old"), Kept(9, b"a", b"new")]),
    ],
)
def test_offsets_in_disorder_cost_no_key_its_latest_value(deltas: Sequence[int], left: list[Kept]) -> None:
    """What Apache Kafka 4.1 leaves of the same records."""
    rig = Rig(config=COMPACT)
    log = rig.log()
    put(log, (b"a", b"old"), (b"b", b"old"))
    section = b"".join(record(delta, key, b"new") for delta, key in zip(deltas, (b"a", b"b"), strict=False))
    count = len(deltas)
    append(
        log, memoryview(pack_batch(section, count, last_offset_delta=count - 1, base_timestamp=NOW, max_timestamp=NOW))
    )
    put(log, (b"a", b"last"))
    latest = Kept(log.log_end_offset - 1, b"a", b"last")
    for _ in range(3):
        log.roll()
        put(log, (b"z", b"active"))
        assert clean(rig)
    assert [record for record in records(log) if record.key != b"z"] == [*left, latest]


@pytest.mark.parametrize("excessive", EXCESS_BITS.values(), ids=EXCESS_BITS)
def test_excess_bits_of_a_number_are_lost(excessive: bytes) -> None:
    rig = Rig(config=COMPACT)
    log = rig.log()
    put(log, (b"k", b"old"), (b"other", b"1"))
    append(log, memoryview(with_section(NOW, excessive, 1)))
    log.roll()
    put(log, (b"z", b"active"))
    assert clean(rig)
    assert records(log)[:2] == [Kept(1, b"other", b"1"), Kept(2, b"k", b"v")]


def test_a_batch_that_was_accepted_because_of_its_size_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_LIMIT", 1000)
    rig = Rig(config=COMPACT)
    log = rig.log()
    large = b"".join(b"%d" % number for number in range(10_000))
    put(log, (b"a", large), (b"b", large[::-1]), compression=Compression.ZSTD)
    put(log, (b"b", b"new"))
    log.roll()
    put(log, (b"z", b"active"))
    assert now(time_lookup.first_at_or_after(log, NOW)) == TimestampOffsetEpoch(NOW, 0, 0)
    assert clean(rig)
    assert log.cleaned_to == 3
    assert records(log)[:2] == [Kept(0, b"a", large), Kept(2, b"b", b"new")]

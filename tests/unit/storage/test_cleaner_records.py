"""What compaction makes of records that are valid, but that no usual client writes."""

from __future__ import annotations

import pytest

from protocol.records.build import encode_varint, pack_batch
from storage.append_types import LogConfig
from tests.unit.storage.cleaning import Kept, clean, put, records
from tests.unit.storage.support import NOW, Rig, append

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

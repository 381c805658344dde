"""How a coordinator's records are shared out to batches."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.batches import encode_batches
from coordinator.runtime.outcome import CoordinatorRecord
from protocol.coordinator_records.record_schema import RecordSchema
from protocol.declared import Bytes, Stored
from protocol.records.batch import HEADER_SIZE, read_header
from protocol.records.build import iter_records
from protocol.records.compression import Compression


class _Data(NamedTuple):
    data: Bytes


PLAIN: RecordSchema[bytes, bytes] = RecordSchema(
    "Plain", (7,), Stored(_Data), Stored(_Data), encode_key=bytes, encode_value=bytes
)
LIMIT = 400
OVERHEAD = 32
"""Most bytes of a record beside its key and its value."""

RECORDS = st.lists(
    st.builds(
        CoordinatorRecord,
        st.just(PLAIN),
        st.binary(min_size=1, max_size=150),
        st.none() | st.binary(max_size=150) | st.just(bytes(LIMIT)),
    ),
    min_size=1,
    max_size=20,
)


def size_of(record: CoordinatorRecord) -> int:
    return len(record.key) + len(record.value or b"") + OVERHEAD


@given(RECORDS)
def test_a_limit_splits_the_records_in_their_order_and_no_more_than_needed(records: list[CoordinatorRecord]) -> None:
    batches = encode_batches(records, 5, None, Compression.NONE, LIMIT)
    assert [record for _, part in batches for record in part] == records
    for batch, part in batches:
        assert len(batch) <= LIMIT or len(part) == 1
        read = [(record.key, record.value, record.timestamp) for record in iter_records(batch, read_header(batch))]
        assert read == [(record.key, record.value, 5) for record in part]
    for (_, part), (_, following) in pairwise(batches):
        assert HEADER_SIZE + sum(map(size_of, part)) + size_of(following[0]) > LIMIT


@given(RECORDS)
def test_without_a_limit_there_is_one_batch(records: list[CoordinatorRecord]) -> None:
    ((batch, part),) = encode_batches(records, 5, None, Compression.NONE, None)
    assert part == records
    assert read_header(batch).record_count == len(records)

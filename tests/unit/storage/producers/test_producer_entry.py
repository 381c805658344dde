"""What a snapshot's rows bring back of a producer (Kafka's ProducerStateManager.readSnapshot)."""

from __future__ import annotations

import pytest

from protocol.records.batch import MAX_SEQUENCE
from storage.producers.producer_entry import BATCHES_KEPT, BatchMetadata, ProducerStateEntry

NOW = 1_700_000_000_000


def entry(*batches: BatchMetadata) -> ProducerStateEntry:
    found = ProducerStateEntry(7, 3)
    found.coordinator_epoch = 4
    found.last_timestamp = NOW
    found.txn_first_offset = 12
    found.batches.extend(batches)
    return found


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param((), id="no batch, as after a marker of a new epoch"),
        pytest.param((BatchMetadata(0, 0, 0, 0, NOW),), id="the very first record"),
        pytest.param((BatchMetadata(0, 4, 20, 24, NOW),), id="one batch"),
        pytest.param(tuple(BatchMetadata(n, n, n, n, NOW - 4 + n) for n in range(BATCHES_KEPT)), id="five batches"),
        pytest.param((BatchMetadata(MAX_SEQUENCE - 1, 2, 20, 24, NOW),), id="sequence numbers that wrap"),
        pytest.param((BatchMetadata(MAX_SEQUENCE - 4, MAX_SEQUENCE, 20, 24, NOW),), id="up to the last number"),
        pytest.param((BatchMetadata(-1, -1, 20, 24, NOW),), id="without sequence numbers"),
    ],
)
def test_what_was_saved_is_restored(batches: tuple[BatchMetadata, ...]) -> None:
    before = entry(*batches)
    after = ProducerStateEntry.restored(before.rows())
    assert list(after.batches) == list(batches)
    assert [getattr(after, name) for name in ProducerStateEntry.__slots__ if name != "batches"] == [
        getattr(before, name) for name in ProducerStateEntry.__slots__ if name != "batches"
    ]


def test_the_row_that_kafka_reads_has_the_state_and_earlier_ones_no_transaction() -> None:
    rows = entry(BatchMetadata(0, 4, 12, 16, NOW - 1), BatchMetadata(5, 5, 17, 17, NOW)).rows()
    assert [(row.last_sequence, row.last_offset, row.offset_delta) for row in rows] == [(4, 16, 4), (5, 17, 0)]
    assert [(row.timestamp, row.txn_first_offset) for row in rows] == [(NOW - 1, -1), (NOW, 12)]


def test_a_producer_without_a_batch_has_one_row_of_nothing() -> None:
    (row,) = entry().rows()
    assert (row.last_sequence, row.last_offset, row.offset_delta) == (-1, -1, 0)

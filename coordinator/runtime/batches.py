"""A coordinator's records as batches (Kafka's CoordinatorRuntime writes them so)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.runtime.outcome import CoordinatorRecord, ProducerEpoch
from protocol.records.batch import HEADER_SIZE
from protocol.records.build import ControlRecordType, EndTransactionMarker, Record, build_batch, build_end_marker
from protocol.records.compression import Compression

_MOST_BYTES_BESIDE_KEY_AND_VALUE = 32


def encode_batches(
    records: Sequence[CoordinatorRecord],
    now_ms: int,
    producer: ProducerEpoch | None,
    compression: Compression,
    limit: int | None,
) -> Iterator[tuple[bytearray, Sequence[CoordinatorRecord]]]:
    """Batches and what is in them: one, or if ``limit`` is given as many as keep each below so many bytes."""
    encoded = [
        (schema.encode_key(key), None if value is None else schema.encode_value(value))
        for schema, key, value in records
    ]
    first = 0
    for end in (len(records),) if limit is None else _ends(encoded, limit):
        chunk = [Record(delta, now_ms, key, value) for delta, (key, value) in enumerate(encoded[first:end])]
        yield _build(chunk, producer, compression), records[first:end]
        first = end


def _ends(encoded: Sequence[tuple[bytes, bytes | None]], limit: int) -> Iterator[int]:
    size = HEADER_SIZE
    for index, (key, value) in enumerate(encoded):
        more = len(key) + len(value or b"") + _MOST_BYTES_BESIDE_KEY_AND_VALUE
        if size + more > limit and size > HEADER_SIZE:
            yield index
            size = HEADER_SIZE
        size += more
    yield len(encoded)


def _build(records: list[Record], producer: ProducerEpoch | None, compression: Compression) -> bytearray:
    # The sequence is 0 in every batch of Kafka's coordinators, and not checked (AppendOrigin.COORDINATOR).
    if producer is None:
        return build_batch(records, compression=compression, base_sequence=0)
    return build_batch(
        records,
        compression=compression,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )


def encode_end_marker(producer: ProducerEpoch, coordinator_epoch: int, committed: bool, now_ms: int) -> bytearray:
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return build_end_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp=now_ms,
    )

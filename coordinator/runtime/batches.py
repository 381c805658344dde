"""A coordinator's records as batches, the way Kafka's CoordinatorRuntime writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.runtime.outcome import NO_PRODUCER, CoordinatorRecord, ProducerEpoch
from protocol.records.batch import HEADER_SIZE, TRANSACTIONAL_FLAG
from protocol.records.build import ControlRecordType, EndTransactionMarker, build_end_marker, encode_record, pack_batch
from protocol.records.compression import Compression

_MOST_BYTES_BESIDE_KEY_AND_VALUE = 32
"""A record's other fields, as varints at their longest: size 5, attributes 1, timestamp delta 10, offset delta 5, key
and value size 5 each, number of headers 1."""

KeyAndValue = tuple[bytes, bytes | None]


def encode_batches(
    records: Sequence[CoordinatorRecord],
    now_ms: int,
    producer: ProducerEpoch | None,
    compression: Compression,
    limit: int | None,
    base_sequence: int = 0,
) -> list[tuple[bytearray, Sequence[CoordinatorRecord]]]:
    """(batch, its records) pairs: one, or with `limit` as many as needed to keep each batch within that many bytes.

    A single record that is larger gets a batch of its own. `base_sequence` goes into every batch, and nobody checks it
    (AppendOrigin.COORDINATOR).
    """
    encoded = [
        (schema.encode_key(key), None if value is None else schema.encode_value(value))
        for schema, key, value in records
    ]
    if limit is None:
        return [(_batch(encoded, now_ms, producer, compression, base_sequence), records)]
    batches = []
    first = 0
    for end in _ends(encoded, limit):
        batch = _batch(encoded[first:end], now_ms, producer, compression, base_sequence)
        batches.append((batch, records[first:end]))
        first = end
    return batches


def _ends(encoded: Sequence[KeyAndValue], limit: int) -> Iterator[int]:
    size = HEADER_SIZE
    for index, (key, value) in enumerate(encoded):
        more = len(key) + len(value or b"") + _MOST_BYTES_BESIDE_KEY_AND_VALUE
        if size + more > limit and size > HEADER_SIZE:
            yield index
            size = HEADER_SIZE
        size += more
    yield len(encoded)


def _batch(
    encoded: Sequence[KeyAndValue],
    now_ms: int,
    producer: ProducerEpoch | None,
    compression: Compression,
    base_sequence: int,
) -> bytearray:
    producer_id, producer_epoch = producer or NO_PRODUCER
    return pack_batch(
        b"".join([encode_record(delta, 0, key, value) for delta, (key, value) in enumerate(encoded)]),
        len(encoded),
        last_offset_delta=len(encoded) - 1,
        attributes=0 if producer is None else TRANSACTIONAL_FLAG,
        compression=compression,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_end_marker(producer: ProducerEpoch, coordinator_epoch: int, committed: bool, now_ms: int) -> bytearray:
    """The control batch that ends the producer's transaction (Kafka's EndTransactionMarker); `now_ms` is wall time."""
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    return build_end_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        timestamp=now_ms,
    )

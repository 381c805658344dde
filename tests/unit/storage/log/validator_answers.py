"""The form in which the answers to the validator's cases are kept and compared.

Times of the run are told from NOW. Of messages, only whether there is one is compared.
"""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import BatchHeader
from protocol.records.build import Record, iter_records

ANSWERS = Path(__file__).with_name("kafka_answers.json")


def describe(batch: bytes | memoryview, header: BatchHeader, now: int) -> dict[str, object]:
    """What is in a stored batch, with times relative to `now` and no offsets; LogAppendTime is a word."""
    appended = header.is_log_append_time
    return {
        "attributes": header.attributes,
        "last_offset_delta": header.last_offset_delta,
        "base_timestamp": relative(header.base_timestamp, now),
        "max_timestamp": "NOW" if appended else relative(header.max_timestamp, now),
        "producer": [header.producer_id, header.producer_epoch, header.base_sequence],
        "count": header.record_count,
        "records": [
            [
                record.offset - header.base_offset,
                "NOW" if appended else relative(record.timestamp, now),
                shown(record.key),
                shown(record.value),
                [[shown(key), shown(value)] for key, value in record.headers],
            ]
            for record in stored_records(batch, header)
        ],
    }


def stored_records(batch: bytes | memoryview, header: BatchHeader) -> list[Record]:
    """The records, or none if Kafka stored what cannot be read."""
    try:
        return list(iter_records(batch, header))
    except ValueError:
        return []


def shown(data: bytes | None) -> str | None:
    if data is None:
        return None
    return data.decode("latin-1") if len(data) < 100 else f"{len(data)} bytes"


def relative(timestamp: int, now: int) -> int | str:
    return f"NOW{timestamp - now:+d}" if abs(timestamp - now) < 1000 * 24 * 3600_000 else timestamp

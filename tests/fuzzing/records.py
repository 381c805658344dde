"""Targets of what is kept in records: those of the metadata log, and those of the coordinators."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from coordinator.group import group_coordinator_shard
from coordinator.share import share_coordinator_shard
from coordinator.transaction import transaction_coordinator_shard
from protocol.metadata.credentials import AccessControlEntryRecord, UserScramCredentialRecord
from protocol.metadata.serde import UnknownRecordError, decode_control, decode_record, encode_record
from protocol.metadata.topics import ConfigRecord, FeatureLevelRecord, TopicRecord
from protocol.primitives import DecodeError
from tests.fuzzing.target import Target

ROWS = {
    **group_coordinator_shard.ROWS,
    **{100 + number: row for number, row in transaction_coordinator_shard.ROWS.items()},
    **{200 + number: row for number, row in share_coordinator_shard.ROWS.items()},
}
"""Of all three coordinators; what the numbers are is nothing but a choice."""
NUMBERS = sorted(ROWS)


def coordinator_record(data: bytes) -> object:
    """The first byte says which schema, the second how long the key is."""
    row = ROWS[NUMBERS[data[0] % len(NUMBERS)]] if data else None
    if row is None:
        return None
    length = data[1] if len(data) > 1 else 0
    key, value = data[2 : 2 + length], data[2 + length :]
    try:
        row.schema.decode_key(key)
    finally:
        told = row.schema.decode_value(value)
    return told


def coordinator_records() -> Iterator[bytes]:
    for number in range(len(NUMBERS)):
        for version in range(3):
            start = struct.pack(">h", version)
            yield bytes([number, 8]) + start + b"\0\1g\0\1m" + start + bytes(24)


def metadata_record(data: bytes) -> object:
    decode_control(data[:4], data[4:])
    return decode_record(data)


def metadata_records() -> Iterator[bytes]:
    yield encode_record(TopicRecord(name="t", topic_id=UUID(int=1)))
    yield encode_record(ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"))
    yield encode_record(FeatureLevelRecord(name="group.version", feature_level=1))
    yield encode_record(
        UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"s", stored_key=b"k" * 32, server_key=b"k" * 32, iterations=4096
        )
    )
    yield encode_record(
        AccessControlEntryRecord(
            id=UUID(int=2),
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
    )


RECORDS = (
    Target("metadata_records", metadata_record, (DecodeError, UnknownRecordError), metadata_records),
    Target("coordinator_records", coordinator_record, (ValueError, struct.error), coordinator_records),
)

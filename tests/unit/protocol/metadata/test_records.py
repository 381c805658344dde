"""Records of `__cluster_metadata`: as Kafka 4.4 wrote them, and each field of each version there and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from protocol.metadata import serde
from protocol.metadata.serde import UnknownRecordError
from protocol.primitives import DecodeError
from protocol.records.batch import read_header
from protocol.records.build import Record, iter_records
from protocol.schema import default_entity, field_plans, layout

KAFKA = Path(__file__).parent / "kafka"
"""The metadata log and the first snapshot of one node with topics, configs, users, ACLs and producer ids."""


def _records(file: str) -> Iterator[tuple[bool, Record]]:
    data, pos = (KAFKA / file).read_bytes(), 0
    while pos < len(data):
        header = read_header(data, pos)
        for record in iter_records(data[pos : pos + header.size], header):
            yield header.is_control, record
        pos += header.size


@pytest.mark.parametrize("file", ["kafka-4.4.log", "kafka-4.4.checkpoint"])
def test_records_of_kafka_are_read_and_written_byte_for_byte(file: str) -> None:
    types = set()
    for is_control, record in _records(file):
        if is_control:
            control = serde.decode_control(record.key, record.value)
            assert serde.encode_control(control) == (record.key, record.value)
        else:
            assert record.value is not None
            entity = serde.decode_record(record.value)
            assert serde.encode_record(entity, version=record.value[2]) == record.value
            types.add(type(entity).__name__)
    assert types >= ({"TopicRecord", "PartitionChangeRecord"} if file.endswith(".log") else {"FeatureLevelRecord"})


_FILLED: dict[str, Any] = {
    "bool": True,
    "int8": -3,
    "int16": 300,
    "uint16": 65_535,
    "int32": -70_000,
    "int64": 1 << 40,
    "float64": 0.25,
    "string": "ü" * 100,
    "bytes": b"\x00" * 200,
    "uuid": UUID(int=7),
}


def _filled(cls: Any) -> Any:
    values = {}
    for plan in field_plans(cls):
        value = _filled(plan.entity) if plan.entity is not None else _FILLED[plan.kind]
        values[plan.name] = (value, value) if plan.array else value
    return cls(**values)


VERSIONS = [
    (key, version) for key in sorted(serde.API_KEYS) for version in range(serde.record_class(key).__version__ + 1)
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_record_in_every_version(key: int, version: int) -> None:
    cls = serde.record_class(key)
    known = {plan.name for plan in field_plans(layout(cls, version))}
    full, empty = _filled(cls), default_entity(cls)
    for entity in (full, empty):
        expected = dataclasses.replace(empty, **{name: getattr(entity, name) for name in known})
        assert serde.decode_record(serde.encode_record(entity, version)) == expected


@pytest.mark.parametrize("key", range(2, 7))
def test_every_control_record(key: int) -> None:
    cls: Any = serde.control_class(key)
    entity = dataclasses.replace(_filled(cls), version=cls.__version__)
    assert serde.decode_control(*serde.encode_control(entity)) == entity


def test_a_control_record_of_another_kind_is_none_of_a_quorum() -> None:
    assert serde.decode_control(b"\0\0\0\x01", b"\0\0\0\0\0\0") is None


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"\x02\x02\x00", UnknownRecordError),
        (b"\x01\x63\x00", UnknownRecordError),
        (b"\x01\x02\x01", UnknownRecordError),
        (b"\x01\x02\x00\x05ab", DecodeError),
        (b"\x01\x18\x00\x00\x00", DecodeError),
        (b"", DecodeError),
    ],
    ids=["frame version", "type", "version", "cut short", "bytes behind it", "empty"],
)
def test_a_record_that_cannot_be_read(value: bytes, error: type[DecodeError]) -> None:
    with pytest.raises(error):
        serde.decode_record(value)

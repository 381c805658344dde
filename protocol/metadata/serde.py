"""Between records of `__cluster_metadata` and the bytes in a batch (Kafka's `MetadataRecordSerde`).

A value is: frame version 1, API key and version as unsigned varints, then the record's body. Keys are null. The value
of a control record is the body alone, in the version that its first field says.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from struct import Struct, error
from typing import Any

from ..primitives import DecodeError, append_uvarint, read_uvarint
from ..schema import EntityClass, field_plans, layout

FRAME_VERSION = 1

# Where each record is declared: a module is loaded once one of its records is met.
_MODULES = {
    "brokers": {
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        7: "FenceBrokerRecord",
        8: "UnfenceBrokerRecord",
        17: "BrokerRegistrationChangeRecord",
        27: "RegisterControllerRecord",
        29: "UnregisterControllerRecord",
    },
    "topics": {
        2: "TopicRecord",
        3: "PartitionRecord",
        4: "ConfigRecord",
        5: "PartitionChangeRecord",
        9: "RemoveTopicRecord",
        12: "FeatureLevelRecord",
        14: "ClientQuotaRecord",
        15: "ProducerIdsRecord",
        28: "ClearElrRecord",
    },
    "credentials": {
        10: "DelegationTokenRecord",
        11: "UserScramCredentialRecord",
        18: "AccessControlEntryRecord",
        19: "RemoveAccessControlEntryRecord",
        22: "RemoveUserScramCredentialRecord",
        26: "RemoveDelegationTokenRecord",
    },
    "transactions": {
        20: "NoOpRecord",
        21: "ZkMigrationStateRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
    },
}
_PLACES = {key: (module, name) for module, names in _MODULES.items() for key, name in names.items()}

API_KEYS = frozenset(_PLACES)
"""The API keys of all records of Kafka 4.4."""

_CONTROL = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
_CONTROL_KEY = Struct(">hh")
_VERSION = Struct(">h")


class UnknownRecordError(DecodeError):
    """A record of a type or version that this release does not know: it was written by a newer Kafka."""


@cache
def record_class(api_key: int) -> EntityClass:
    """Raises UnknownRecordError."""
    if api_key not in _PLACES:
        raise UnknownRecordError(f"metadata record type {api_key} is not known")
    module, name = _PLACES[api_key]
    return getattr(import_module(f"{__package__}.{module}"), name)


@cache
def control_class(api_key: int) -> EntityClass | None:
    """The class of a control record, by the type in its key; None for those that no quorum writes."""
    name = _CONTROL.get(api_key)
    return None if name is None else getattr(import_module(f"{__package__}.brokers"), name)


def lowest_version(record: Any) -> int:
    """The lowest version that has every field in which the record differs from the defaults."""
    for since, name, default in _later_fields(record.__class__):
        if getattr(record, name) != default:
            return since
    return 0


@cache
def _later_fields(cls: EntityClass) -> tuple[tuple[int, str, Any], ...]:
    """The fields that version 0 lacks: since which version, name and default; the latest version first."""
    later = [(plan.since, plan.name, plan.default) for plan in field_plans(cls) if plan.since]
    return tuple(sorted(later, key=lambda each: -each[0]))


def encode_record(record: Any, version: int | None = None) -> bytes:
    """The value of a record, in the newest version known, or in an older one that lacks none of what it says."""
    cls = record.__class__
    out = bytearray()
    write(out, cls, record, cls.__version__ if version is None else version)
    return bytes(out)


def write(out: bytearray, cls: EntityClass, record: Any, version: int) -> None:
    """Append the value of a record."""
    from ..writer import entity_writer

    out.append(FRAME_VERSION)
    append_uvarint(out, cls.__api_key__)
    append_uvarint(out, version)
    entity_writer(layout(cls, version), cls)(out, record)


def decode_record(value: bytes) -> Any:
    """The record in a value, as its newest class; what its version lacks is at its default.

    Raises UnknownRecordError, and DecodeError for bytes that are no record.
    """
    from ..reader import entity_reader

    cls, version, pos = read_type(value)
    record, end = entity_reader(layout(cls, version), cls)(value, pos)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow a {cls.__name__}")
    return record


def read_type(value: bytes) -> tuple[EntityClass, int, int]:
    """Class and version of the record in a value, and where its body starts; raises as `decode_record` does."""
    frame_version, pos = read_uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise UnknownRecordError(f"metadata record frame version {frame_version} is not known")
    api_key, pos = read_uvarint(value, pos)
    version, pos = read_uvarint(value, pos)
    cls = record_class(api_key)
    if version > cls.__version__:
        raise UnknownRecordError(f"version {version} of {cls.__name__} is not known")
    return cls, version, pos


def encode_control(record: Any) -> tuple[bytes, bytes]:
    """Key and value of a control record, in the version that its field `version` says."""
    from ..writer import entity_writer

    cls = record.__class__
    out = bytearray()
    entity_writer(layout(cls, record.version), cls)(out, record)
    return _CONTROL_KEY.pack(0, cls.__api_key__), bytes(out)


def decode_control(key: bytes | None, value: bytes | None) -> Any:
    """A control record; None for a type that no quorum writes. Raises DecodeError."""
    from ..reader import entity_reader

    try:
        _, api_key = _CONTROL_KEY.unpack_from(key or b"")
        cls = control_class(api_key)
        if cls is None:
            return None
        (version,) = _VERSION.unpack_from(value or b"")
    except error as reason:
        raise DecodeError(f"malformed control record: {reason}") from None
    if version > cls.__version__:
        raise UnknownRecordError(f"version {version} of {cls.__name__} is not known")
    record, _ = entity_reader(layout(cls, version), cls)(value or b"", 0)
    return record

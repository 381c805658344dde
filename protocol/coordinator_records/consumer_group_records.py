"""The records of `__consumer_offsets` that groups of the consumer rebalance protocol write (KIP-848).

Each type has one version. Kafka 4.4 no longer writes ConsumerGroupPartitionMetadata; it only deletes the records that
4.0 left behind (KIP-1101).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from ..primitives import INT8, INT32, INT64
from . import fields
from .consumer_group_values import (
    AssignmentEpochs,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    Partitions,
)
from .fields import NO_TAGS, FieldReader
from .group_fields import (
    VERSION_0,
    key_encoder,
    one_part,
    partitions,
    read_partitions,
    strings,
    two_parts,
    value_reader,
)
from .record_schema import RecordSchema

__all__ = [
    "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
    "CONSUMER_GROUP_MEMBER_METADATA",
    "CONSUMER_GROUP_METADATA",
    "CONSUMER_GROUP_PARTITION_METADATA",
    "CONSUMER_GROUP_REGULAR_EXPRESSION",
    "CONSUMER_GROUP_SCHEMAS",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER",
    "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA",
    "AssignmentEpochs",
    "ClassicMemberMetadata",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "Partitions",
]

K = TypeVar("K", bound=tuple[str, ...])
V = TypeVar("V")

_METADATA_HASH_TAG = 0
_CLASSIC_TAG = 0
_TIMESTAMP_TAG = 0
_EPOCHS_TAG = 0
_NULL_STRUCT = b"\x00"
_STRUCT = b"\x01"
_DEFAULT_CLASSIC = ClassicMemberMetadata(0, ())


def _group_metadata(value: ConsumerGroupMetadataValue) -> bytes:
    tags = {_METADATA_HASH_TAG: INT64.pack(value.metadata_hash)} if value.metadata_hash else {}
    return VERSION_0 + INT32.pack(value.epoch) + fields.tagged_fields(tags)


def _read_group_metadata(data: bytes) -> ConsumerGroupMetadataValue:
    reader = value_reader(data)
    epoch = reader.int32()
    encoded_hash = reader.tags().get(_METADATA_HASH_TAG)
    return ConsumerGroupMetadataValue(epoch, 0 if encoded_hash is None else INT64.unpack(encoded_hash)[0])


def _member_metadata(value: ConsumerGroupMemberMetadataValue) -> bytes:
    return b"".join(
        (
            VERSION_0,
            fields.compact_string(value.instance_id),
            fields.compact_string(value.rack_id),
            fields.compact_string(value.client_id),
            fields.compact_string(value.client_host),
            strings(value.subscribed_topic_names),
            fields.compact_string(value.subscribed_topic_regex),
            INT32.pack(value.rebalance_timeout_ms),
            fields.compact_string(value.server_assignor),
            _classic_tag(value.classic),
        )
    )


def _classic_tag(classic: ClassicMemberMetadata | None) -> bytes:
    """The tag: null is written, an empty struct is not, since that is the default, whatever Kafka's schema says."""
    if classic == _DEFAULT_CLASSIC:
        return NO_TAGS
    return fields.tagged_fields({_CLASSIC_TAG: _NULL_STRUCT if classic is None else _STRUCT + _classic_member(classic)})


def _classic_member(classic: ClassicMemberMetadata) -> bytes:
    protocols = [
        fields.compact_string(name) + fields.compact_bytes(metadata) + NO_TAGS for name, metadata in classic.protocols
    ]
    return INT32.pack(classic.session_timeout_ms) + fields.compact_array(protocols) + NO_TAGS


def _read_member_metadata(data: bytes) -> ConsumerGroupMemberMetadataValue:
    reader = value_reader(data)
    return ConsumerGroupMemberMetadataValue(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        subscribed_topic_names=reader.strings(),
        subscribed_topic_regex=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.nullable_string(),
        classic=_read_classic_tag(reader.tags().get(_CLASSIC_TAG)),
    )


def _read_classic_tag(data: bytes | None) -> ClassicMemberMetadata | None:
    if data is None:
        return _DEFAULT_CLASSIC
    if data == _NULL_STRUCT:
        return None
    reader = FieldReader(data, 1, flexible=True)
    session_timeout_ms = reader.int32()
    return ClassicMemberMetadata(
        session_timeout_ms, tuple(_read_classic_protocol(reader) for _ in range(reader.array_size()))
    )


def _read_classic_protocol(reader: FieldReader) -> tuple[str, bytes]:
    name, metadata = reader.string(), reader.sized_bytes()
    reader.tags()
    return name, metadata


def _target_metadata(value: ConsumerGroupTargetAssignmentMetadataValue) -> bytes:
    tags = {_TIMESTAMP_TAG: INT64.pack(value.assigned_ms)} if value.assigned_ms else {}
    return VERSION_0 + INT32.pack(value.assignment_epoch) + fields.tagged_fields(tags)


def _read_target_metadata(data: bytes) -> ConsumerGroupTargetAssignmentMetadataValue:
    reader = value_reader(data)
    epoch = reader.int32()
    assigned = reader.tags().get(_TIMESTAMP_TAG)
    return ConsumerGroupTargetAssignmentMetadataValue(epoch, 0 if assigned is None else INT64.unpack(assigned)[0])


def _target_member(value: ConsumerGroupTargetAssignmentMemberValue) -> bytes:
    return VERSION_0 + partitions(value.partitions) + NO_TAGS


def _current_assignment(value: ConsumerGroupCurrentMemberAssignmentValue) -> bytes:
    return b"".join(
        (
            VERSION_0,
            INT32.pack(value.member_epoch),
            INT32.pack(value.previous_member_epoch),
            INT8.pack(value.state),
            _partitions_with_epochs(value.assigned, value.epochs),
            _partitions_with_epochs(value.pending_revocation, value.epochs),
            NO_TAGS,
        )
    )


def _partitions_with_epochs(found: Partitions, epochs: AssignmentEpochs) -> bytes:
    return fields.compact_array(
        [topic_id.bytes + _indexes(sorted(indexes), epochs.get(topic_id)) for topic_id, indexes in found.items()]
    )


def _indexes(indexes: Sequence[int], epochs: Mapping[int, int] | None) -> bytes:
    """A topic's partitions, and a tag with the epoch of each."""
    tags = {}
    if epochs is not None:
        tags[_EPOCHS_TAG] = fields.compact_array([INT32.pack(epochs[index]) for index in indexes])
    return fields.compact_array([INT32.pack(index) for index in indexes]) + fields.tagged_fields(tags)


def _read_current_assignment(data: bytes) -> ConsumerGroupCurrentMemberAssignmentValue:
    reader = value_reader(data)
    epochs: dict[UUID, dict[int, int]] = {}
    return ConsumerGroupCurrentMemberAssignmentValue(
        reader.int32(),
        reader.int32(),
        reader.int8(),
        _read_partitions_with_epochs(reader, epochs),
        _read_partitions_with_epochs(reader, epochs),
        epochs,
    )


def _read_partitions_with_epochs(reader: FieldReader, epochs: dict[UUID, dict[int, int]]) -> Partitions:
    """The partitions; their epochs, if there are any, are added to `epochs`."""
    found: dict[UUID, frozenset[int]] = {}
    for _ in range(reader.array_size()):
        topic_id = reader.uuid()
        indexes = [reader.int32() for _ in range(reader.array_size())]
        encoded = reader.tags().get(_EPOCHS_TAG)
        if encoded is not None:
            tag = FieldReader(encoded, 0, flexible=True)
            numbers = [tag.int32() for _ in range(tag.array_size())]
            epochs.setdefault(topic_id, {}).update(zip(indexes, numbers, strict=True))
        found[topic_id] = frozenset(indexes)
    return found


def _regular_expression(value: ConsumerGroupRegularExpressionValue) -> bytes:
    return VERSION_0 + strings(value.topics) + INT64.pack(value.version) + INT64.pack(value.timestamp) + NO_TAGS


def _read_regular_expression(data: bytes) -> ConsumerGroupRegularExpressionValue:
    reader = value_reader(data)
    return ConsumerGroupRegularExpressionValue(reader.strings(), reader.int64(), reader.int64())


def _schema(
    name: str,
    number: int,
    read_key: Callable[[bytes], K],
    encode_value: Callable[[V], bytes],
    read_value: Callable[[bytes], V],
) -> RecordSchema[K, V]:
    return RecordSchema(name, (number,), key_encoder(number), read_key, encode_value, {0: read_value})


CONSUMER_GROUP_METADATA = _schema(
    "ConsumerGroupMetadata", 3, one_part(ConsumerGroupMetadataKey), _group_metadata, _read_group_metadata
)
CONSUMER_GROUP_PARTITION_METADATA = _schema(
    "ConsumerGroupPartitionMetadata",
    4,
    one_part(ConsumerGroupPartitionMetadataKey),
    lambda value: VERSION_0 + value.encoded,
    lambda data: ConsumerGroupPartitionMetadataValue(data[2:]),
)
CONSUMER_GROUP_MEMBER_METADATA = _schema(
    "ConsumerGroupMemberMetadata", 5, two_parts(ConsumerGroupMemberMetadataKey), _member_metadata, _read_member_metadata
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = _schema(
    "ConsumerGroupTargetAssignmentMetadata",
    6,
    one_part(ConsumerGroupTargetAssignmentMetadataKey),
    _target_metadata,
    _read_target_metadata,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = _schema(
    "ConsumerGroupTargetAssignmentMember",
    7,
    two_parts(ConsumerGroupTargetAssignmentMemberKey),
    _target_member,
    lambda data: ConsumerGroupTargetAssignmentMemberValue(read_partitions(value_reader(data))),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = _schema(
    "ConsumerGroupCurrentMemberAssignment",
    8,
    two_parts(ConsumerGroupCurrentMemberAssignmentKey),
    _current_assignment,
    _read_current_assignment,
)
CONSUMER_GROUP_REGULAR_EXPRESSION = _schema(
    "ConsumerGroupRegularExpression",
    16,
    two_parts(ConsumerGroupRegularExpressionKey),
    _regular_expression,
    _read_regular_expression,
)
CONSUMER_GROUP_SCHEMAS: tuple[RecordSchema[Any, Any], ...] = (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
)

"""The records of `__consumer_offsets` that streams groups write (KIP-1071). Each type has one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..primitives import INT8, INT16, INT32, INT64
from . import fields
from .fields import NO_TAGS, FieldReader
from .group_fields import VERSION_0, key_encoder, one_part, strings, two_parts, value_reader
from .record_schema import RecordSchema
from .streams_group_values import (
    CopartitionGroup,
    Endpoint,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
    StreamsMemberKey,
    Subtopology,
    TaskIds,
    Tasks,
    TopicInfo,
)

T = TypeVar("T")

_VALIDATED_TAG, _CONFIGS_TAG, _STORED_TAG, _FAILED_TAG = range(4)
_TIMESTAMP_TAG = 0
_EPOCHS_TAG = 0
_NULL_STRUCT, _STRUCT = b"\xff", b"\x01"
_UINT16 = 0xFFFF


def _array_of(reader: FieldReader, read: Callable[[FieldReader], T]) -> tuple[T, ...]:
    return tuple(read(reader) for _ in range(reader.array_size()))


def _int32s(numbers: Iterable[int]) -> bytes:
    return fields.compact_array([INT32.pack(number) for number in numbers])


def _pairs(pairs: Iterable[tuple[str, str]]) -> bytes:
    return fields.compact_array(
        [fields.compact_string(key) + fields.compact_string(value) + NO_TAGS for key, value in pairs]
    )


def _read_pair(reader: FieldReader) -> tuple[str, str]:
    key, value = reader.string(), reader.string()
    reader.tags()
    return key, value


# -- the group


def _metadata(value: StreamsGroupMetadataValue) -> bytes:
    epochs = (
        (_VALIDATED_TAG, value.validated_topology_epoch),
        (_STORED_TAG, value.stored_description_topology_epoch),
        (_FAILED_TAG, value.failed_description_topology_epoch),
    )
    tags = {tag: INT32.pack(epoch) for tag, epoch in epochs if epoch != -1}
    if value.assignment_configs:
        tags[_CONFIGS_TAG] = _pairs(value.assignment_configs)
    start = INT32.pack(value.epoch) + INT64.pack(value.metadata_hash)
    return VERSION_0 + start + fields.tagged_fields(dict(sorted(tags.items())))


def _read_metadata(data: bytes) -> StreamsGroupMetadataValue:
    reader = value_reader(data)
    epoch, metadata_hash, tags = reader.int32(), reader.int64(), reader.tags()
    configs = tags.get(_CONFIGS_TAG)
    return StreamsGroupMetadataValue(
        epoch,
        metadata_hash,
        _tagged_epoch(tags, _VALIDATED_TAG),
        () if configs is None else _read_configs(FieldReader(configs, 0, flexible=True)),
        _tagged_epoch(tags, _STORED_TAG),
        _tagged_epoch(tags, _FAILED_TAG),
    )


def _read_configs(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    return tuple(_read_pair(reader) for _ in range(reader.nullable_array_size() or 0))


def _tagged_epoch(tags: Mapping[int, bytes], tag: int) -> int:
    return INT32.unpack(tags[tag])[0] if tag in tags else -1


def _target_metadata(value: StreamsGroupTargetAssignmentMetadataValue) -> bytes:
    tags = {_TIMESTAMP_TAG: INT64.pack(value.assigned_ms)} if value.assigned_ms else {}
    return VERSION_0 + INT32.pack(value.assignment_epoch) + fields.tagged_fields(tags)


def _read_target_metadata(data: bytes) -> StreamsGroupTargetAssignmentMetadataValue:
    reader = value_reader(data)
    epoch = reader.int32()
    assigned = reader.tags().get(_TIMESTAMP_TAG)
    return StreamsGroupTargetAssignmentMetadataValue(epoch, 0 if assigned is None else INT64.unpack(assigned)[0])


# -- members


def _member(value: StreamsGroupMemberMetadataValue) -> bytes:
    texts = (value.instance_id, value.rack_id, value.client_id, value.client_host)
    endpoint = _NULL_STRUCT
    if value.user_endpoint is not None:
        host, port = value.user_endpoint
        endpoint = _STRUCT + fields.compact_string(host) + port.to_bytes(2, "big") + NO_TAGS
    return b"".join(
        (
            VERSION_0,
            *map(fields.compact_string, texts),
            INT32.pack(value.rebalance_timeout_ms),
            INT32.pack(value.topology_epoch),
            fields.compact_string(value.process_id),
            endpoint,
            _pairs(value.client_tags),
            NO_TAGS,
        )
    )


def _read_member(data: bytes) -> StreamsGroupMemberMetadataValue:
    reader = value_reader(data)
    return StreamsGroupMemberMetadataValue(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.int32(),
        topology_epoch=reader.int32(),
        process_id=reader.string(),
        user_endpoint=_read_endpoint(reader) if reader.int8() > 0 else None,
        client_tags=_array_of(reader, _read_pair),
    )


def _read_endpoint(reader: FieldReader) -> Endpoint:
    endpoint = Endpoint(reader.string(), reader.int16() & _UINT16)
    reader.tags()
    return endpoint


def _task_ids(tasks: TaskIds, epochs: Mapping[tuple[str, int], int] | None = None) -> bytes:
    """By subtopology, in order. `epochs` are those of each task, if the record has them."""
    encoded = []
    for subtopology, partitions in sorted(tasks.items()):
        indexes = sorted(partitions)
        tags = {}
        if epochs is not None and all((subtopology, index) in epochs for index in indexes):
            tags[_EPOCHS_TAG] = _int32s(epochs[subtopology, index] for index in indexes)
        encoded.append(fields.compact_string(subtopology) + _int32s(indexes) + fields.tagged_fields(tags))
    return fields.compact_array(encoded)


def _read_task_ids(reader: FieldReader, epochs: dict[tuple[str, int], int] | None = None) -> TaskIds:
    found = {}
    for _ in range(reader.array_size()):
        subtopology = reader.string()
        indexes = _array_of(reader, FieldReader.int32)
        encoded = reader.tags().get(_EPOCHS_TAG)
        found[subtopology] = frozenset(indexes)
        if epochs is not None and encoded is not None:
            inner = FieldReader(encoded, 0, flexible=True)
            numbers = [inner.int32() for _ in range(inner.nullable_array_size() or 0)]
            epochs.update(zip(((subtopology, index) for index in indexes), numbers, strict=False))
    return found


def _target(value: Tasks) -> bytes:
    return VERSION_0 + b"".join(map(_task_ids, value)) + NO_TAGS


def _read_target(data: bytes) -> Tasks:
    reader = value_reader(data)
    return Tasks(_read_task_ids(reader), _read_task_ids(reader), _read_task_ids(reader))


def _current_assignment(value: StreamsGroupCurrentMemberAssignmentValue) -> bytes:
    epochs = INT32.pack(value.member_epoch) + INT32.pack(value.previous_member_epoch)
    active = _task_ids(value.assigned.active, value.epochs), _task_ids(value.pending_revocation.active, value.epochs)
    return b"".join(
        (
            VERSION_0,
            epochs,
            INT8.pack(value.state),
            active[0],
            _task_ids(value.assigned.standby),
            _task_ids(value.assigned.warmup),
            active[1],
            _task_ids(value.pending_revocation.standby),
            _task_ids(value.pending_revocation.warmup),
            NO_TAGS,
        )
    )


def _read_current_assignment(data: bytes) -> StreamsGroupCurrentMemberAssignmentValue:
    reader = value_reader(data)
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    epochs: dict[tuple[str, int], int] = {}
    assigned = Tasks(_read_task_ids(reader, epochs), _read_task_ids(reader), _read_task_ids(reader))
    pending = Tasks(_read_task_ids(reader, epochs), _read_task_ids(reader), _read_task_ids(reader))
    return StreamsGroupCurrentMemberAssignmentValue(epoch, previous, state, assigned, pending, epochs)


# -- the topology


def _topology(value: StreamsGroupTopologyValue) -> bytes:
    subtopologies = fields.compact_array(list(map(_subtopology, value.subtopologies)))
    return VERSION_0 + INT32.pack(value.epoch) + subtopologies + NO_TAGS


def _subtopology(value: Subtopology) -> bytes:
    return b"".join(
        (
            fields.compact_string(value.subtopology_id),
            strings(value.source_topics),
            strings(value.source_topic_regexes),
            fields.compact_array(list(map(_topic, value.changelogs))),
            strings(value.repartition_sinks),
            fields.compact_array(list(map(_topic, value.repartition_sources))),
            fields.compact_array([b"".join(map(_int16s, group)) + NO_TAGS for group in value.copartition_groups]),
            NO_TAGS,
        )
    )


def _int16s(numbers: Iterable[int]) -> bytes:
    return fields.compact_array([INT16.pack(number) for number in numbers])


def _topic(value: TopicInfo) -> bytes:
    counts = INT32.pack(value.partitions) + INT16.pack(value.replication_factor)
    return fields.compact_string(value.name) + counts + _pairs(value.configs) + NO_TAGS


def _read_topology(data: bytes) -> StreamsGroupTopologyValue:
    reader = value_reader(data)
    return StreamsGroupTopologyValue(reader.int32(), _array_of(reader, _read_subtopology))


def _read_subtopology(reader: FieldReader) -> Subtopology:
    subtopology = Subtopology(
        reader.string(),
        reader.strings(),
        reader.strings(),
        _array_of(reader, _read_topic),
        reader.strings(),
        _array_of(reader, _read_topic),
        _array_of(reader, _read_copartition_group),
    )
    reader.tags()
    return subtopology


def _read_topic(reader: FieldReader) -> TopicInfo:
    topic = TopicInfo(reader.string(), reader.int32(), reader.int16(), _array_of(reader, _read_pair))
    reader.tags()
    return topic


def _read_copartition_group(reader: FieldReader) -> CopartitionGroup:
    read = FieldReader.int16
    group = CopartitionGroup(_array_of(reader, read), _array_of(reader, read), _array_of(reader, read))
    reader.tags()
    return group


STREAMS_GROUP_METADATA: RecordSchema[StreamsGroupKey, StreamsGroupMetadataValue] = RecordSchema(
    "StreamsGroupMetadata", (17,), key_encoder(17), one_part(StreamsGroupKey), _metadata, {0: _read_metadata}
)
STREAMS_GROUP_MEMBER_METADATA: RecordSchema[StreamsMemberKey, StreamsGroupMemberMetadataValue] = RecordSchema(
    "StreamsGroupMemberMetadata", (19,), key_encoder(19), two_parts(StreamsMemberKey), _member, {0: _read_member}
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: RecordSchema[StreamsGroupKey, StreamsGroupTargetAssignmentMetadataValue] = (
    RecordSchema(
        "StreamsGroupTargetAssignmentMetadata",
        (20,),
        key_encoder(20),
        one_part(StreamsGroupKey),
        _target_metadata,
        {0: _read_target_metadata},
    )
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: RecordSchema[StreamsMemberKey, Tasks] = RecordSchema(
    "StreamsGroupTargetAssignmentMember",
    (21,),
    key_encoder(21),
    two_parts(StreamsMemberKey),
    _target,
    {0: _read_target},
)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: RecordSchema[StreamsMemberKey, StreamsGroupCurrentMemberAssignmentValue] = (
    RecordSchema(
        "StreamsGroupCurrentMemberAssignment",
        (22,),
        key_encoder(22),
        two_parts(StreamsMemberKey),
        _current_assignment,
        {0: _read_current_assignment},
    )
)
STREAMS_GROUP_TOPOLOGY: RecordSchema[StreamsGroupKey, StreamsGroupTopologyValue] = RecordSchema(
    "StreamsGroupTopology", (23,), key_encoder(23), one_part(StreamsGroupKey), _topology, {0: _read_topology}
)
STREAMS_GROUP_SCHEMAS: tuple[RecordSchema[Any, Any], ...] = (
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_MEMBER_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    STREAMS_GROUP_TOPOLOGY,
)

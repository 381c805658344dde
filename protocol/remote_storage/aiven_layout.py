"""The layout of Aiven's plugin for tiered storage: three objects for each segment, and what its manifest says.

    PREFIX TOPIC-TOPICID/PARTITION/00000000000000000042-SEGMENTID.log | .indexes | .rsm-manifest

The `.log` is the segment's log as it is, or compressed by zstd chunk by chunk; `.indexes` has all indexes one after
another. The manifest, in JSON, has where each is, and how large the chunks are. Compressed chunks are read; what is
written is not compressed. Encrypted segments cannot be read.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from uuid import UUID

from .. import uuids
from ..topic_partition import EpochEntry
from .segment import RemoteSegment, State, TopicIdPartition
from .store import IndexKind, RemoteObjectDamagedError, SegmentData, StoredObject

LOG, INDEXES, MANIFEST = "log", "indexes", "rsm-manifest"
ORDER = (
    IndexKind.OFFSET,
    IndexKind.TIMESTAMP,
    IndexKind.PRODUCER_SNAPSHOT,
    IndexKind.LEADER_EPOCH,
    IndexKind.TRANSACTION,
)
"""The order of the indexes in their object."""

_NAME = re.compile(r"(.*)-([A-Za-z0-9_-]{22})/(\d+)/(\d{20})-([A-Za-z0-9_-]{22})\.[a-z-]+")
_TOPIC = re.compile(r"([^/]+)-([A-Za-z0-9_-]{22})")
_CHUNKS = struct.Struct(">iib")
_INT = struct.Struct(">i")


def key_of(prefix: str, segment: RemoteSegment, suffix: str) -> str:
    """The name of an object of a segment."""
    partition = partition_prefix(prefix, segment.partition)
    return f"{partition}/{segment.start_offset:020d}-{uuids.to_text(segment.id)}.{suffix}"


def partition_prefix(prefix: str, partition: TopicIdPartition) -> str:
    """What the names of all objects of a partition begin with."""
    return f"{prefix}{partition.topic}-{uuids.to_text(partition.topic_id)}/{partition.index}"


def parse_topic(prefix: str, name: str) -> tuple[str, UUID] | None:
    """The topic of a name that ends behind it: `PREFIX TOPIC-TOPICID`."""
    found = _TOPIC.fullmatch(name.removeprefix(prefix).rstrip("/"))
    return None if found is None or not name.startswith(prefix) else (found[1], uuids.from_text(found[2]))


def stored_object(prefix: str, name: str, size: int) -> StoredObject:
    """An object by its name."""
    found = _NAME.fullmatch(name.removeprefix(prefix))
    if found is None:
        return StoredObject(name, size, None, -1, None)
    return StoredObject(name, size, uuids.from_text(found[2]), int(found[3]), uuids.from_text(found[5]))


def bare_segment(prefix: str, name: str, size: int) -> RemoteSegment | None:
    """What the name of a `.log` says of its segment, which is not finished without a manifest; None for other names."""
    found = _NAME.fullmatch(name.removeprefix(prefix))
    if found is None or not name.endswith(f".{LOG}"):
        return None
    partition = TopicIdPartition(found[1], uuids.from_text(found[2]), int(found[3]))
    start = int(found[4])
    return RemoteSegment(partition, uuids.from_text(found[5]), start, start, -1, -1, -1, (), size, txn_index_empty=True)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says.

    Attributes:
        chunk_bytes: bytes of each chunk but the last, as they were before they were compressed.
        size: bytes of the log.
        ends: where each chunk ends in the object.
        indexes: (position, size) of each index.
        is_compressed: the chunks are compressed by zstd.
    """

    chunk_bytes: int
    size: int
    ends: tuple[int, ...]
    indexes: Mapping[IndexKind, tuple[int, int]]
    is_compressed: bool

    def extent(self, number: int) -> tuple[int, int]:
        """(start, end) of a chunk in the object."""
        return self.ends[number - 1] if number else 0, self.ends[number]


def joined_indexes(data: SegmentData) -> bytes:
    """The content of the object of the indexes."""
    return b"".join(data.indexes[kind] for kind in ORDER if kind in data.indexes)


def write_manifest(segment: RemoteSegment, data: SegmentData, chunk_bytes: int) -> bytes:
    """The manifest of a segment that is stored as it is."""
    position, places = 0, {}
    for kind in ORDER:
        if kind in data.indexes:
            size = len(data.indexes[kind])
            places[kind.value] = {"position": position, "size": size}
            position += size
    last = data.size - (max(data.size - 1, 0) // chunk_bytes) * chunk_bytes
    named = segment.partition
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": chunk_bytes,
            "originalFileSize": data.size,
            "transformedChunkSize": chunk_bytes,
            "finalTransformedChunkSize": last,
        },
        "segmentIndexes": places,
        "compression": False,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": uuids.to_text(named.topic_id),
                    "topicPartition": {"topic": named.topic, "partition": named.index},
                },
                "id": uuids.to_text(segment.id),
            },
            "startOffset": segment.start_offset,
            "endOffset": segment.end_offset,
            "maxTimestampMs": segment.max_timestamp,
            "brokerId": segment.broker_id,
            "eventTimestampMs": segment.event_timestamp,
            "segmentLeaderEpochs": {str(entry.epoch): entry.start_offset for entry in segment.epochs},
        },
    }
    return json.dumps(manifest, separators=(",", ":")).encode()


def read_manifest(content: bytes) -> Manifest:
    """Raises RemoteObjectDamagedError for a manifest that cannot be understood, or of an encrypted segment."""
    try:
        manifest = json.loads(content)
        if manifest.get("encryption"):
            raise RemoteObjectDamagedError("the segment is encrypted, which cannot be read here")
        chunks = manifest["chunkIndex"]
        places = manifest["segmentIndexes"]
        return Manifest(
            int(chunks["originalChunkSize"]),
            int(chunks["originalFileSize"]),
            tuple(accumulate(_sizes(chunks))),
            {
                kind: (int(place["position"]), int(place["size"]))
                for kind in IndexKind
                if (place := places.get(kind.value)) is not None
            },
            bool(manifest["compression"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as error:
        raise RemoteObjectDamagedError(f"the manifest cannot be read: {error!r}") from error


def read_segment(content: bytes) -> RemoteSegment:
    """The segment that a manifest is of, as its copy has ended. Raises RemoteObjectDamagedError."""
    manifest = read_manifest(content)
    try:
        found = json.loads(content)["remoteLogSegmentMetadata"]
        named = found["remoteLogSegmentId"]
        of_topic = named["topicIdPartition"]
        partition = TopicIdPartition(
            str(of_topic["topicPartition"]["topic"]),
            uuids.from_text(of_topic["topicId"]),
            int(of_topic["topicPartition"]["partition"]),
        )
        epochs = sorted((int(epoch), int(offset)) for epoch, offset in found["segmentLeaderEpochs"].items())
        return RemoteSegment(
            partition,
            uuids.from_text(named["id"]),
            int(found["startOffset"]),
            int(found["endOffset"]),
            int(found["brokerId"]),
            int(found["maxTimestampMs"]),
            int(found["eventTimestampMs"]),
            tuple(EpochEntry(epoch, offset) for epoch, offset in epochs),
            manifest.size,
            State.COPY_FINISHED,
            txn_index_empty=IndexKind.TRANSACTION not in manifest.indexes,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RemoteObjectDamagedError(f"the manifest does not say which segment it is of: {error!r}") from error


def _sizes(chunks: Mapping[str, Any]) -> list[int]:
    """The sizes of the chunks in the object."""
    count = -(-int(chunks["originalFileSize"]) // int(chunks["originalChunkSize"]))
    if chunks["type"] == "fixed":
        return [int(chunks["transformedChunkSize"])] * (count - 1) + [int(chunks["finalTransformedChunkSize"])]
    sizes = _unpacked(base64.b64decode(chunks["transformedChunks"]))
    if len(sizes) != count:
        raise ValueError(f"{len(sizes)} chunks instead of {count}")
    return sizes


def _unpacked(packed: bytes) -> list[int]:
    """Sizes as differences from a base, in as few bytes as they need; the last one as it is."""
    count, base, width = _CHUNKS.unpack_from(packed)
    at = _CHUNKS.size
    sizes = [base + int.from_bytes(packed[at + n * width : at + (n + 1) * width]) for n in range(count - 1)]
    (last,) = _INT.unpack_from(packed, at + (count - 1) * width)
    return [*sizes, last]

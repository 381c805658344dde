"""The manifests of Aiven's plugin: what is written, and what can be read (plain, and compressed by zstd)."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from protocol.remote_storage.aiven_layout import key_of, read_manifest, stored_object, write_manifest
from protocol.remote_storage.store import IndexKind, RemoteStoreError
from tests.unit.protocol.remote_storage.stores import LOG, TRANSACTIONS, data, segment


def manifest(**changed: Any) -> bytes:
    return json.dumps({**json.loads(write_manifest(segment(1), data(TRANSACTIONS), 4096)), **changed}).encode()


def test_a_manifest_says_where_the_indexes_and_chunks_are() -> None:
    found = read_manifest(manifest())
    assert (found.chunk_bytes, found.size, found.is_compressed) == (4096, len(LOG), False)
    assert [found.extent(number) for number in range(3)] == [(0, 4096), (4096, 8192), (8192, len(LOG))]
    assert found.indexes[IndexKind.OFFSET] == (0, 16)
    assert found.indexes[IndexKind.TIMESTAMP] == (16, 24)
    assert found.indexes[IndexKind.TRANSACTION] == (58, 34)


@pytest.mark.parametrize("width", [1, 2])
def test_chunks_of_various_sizes_are_unpacked(width: int) -> None:
    sizes = [300, 310, 290]
    packed = struct.pack(">iib", 3, 290, width) + b"".join((one - 290).to_bytes(width) for one in sizes[:2])
    chunks = {
        "type": "variable",
        "originalChunkSize": 4096,
        "originalFileSize": len(LOG),
        "transformedChunks": base64.b64encode(packed + struct.pack(">i", sizes[2])).decode(),
    }
    found = read_manifest(manifest(chunkIndex=chunks, compression=True))
    assert found.ends == (300, 610, 900)
    assert found.is_compressed


NO_CHUNKS = {"type": "fixed", "originalChunkSize": 0, "originalFileSize": 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"version":"1"}',
        manifest(encryption={"dataKey": "x"}),
        manifest(chunkIndex=NO_CHUNKS),
        manifest(chunkIndex={**NO_CHUNKS, "originalChunkSize": float("inf")}),
    ],
)
def test_a_manifest_that_cannot_be_read_is_an_error_of_the_store(content: bytes) -> None:
    with pytest.raises(RemoteStoreError):
        read_manifest(content)


def test_an_object_is_named_by_topic_partition_and_segment() -> None:
    name = key_of("prefix/", segment(1, 42), "log")
    assert name == "prefix/some-topic.a_b-AAAAAAAAAAcAAAAAAAAAAA/3/00000000000000000042-AAAAAAAAAAEAAAAAAAAAAQ.log"
    found = stored_object("prefix/", name, 5)
    assert (found.topic_id, found.partition, found.segment_id) == (segment(1).partition.topic_id, 3, segment(1).id)
    assert stored_object("prefix/", "prefix/readme.txt", 5).segment_id is None

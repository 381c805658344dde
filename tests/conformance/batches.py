"""Record batches built field by field, right or wrong on purpose, and read back as JSON for the transcripts."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence
from typing import Any

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import zstandard
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64

_XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def varint(n: int) -> bytes:
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    headers: Sequence[tuple[bytes, bytes | None]] = (),
    attributes: int = 0,
    length: int | None = None,
    header_count: int | None = None,
) -> bytes:
    """One v2 record; `length` and `header_count` may lie."""
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + _sized(key) + _sized(value)
    body += varint(len(headers) if header_count is None else header_count)
    for name, content in headers:
        body += _sized(name) + _sized(content)
    return varint(len(body) if length is None else length) + body


def _snappy(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return _XERIAL + struct.pack(">i", len(block)) + block


COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NONE: lambda data: data,
    GZIP: lambda data: gzip.compress(data, mtime=0),
    SNAPPY: _snappy,
    LZ4: lambda data: lz4.frame.compress(data, store_size=False),
    ZSTD: lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
}


def batch(
    records: int | Sequence[bytes] = 1,
    *,
    base_timestamp: int,
    max_timestamp: int | None = None,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    magic: int = 2,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    count: int | None = None,
    last_offset_delta: int | None = None,
    length: int | None = None,
    crc: int | None = None,
    payload: bytes | None = None,
    value: bytes = b"v",
) -> bytes:
    """A v2 batch; every header field may be set wrong. `records`: how many plain ones, or encoded records."""
    if isinstance(records, int):
        records = [record(value, offset_delta=i, timestamp_delta=i) for i in range(records)]
    if max_timestamp is None:
        max_timestamp = base_timestamp + max(len(records) - 1, 0)
    body = COMPRESS.get(attributes & 7, COMPRESS[NONE])(b"".join(records)) if payload is None else payload
    n = len(records) if count is None else count
    last = len(records) - 1 if last_offset_delta is None else last_offset_delta
    tail = struct.pack(">hiqqqhii", attributes, last, base_timestamp, max_timestamp, pid, epoch, sequence, n) + body
    crc = crc32c(tail) if crc is None else crc
    size = 9 + len(tail) if length is None else length
    return struct.pack(">qiibI", base_offset, size, leader_epoch, magic, crc) + tail


def legacy(
    magic: int, *, timestamp: int, key: bytes | None = b"k", value: bytes | None = b"v", offset: int = 0
) -> bytes:
    """One message of the formats before v2."""
    import zlib

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", timestamp) if magic else b"") + sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def describe(data: bytes) -> list[Any]:
    """Each batch's header, its CRC checked and its bytes after the header; an unfinished one by its length."""
    out: list[Any] = []
    pos = 0
    while pos < len(data):
        if len(data) - pos < 61 or len(data) - pos < 12 + struct.unpack_from(">i", data, pos + 8)[0]:
            out.append({"unfinished_bytes": len(data) - pos})
            break
        base, size, epoch, magic, crc = struct.unpack_from(">qiibI", data, pos)
        fields = struct.unpack_from(">hiqqqhii", data, pos + 21)
        end = pos + 12 + size
        names = (
            "attributes",
            "last_offset_delta",
            "base_timestamp",
            "max_timestamp",
            "pid",
            "epoch",
            "sequence",
            "count",
        )
        out.append(
            {"base_offset": base, "size": size, "leader_epoch": epoch, "magic": magic}
            | {"crc": "good" if crc32c(data[pos + 21 : end]) == crc else "BAD"}
            | dict(zip(names, fields, strict=True))
            | {"payload": _payload(fields[0], data[pos + 61 : end])}
        )
        pos = end
    return out


def _payload(attributes: int, raw: bytes) -> str:
    try:
        raw = _DECOMPRESS[attributes & 7](raw)
    except Exception as exc:  # noqa: BLE001 - four libraries, four families of errors; what failed is the answer
        return f"not decompressed: {type(exc).__name__}"
    return raw.hex() if len(raw) <= 64 else f"{len(raw)} bytes, crc32c {crc32c(raw):08x}"


def _unsnappy(raw: bytes) -> bytes:
    if raw[:8] != _XERIAL[:8]:
        return bytes(cramjam.snappy.decompress_raw(raw))
    out, pos = b"", 16
    while pos < len(raw):
        n = struct.unpack_from(">i", raw, pos)[0]
        out += bytes(cramjam.snappy.decompress_raw(raw[pos + 4 : pos + 4 + n]))
        pos += 4 + n
    return out


_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    NONE: lambda raw: raw,
    GZIP: gzip.decompress,
    SNAPPY: _unsnappy,
    LZ4: lz4.frame.decompress,
    ZSTD: lambda raw: zstandard.ZstdDecompressor().decompressobj().decompress(raw),
}

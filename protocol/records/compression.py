"""The codecs of record batches, framed as Kafka's Java client and broker frame them (Kafka's CompressionType).

Decompression stops at a limit, so that a small batch which unpacks to gigabytes cannot take the process's memory, nor
one of countless empty parts its time. Every function works on a whole records section at once.
LZ4 frames are by the package lz4, or by cramjam where that has no wheel (musl) and was not installed.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterator
from enum import IntEnum
from io import BytesIO
from typing import Any

import cramjam
import zstandard

from ..primitives import Buffer

try:
    import lz4.frame as lz4_frame  # type: ignore[import-untyped]
except ImportError:
    lz4_frame = None

LEAST_LIMIT = 128 << 20
LEAST_RATIO = 8
"""Any data may unpack to this many bytes, or to this many times its size if that is more.

The limit is the same for all who read batches: what was accepted must be readable later.
"""

_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # GZIPOutputStream's, at every level
_GZIP_FED, _GZIP_CHUNK = 64 << 10, 1 << 20
"""Bytes that a decompressor is given and asked for at once."""
_LEAST_GZIP_MEMBER = 1 << 10
_LEAST_BLOCK = 256
"""In bytes of the limit: a member of gzip, or a block of snappy or zstd, takes at least the time of so many."""
_FREE_PARTS = 16
_GZIP_TRAILER = struct.Struct("<II")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_HEADER_START = struct.unpack_from(">i", _XERIAL_HEADER)[0]
_XERIAL_BLOCK = 32 << 10
_BLOCK_SIZE = struct.Struct(">i")
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_BLOCKS = 0x20
_LZ4_FAST_LEVEL = 9  # at Kafka's default level the fast compressor is used, at every other the high one
_LZ4_HIGH_MIN = 3
_LZ4_LEAST_OUTPUT, _LZ4_MOST_OUTPUT = 64 << 10, 1 << 20
_ZSTD_HIGHEST_STREAMED = 9
_ZSTD_CHUNK = 1 << 20
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # after a first byte 0x50-0x5f
_ZSTD_RLE = 1


class Compression(IntEnum):
    """Ids in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS = {Compression.GZIP: -1, Compression.LZ4: 9, Compression.ZSTD: 3}


class DecompressionError(ValueError):
    """The bytes are not valid for their codec, or end too soon."""


class DecompressionLimitError(DecompressionError):
    """The bytes unpack to more than the limit."""


class _Lz4FrameError(ValueError):
    """The bytes are no whole LZ4 frame."""


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress a records section; `level` is the codec's own scale, None its Kafka default (KIP-780)."""
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
            packed = packer.compress(data) + packer.flush()
            return _GZIP_HEADER + packed + _GZIP_TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            return _compress_lz4(data, level)
        case Compression.ZSTD:
            return _compress_zstd(data, level)


def _compress_zstd(data: Buffer, level: int) -> bytes:
    """Compress as a stream that is flushed before it ends, as Kafka does it: the frame is then mostly the same.

    At high levels a stream takes up to half a second to set up, however small the data.
    """
    packer = zstandard.ZstdCompressor(level=level, write_content_size=False)
    if level > _ZSTD_HIGHEST_STREAMED:
        return packer.compress(data)
    stream = packer.compressobj()
    return stream.compress(data) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + stream.flush()


def decompress(codec: Compression, data: Buffer, limit: int | None = None) -> bytes:
    """Decompress a records section.

    Raises DecompressionLimitError if it unpacks to more than `limit` bytes (None: what any data may unpack to),
    DecompressionError if malformed or cut off.
    """
    if codec is Compression.NONE:
        return bytes(data)
    parts = unpacked(codec, data, limit)
    first = next(parts, b"")
    second = next(parts, None)
    if second is None:
        return first
    joined = BytesIO()  # which does not need all parts beside the whole, as a join does
    joined.write(first)
    joined.write(second)
    for part in parts:
        joined.write(part)
    return joined.getvalue()


def unpacked(codec: Compression, data: Buffer, limit: int | None = None) -> Iterator[bytes]:
    """Yield what `decompress` gives, in pieces: who looks at one after the other needs no memory for all of them.

    A piece has up to a megabyte, or four times the size of `data`; of snappy, as much as its writer put in a block.
    """
    if limit is None:
        limit = max(LEAST_LIMIT, LEAST_RATIO * len(data))
    match codec:
        case Compression.NONE:
            return iter((bytes(data),))
        case Compression.GZIP:
            return _unpacked_gzip(data, limit)
        case Compression.SNAPPY:
            return _unpacked_snappy(data, limit)
        case Compression.LZ4:
            return _unpacked_lz4(data, limit)
        case Compression.ZSTD:
            return _unpacked_zstd(data, limit)


def _too_large(limit: int) -> DecompressionLimitError:
    return DecompressionLimitError(f"decompresses to more than {limit} bytes")


def _unpacked_gzip(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress gzip: one or more members; what follows the last one is ignored, as GZIPInputStream does.

    In pieces: one large result would be put together with the interpreter's lock held, which a join is not.
    """
    is_first, room = True, limit
    members_left = _FREE_PARTS + limit // _LEAST_GZIP_MEMBER
    rest = memoryview(data)
    while is_first or bytes(rest[:2]) == b"\x1f\x8b":
        is_first = False
        unpacker = zlib.decompressobj(31)
        members_left -= 1
        if members_left < 0:
            raise _too_large(limit)
        while not unpacker.eof:
            fed = rest[:_GZIP_FED]
            try:
                part = unpacker.decompress(fed, min(_GZIP_CHUNK, room + 1))
            except zlib.error as error:
                raise DecompressionError(f"gzip: {error}") from error
            room -= len(part)
            if room < 0:
                raise _too_large(limit)
            left = len(unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail)
            rest = rest[len(fed) - left :]
            if not part and left == len(fed) and not unpacker.eof:
                raise DecompressionError("gzip: the stream is cut short")
            yield part


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts.append(_BLOCK_SIZE.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _unpacked_snappy(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress snappy: blocks behind snappy-java's header, or else one raw block (what SnappyInputStream accepts)."""
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _snappy_block(view, limit)
        return
    if len(view) < len(_XERIAL_HEADER):
        raise DecompressionError("snappy: the header is cut short")
    blocks_left = _FREE_PARTS + limit // _LEAST_BLOCK
    pos = len(_XERIAL_HEADER)
    while pos + 4 <= len(view):  # too few bytes for a size also count as the end
        (size,) = _BLOCK_SIZE.unpack_from(view, pos)
        pos += 4
        blocks_left -= 1
        if blocks_left < 0:
            raise _too_large(limit)
        if size == _XERIAL_HEADER_START:  # concatenated streams, which snappy-java reads too
            pos += len(_XERIAL_HEADER) - 4
            continue
        if not 0 <= size <= len(view) - pos:
            raise DecompressionError("snappy: a block's size does not fit")
        part = _snappy_block(view[pos : pos + size], limit)
        limit -= len(part)
        yield part
        pos += size


def _snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > limit:
            raise _too_large(limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(f"snappy: {error}") from error


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """One frame of independent blocks; `level` is Kafka's scale (KIP-780)."""
    own_level = 0 if level == _LZ4_FAST_LEVEL else max(level, _LZ4_HIGH_MIN)
    if lz4_frame is None:
        packer = cramjam.lz4.Compressor(level=own_level, content_checksum=False, block_linked=False)
        packer.compress(bytes(data))
        return bytes(packer.finish())
    packed: bytes = lz4_frame.compress(
        data,
        compression_level=own_level,
        block_size=lz4_frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return packed


def _unpacked_lz4(data: Buffer, limit: int) -> Iterator[bytes]:
    """Decompress lz4: one frame of independent blocks, the only kind that Kafka's Lz4BlockInputStream accepts."""
    view = memoryview(data)
    if view[:4] != _LZ4_MAGIC:
        raise DecompressionError("lz4: this is not a frame")
    if len(view) < 7 or not view[4] & _LZ4_INDEPENDENT_BLOCKS:
        raise DecompressionError("lz4: the frame's blocks depend on one another")
    room = limit
    try:
        for part in _lz4_parts(view, limit):
            room -= len(part)
            if room < 0:
                raise _too_large(limit)
            yield part
    except _Lz4FrameError as error:
        raise DecompressionError(f"lz4: {error}") from error


def _lz4_parts(data: Buffer, limit: int) -> Iterator[bytes]:
    """The content of a frame in pieces, or its first `limit` + 1 bytes if it is longer. Raises _Lz4FrameError."""
    return iter((_with_cramjam(data, limit),)) if lz4_frame is None else _with_lz4(data, limit)


def _with_lz4(data: Buffer, limit: int) -> Iterator[bytes]:
    """It allocates at once as much as it may give: so it may give a little at first, and then more each time.

    It copies what it did not use each time, so that pieces are not much smaller than the frame.
    """
    unpacker: Any = lz4_frame.LZ4FrameDecompressor()
    size, room = max(_LZ4_LEAST_OUTPUT, 4 * len(data)), limit + 1
    most = max(_LZ4_MOST_OUTPUT, size)
    while room > 0 and not unpacker.eof:
        try:
            part: bytes = unpacker.decompress(data, max_length=min(size, room))
        except RuntimeError as error:
            raise _Lz4FrameError(str(error)) from error
        if not part and not unpacker.eof:
            raise _Lz4FrameError("the frame is cut short")
        yield part
        size, room, data = min(4 * size, most), room - len(part), b""


def _with_cramjam(data: Buffer, limit: int) -> bytes:
    """It unpacks into a buffer of a given size: a larger one is tried until the content fits, or is too long."""
    size = min(max(_LZ4_LEAST_OUTPUT, 4 * len(data)), limit + 1)
    while True:
        output = bytearray(size)
        try:
            return bytes(output[: cramjam.lz4.decompress_into(bytes(data), output)])
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):  # what Rust says when a buffer is too small
                raise _Lz4FrameError(str(error)) from error
            if size > limit:
                return bytes(output)
        size = min(4 * size, limit + 1)


class _Zstd(threading.local):
    """A decompressor for each thread: two that use one at the same time get errors, or each other's data.

    One for each call would cost more than a small section's data.
    """

    def __init__(self) -> None:
        self.unpacker = zstandard.ZstdDecompressor()


_zstd = _Zstd()


def _unpacked_zstd(data: Buffer, limit: int) -> Iterator[bytes]:
    view = memoryview(data)
    total = 0
    try:
        _check_zstd_complete(view, limit)
        with _zstd.unpacker.stream_reader(view, read_across_frames=True) as reader:
            while part := reader.read(min(_ZSTD_CHUNK, limit - total + 1)):
                total += len(part)
                if total > limit:
                    raise _too_large(limit)
                yield part
    except zstandard.ZstdError as error:
        raise DecompressionError(f"zstd: {error}") from error


def _check_zstd_complete(view: memoryview, limit: int) -> None:
    """Step over the blocks of every frame (RFC 8878): the streaming reader mistakes a truncated frame for the end.

    Input without any frame is complete, as it is to ZstdInputStream.
    """
    pos = 0
    blocks_left = _FREE_PARTS + limit // _LEAST_BLOCK
    while pos < len(view):
        blocks_left -= 1
        if blocks_left < 0:
            raise _too_large(limit)
        if view[pos + 1 : pos + 4] == _ZSTD_SKIPPABLE:
            pos += 8 + int.from_bytes(view[pos + 4 : pos + 8], "little")
            continue
        has_checksum = zstandard.get_frame_parameters(view[pos:]).has_checksum
        pos += zstandard.frame_header_size(view[pos:])
        last = False
        while not last:
            blocks_left -= 1
            if blocks_left < 0:
                raise _too_large(limit)
            if pos + 3 > len(view):
                raise DecompressionError("zstd: a frame is cut short")
            block = int.from_bytes(view[pos : pos + 3], "little")
            last = bool(block & 1)
            pos += 3 + (1 if (block >> 1) & 3 == _ZSTD_RLE else block >> 3)
        pos += 4 * has_checksum
    if pos != len(view):
        raise DecompressionError("zstd: a frame is cut short")

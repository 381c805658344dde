"""LZ4 frames by the package lz4, or by cramjam where that has no wheel (musl) and was not installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cramjam

from ..primitives import Buffer

try:
    import lz4.frame as lz4_frame  # type: ignore[import-untyped]
except ImportError:
    lz4_frame = None

_FAST_LEVEL = 9  # at Kafka's default level the fast compressor is used, at every other the high one
_HIGH_MIN = 3
_LEAST_OUTPUT, _MOST_OUTPUT = 64 << 10, 1 << 20


class FrameError(ValueError):
    """The bytes are no whole frame."""


def compress(data: Buffer, level: int) -> bytes:
    """One frame of independent blocks; `level` is Kafka's scale (KIP-780)."""
    own_level = 0 if level == _FAST_LEVEL else max(level, _HIGH_MIN)
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


def unpacked(data: Buffer, limit: int) -> Iterator[bytes]:
    """The content of a frame in pieces, or its first `limit` + 1 bytes if it is longer. Raises FrameError."""
    return iter((_with_cramjam(data, limit),)) if lz4_frame is None else _with_lz4(data, limit)


def _with_lz4(data: Buffer, limit: int) -> Iterator[bytes]:
    """It allocates at once as much as it may give: so it may give a little at first, and then more each time.

    It copies what it did not use each time, so that pieces are not much smaller than the frame.
    """
    unpacker: Any = lz4_frame.LZ4FrameDecompressor()
    size, room = max(_LEAST_OUTPUT, 4 * len(data)), limit + 1
    most = max(_MOST_OUTPUT, size)
    while room > 0 and not unpacker.eof:
        try:
            part: bytes = unpacker.decompress(data, max_length=min(size, room))
        except RuntimeError as error:
            raise FrameError(str(error)) from error
        if not part and not unpacker.eof:
            raise FrameError("the frame is cut short")
        yield part
        size, room, data = min(4 * size, most), room - len(part), b""


def _with_cramjam(data: Buffer, limit: int) -> bytes:
    """It unpacks into a buffer of a given size: a larger one is tried until the content fits, or is too long."""
    size = min(max(_LEAST_OUTPUT, 4 * len(data)), limit + 1)
    while True:
        output = bytearray(size)
        try:
            return bytes(output[: cramjam.lz4.decompress_into(bytes(data), output)])
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):  # what Rust says when a buffer is too small
                raise FrameError(str(error)) from error
            if size > limit:
                return bytes(output)
        size = min(4 * size, limit + 1)

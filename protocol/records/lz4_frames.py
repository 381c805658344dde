"""LZ4 frames by the package lz4, or by cramjam where that has no wheel (musl) and was not installed."""

from __future__ import annotations

from typing import Any

import cramjam

from ..primitives import Buffer

try:
    import lz4.frame as lz4_frame  # type: ignore[import-untyped]
except ImportError:
    lz4_frame = None

_FAST_LEVEL = 9  # at Kafka's default level the fast compressor is used, at every other the high one
_HIGH_MIN = 3
_LEAST_OUTPUT = 64 << 10


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


def decompress(data: Buffer, limit: int) -> bytes:
    """The content of a frame, or its first `limit` + 1 bytes if it is longer. Raises FrameError."""
    return _with_cramjam(data, limit) if lz4_frame is None else _with_lz4(data, limit)


def _with_lz4(data: Buffer, limit: int) -> bytes:
    """It allocates at once as much as it may give: so it may give a little at first, and then more each time."""
    unpacker: Any = lz4_frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size, room = max(_LEAST_OUTPUT, 4 * len(data)), limit + 1
    while room > 0 and not unpacker.eof:
        try:
            part: bytes = unpacker.decompress(data, max_length=min(size, room))
        except RuntimeError as error:
            raise FrameError(str(error)) from error
        if not part and not unpacker.eof:
            raise FrameError("the frame is cut short")
        parts.append(part)
        size, room, data = 4 * size, room - len(part), b""  # it keeps what it did not use
    return parts[0] if len(parts) == 1 else b"".join(parts)


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

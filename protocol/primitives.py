"""The smallest parts of the wire format: varints, strings and tagged fields, read with every length checked.

Readers take the buffer and a position and return `(value, next position)`. They raise only `DecodeError`, and compare
each length with what is left of the buffer before they make anything of that size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from struct import Struct
from typing import TypeAlias

from .java_strings import decode_utf8

Buffer: TypeAlias = bytes | bytearray | memoryview


class UnreadBytes(ABC):
    """A part of a message that is read piece by piece while it is sent; `len` gives its size."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def hold(self) -> Callable[[], None]:
        """Keep open what it is read from, until the returned function is called. Raises KafkaError."""

    @abstractmethod
    def try_read(self, at: int, size: int) -> Buffer | None:
        """`size` bytes from `at` on, or None if that would wait for a device. Raises KafkaError."""

    @abstractmethod
    async def read(self, at: int, size: int) -> Buffer:
        """The bytes, read without holding up the loop."""


INT16 = Struct(">h")
INT32 = Struct(">i")
LONGEST_STRING = 0x7FFF
MAX_INT = 0x7FFFFFFF
"""Varints above this are negative numbers to Kafka, and any negative length means null."""


class DecodeError(ValueError):
    """Bytes that are not the message they claim to be; the text says what is wrong and where."""


class TooManyElementsError(DecodeError):
    """The arrays of a message have more than `MOST_ELEMENTS`: to read and to answer it would take too long."""


MOST_ELEMENTS = 50_000
"""In all arrays of a message together. Of a few bytes each, 50,000 take some 15 ms to read."""


def too_many(what: str) -> TooManyElementsError:
    return TooManyElementsError(f"{what}: more than {MOST_ELEMENTS} elements")


def underflow(what: str, needed: int, buf: Buffer, pos: int) -> DecodeError:
    return DecodeError(f"{what} needs {needed} bytes at position {pos}, {max(len(buf) - pos, 0)} are left")


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes that fits 32 bits (`ByteUtils.readUnsignedVarint`)."""
    start = pos
    try:
        byte = buf[pos]
        if byte < 0x80:
            return byte, pos + 1
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            pos += 1
            byte = buf[pos]
            if byte < 0x80:
                value |= byte << shift
                if value > 0xFFFFFFFF:
                    raise DecodeError(f"varint at position {start} is over 32 bits")
                return value, pos + 1
            value |= (byte & 0x7F) << shift
    except IndexError:
        raise DecodeError(f"varint at position {start} is cut short") from None
    raise DecodeError(f"varint at position {start} is longer than 5 bytes")


def append_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_compact_length(buf: Buffer, pos: int, what: str) -> tuple[int, int]:
    """A compact length, -1 for null; never more than is left of the buffer, as an element takes at least one byte."""
    if pos >= len(buf):
        raise underflow(f"length of {what}", 1, buf, pos)
    length, pos = read_uvarint(buf, pos)
    length -= 1
    if length > MAX_INT:
        return -1, pos
    if length > len(buf) - pos:
        raise underflow(what, length, buf, pos)
    return length, pos


def read_length16(buf: Buffer, pos: int, what: str) -> tuple[int, int]:
    """A legacy string's 16-bit length, negative for null."""
    return _read_length(buf, pos, what, INT16)


def read_length32(buf: Buffer, pos: int, what: str) -> tuple[int, int]:
    """The 32-bit length of legacy bytes or of a legacy array, negative for null."""
    return _read_length(buf, pos, what, INT32)


def _read_length(buf: Buffer, pos: int, what: str, size: Struct) -> tuple[int, int]:
    if pos + size.size > len(buf):
        raise underflow(f"length of {what}", size.size, buf, pos)
    (length,) = size.unpack_from(buf, pos)
    pos += size.size
    if length > len(buf) - pos:
        raise underflow(what, length, buf, pos)
    return length, pos


def decode_text(data: Buffer, what: str) -> str:
    """A string. A compact one may be no longer than a legacy one can (as in Kafka's generated messages)."""
    if len(data) > LONGEST_STRING:
        raise DecodeError(f"{what} has invalid length {len(data)}")
    return decode_utf8(data)


def skip_tagged_fields(buf: Buffer, pos: int) -> int:
    """Position after a section of tagged fields, all of which are unknown."""
    if pos < len(buf) and buf[pos] == 0:
        return pos + 1
    count, pos = read_tag_count(buf, pos)
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos = skip_tagged_field(buf, pos, tag, size)
    return pos


def read_tag_count(buf: Buffer, pos: int) -> tuple[int, int]:
    """The number of fields in a section of tagged fields, a signed number in Kafka."""
    count, pos = read_uvarint(buf, pos)
    if count > MAX_INT:
        raise DecodeError(f"the number of tagged fields is negative: {count - 2**32}")
    return count, pos


def skip_tagged_field(buf: Buffer, pos: int, tag: int, size: int) -> int:
    """Position after an unknown tagged field. The announced size of known ones is not checked (as in Kafka)."""
    if size > len(buf) - pos:
        raise underflow(f"tagged field {tag}", size, buf, pos)
    return pos + size

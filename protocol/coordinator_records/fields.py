"""The field types of the internal topics' schemas, non-flexible and flexible (Kafka's message protocol)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from struct import Struct
from uuid import UUID

from ..primitives import INT8, INT16, INT32, INT64, append_uvarint, read_uvarint

_NULL_STRING = b"\xff\xff"
_NULL_COMPACT = b"\x00"
NO_TAGS = b"\x00"


def string(text: str | None) -> bytes:
    """STRING or NULLABLE_STRING. Raises struct.error above 32,767 bytes."""
    if text is None:
        return _NULL_STRING
    data = text.encode()
    return INT16.pack(len(data)) + data


def sized(data: bytes) -> bytes:
    """BYTES."""
    return INT32.pack(len(data)) + data


_ONE_BYTE = [bytes((number,)) for number in range(128)]


def unsigned_varint(number: int) -> bytes:
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    append_uvarint(out, number)
    return bytes(out)


def compact_string(text: str | None) -> bytes:
    """COMPACT_STRING or COMPACT_NULLABLE_STRING."""
    return _NULL_COMPACT if text is None else compact_bytes(text.encode())


def compact_bytes(data: bytes) -> bytes:
    return unsigned_varint(len(data) + 1) + data


def compact_array(items: Collection[bytes]) -> bytes:
    """COMPACT_ARRAY of encoded elements."""
    return unsigned_varint(len(items) + 1) + b"".join(items)


def tagged_fields(tags: Mapping[int, bytes]) -> bytes:
    """TAG_BUFFER; tags in ascending order."""
    parts = [unsigned_varint(len(tags))]
    for tag, data in tags.items():
        parts += (unsigned_varint(tag), unsigned_varint(len(data)), data)
    return b"".join(parts)


class FieldReader:
    """Reads fields one after the other; truncated input raises struct.error, IndexError or ValueError."""

    __slots__ = ("_data", "_flexible", "_pos")

    def __init__(self, data: bytes, pos: int, *, flexible: bool = False) -> None:
        self._data = data
        self._pos = pos
        self._flexible = flexible

    def int8(self) -> int:
        return int(self._fixed(INT8))

    def int16(self) -> int:
        return int(self._fixed(INT16))

    def int32(self) -> int:
        return int(self._fixed(INT32))

    def int64(self) -> int:
        return int(self._fixed(INT64))

    def _fixed(self, kind: Struct) -> int:
        value: int = kind.unpack_from(self._data, self._pos)[0]
        self._pos += kind.size
        return value

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("null where a string must be")
        return text

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self._flexible else self.int16()
        return None if size < 0 else self._take(size).decode()

    def sized_bytes(self) -> bytes:
        size = self.unsigned_varint() - 1 if self._flexible else self.int32()
        if size < 0:
            raise ValueError("null where bytes must be")
        return self._take(size)

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() for _ in range(self.array_size()))

    def array_size(self) -> int:
        size = self.nullable_array_size()
        if size is None:
            raise ValueError("null where an array must be")
        return size

    def nullable_array_size(self) -> int | None:
        size = self.unsigned_varint() - 1 if self._flexible else self.int32()
        return None if size < 0 else size

    def tags(self) -> dict[int, bytes]:
        """The tagged fields, by tag; none in a version that is not flexible."""
        if not self._flexible:
            return {}
        return {self.unsigned_varint(): self._take(self.unsigned_varint()) for _ in range(self.unsigned_varint())}

    def unsigned_varint(self) -> int:
        number, self._pos = read_uvarint(self._data, self._pos)
        return number

    def _take(self, size: int) -> bytes:
        end = self._pos + size
        if end > len(self._data):
            raise ValueError("a field ends behind its record")
        taken = self._data[self._pos : end]
        self._pos = end
        return taken


def uuid(data: bytes) -> UUID | None:
    """A UUID's 16 bytes; None for Kafka's zero id."""
    found = UUID(bytes=data)
    return found if found.int else None

"""Which schema a key or value has: by the bytes in front of it, or by a header.

| where                                          | what                                     | then          |
| ---------------------------------------------- | ---------------------------------------- | ------------- |
| header `__value_schema_id` / `__key_schema_id` | 1, 16 bytes: the GUID; Protobuf: indexes | the payload   |
| header, as others write it                     | 0, 4 bytes: the id; Protobuf: indexes    | the payload   |
| the front of the content                       | 0, 4 bytes: the id; Protobuf: indexes    | the payload   |

A header goes first. The indexes say which message of a .proto file it is: a count and as many numbers, zigzag varints;
0 alone is the first message.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

ID, GUID = 0, 1
ID_BYTES, GUID_BYTES = 5, 17
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
LARGEST_ID = (1 << 31) - 1
MOST_INDEXES = 64


class Framed(NamedTuple):
    """`schema` is an id, or a GUID as text. `indexes` are those of a header; else they are at the payload's front."""

    schema: int | str
    payload: bytes
    indexes: bytes = b""


def framed(
    content: bytes | None, headers: Iterable[tuple[str | bytes, bytes | None]] = (), *, is_key: bool = False
) -> Framed | None:
    """The schema of a key or value with its payload; None if it names none.

    Whether there is such a schema is another question: bytes of any kind may begin with a zero.
    """
    if content is None:
        return None
    wanted = KEY_HEADER if is_key else VALUE_HEADER
    for name, said in headers:
        if said is not None and (name if isinstance(name, str) else name.decode("utf-8", "replace")) == wanted:
            found = _named(said)
            if found is not None:
                schema, indexes = found
                return Framed(schema, content, indexes)
    schema_id = id_of(content)
    return None if schema_id is None else Framed(schema_id, content[ID_BYTES:])


def _named(said: bytes) -> tuple[int | str, bytes] | None:
    if len(said) >= GUID_BYTES and said[0] == GUID:
        return str(uuid.UUID(bytes=said[1:GUID_BYTES])), said[GUID_BYTES:]
    schema_id = id_of(said)
    return None if schema_id is None else (schema_id, said[ID_BYTES:])


def id_of(content: bytes | None) -> int | None:
    """The id at the front of a content, if there is one."""
    if content is None or len(content) < ID_BYTES or content[0] != ID:
        return None
    found = int.from_bytes(content[1:ID_BYTES], "big")
    return found if found <= LARGEST_ID else None


def with_prefix(schema_id: int, payload: bytes) -> bytes:
    """A content as Confluent's serializers write it."""
    return bytes([ID]) + schema_id.to_bytes(ID_BYTES - 1, "big") + payload


def read_indexes(content: bytes) -> tuple[list[int], bytes]:
    """The indexes at the front, and the rest. Raises ValueError."""
    count, at = _varint(content, 0)
    if count == 0:
        return [0], content[at:]
    if not 0 < count <= MOST_INDEXES:
        raise ValueError(f"{count} message indexes: expected 1 to {MOST_INDEXES}")
    found = []
    for _ in range(count):
        number, at = _varint(content, at)
        found.append(number)
    return found, content[at:]


def written_indexes(indexes: Sequence[int]) -> bytes:
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(map(_as_varint, [len(indexes), *indexes]))


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(content) or shift > 28:
            raise ValueError("no message indexes before the message")
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _as_varint(number: int) -> bytes:
    value, out = number << 1, bytearray()  # indexes are never negative
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

"""The common part of the hand-written Produce and Fetch codecs."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias
from uuid import UUID

from ..java_strings import REPLACING
from ..primitives import Buffer, DecodeError, append_uvarint, decode_text, read_compact_length, underflow

TopicKey: TypeAlias = str | UUID
"""A topic's name, or its id in the versions that name topics by id."""

I16 = Struct(">h")
I32 = Struct(">i")


class LeaderIdAndEpoch(NamedTuple):
    """The leader that a client should have asked, and its epoch (KIP-951); -1: not given."""

    leader_id: int = -1
    leader_epoch: int = -1


class NodeEndpoint(NamedTuple):
    """Where a leader that a response names can be reached (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


UNKNOWN_LEADER = LeaderIdAndEpoch()


def read_compact_text(buf: Buffer, pos: int, what: str) -> tuple[str | None, int]:
    """A compact nullable string. Raises DecodeError, and IndexError past the end of the buffer."""
    length = buf[pos]
    pos += 1
    if 0 < length < 0x80 and pos + length <= len(buf):  # the usual case: short, and followed by something
        end = pos + length - 1
        return str(buf[pos:end], "utf-8", REPLACING), end
    if length >= 0x80:
        length, pos = read_compact_length(buf, pos - 1, what)
        length += 1
    if length == 0:
        return None, pos
    end = pos + length - 1
    if end > len(buf):
        raise underflow(what, length - 1, buf, pos)
    return decode_text(buf[pos:end], what), end


def read_legacy_text(buf: Buffer, pos: int, what: str) -> tuple[str | None, int]:
    """A legacy nullable string. Raises DecodeError, and struct.error past the end of the buffer."""
    (length,) = I16.unpack_from(buf, pos)
    pos += 2
    if length < 0:
        return None, pos
    end = pos + length
    if end > len(buf):
        raise underflow(what, length, buf, pos)
    return decode_text(buf[pos:end], what), end


def read_compact_count(buf: Buffer, pos: int, what: str) -> tuple[int, int]:
    """The length of a compact array that must not be null."""
    count = buf[pos]
    pos += 1
    if count >= 0x80:
        count, pos = read_compact_length(buf, pos - 1, what)
        count += 1
    if count == 0:
        raise DecodeError(f"{what} is null")
    return count - 1, pos


def read_legacy_count(buf: Buffer, pos: int, what: str) -> tuple[int, int]:
    """The length of a legacy array that must not be null."""
    (count,) = I32.unpack_from(buf, pos)
    if count < 0:
        raise DecodeError(f"{what} has length {count}")
    return count, pos + 4


def append_compact_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    data = text.encode()
    append_uvarint(out, len(data) + 1)
    out += data


def append_legacy_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out += b"\xff\xff"
        return
    data = text.encode()
    out += I16.pack(len(data))
    out += data


def append_count(out: bytearray, count: int, flexible: bool) -> None:
    """The length of an array that is not null, a compact one in flexible versions."""
    if not flexible:
        out += I32.pack(count)
    elif count < 0x7F:
        out.append(count + 1)
    else:
        append_uvarint(out, count + 1)


def append_topic_key(out: bytearray, key: TopicKey, flexible: bool) -> None:
    """Write a topic's id, or its name, which in flexible versions is a compact string."""
    if isinstance(key, UUID):
        out += key.bytes
        return
    data = key.encode()
    if not flexible:
        out += I16.pack(len(data))
    elif len(data) < 0x7F:
        out.append(len(data) + 1)
    else:
        append_uvarint(out, len(data) + 1)
    out += data


def append_node_endpoints(out: bytearray, endpoints: tuple[NodeEndpoint, ...]) -> None:
    """Write the response's tagged fields: NodeEndpoints as tag 0 (KIP-951), or none."""
    if not endpoints:
        out.append(0)
        return
    value = bytearray()
    append_uvarint(value, len(endpoints) + 1)
    for endpoint in endpoints:
        value += I32.pack(endpoint.node_id)
        append_compact_text(value, endpoint.host)
        value += I32.pack(endpoint.port)
        append_compact_text(value, endpoint.rack)
        value.append(0)
    out += b"\x01\x00"
    append_uvarint(out, len(value))
    out += value

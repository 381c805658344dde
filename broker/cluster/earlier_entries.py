"""The entries of `metadata.log` and `metadata.snapshot`, in which releases before 0.2 kept the metadata.

An entry is: magic (4 bytes, `F0 4F 4D 31`), length of the payload (u32, big-endian), CRC-32C of length and payload
(u32), payload. The payload is ASCII JSON: a list of commits `{"revision": n, "puts": {key: value}, "deletes": [key]}`.
Values are UTF-8, with every byte that is not UTF-8 as a lone surrogate escape. A log entry is everything that one sync
covered; a snapshot is one entry of one commit that puts every key.

The magic's first byte is never ASCII, so no payload can look like the start of an entry. An entry found after a bad one
therefore proves that the bad one was once whole, which a torn last write never is.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import crc32c

_HEAD = struct.Struct(">4sII")
_MAGIC = b"\xf0OM1"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as stored."""

    revision: int
    puts: Mapping[str, bytes]
    deletes: tuple[str, ...] = ()


class CorruptMetadataError(Exception):
    """A metadata file holds something that no crash can explain; the broker must not start from it."""


def decode_entries(data: bytes, name: str, covered: int = 0) -> Iterator[tuple[int, list[Commit]]]:
    """Yield (end position, commits) of each whole entry, stopping at a torn tail.

    Raises CorruptMetadataError, with the file's `name`, if a bad entry has a good one after it, unless the bad one can
    only have held revisions up to `covered`, which a snapshot contains: a crash while the log is being emptied may
    leave any part of it.
    """
    position = 0
    while position < len(data):
        payload = _payload_at(data, position)
        if payload is None:
            found = _next_whole(data, position)
            if found is None:
                return
            following, revision = found
            if revision > covered + 1:
                raise CorruptMetadataError(
                    f"{name}: the entry at byte {position} is damaged, and a good one follows at byte {following}; "
                    "restore the file from a backup"
                )
            position = following
            continue
        position += _HEAD.size + len(payload)
        yield position, [_from_json(item) for item in json.loads(payload)]


def _payload_at(data: bytes, position: int) -> bytes | None:
    if position + _HEAD.size > len(data):
        return None
    magic, length, checksum = _HEAD.unpack_from(data, position)
    start = position + _HEAD.size
    payload = data[start : start + length]
    if magic != _MAGIC or len(payload) != length:
        return None
    if crc32c.crc32c(payload, crc32c.crc32c(struct.pack(">I", length))) != checksum:
        return None
    return payload


def _next_whole(data: bytes, position: int) -> tuple[int, int] | None:
    """The position of the next whole entry after a bad one, and its first revision."""
    following = data.find(_MAGIC, position + 1)
    while following != -1:
        payload = _payload_at(data, following)
        if payload is not None:
            return following, int(json.loads(payload)[0]["revision"])
        following = data.find(_MAGIC, following + 1)
    return None


def _from_json(entry: Mapping[str, Any]) -> Commit:
    return Commit(
        revision=int(entry["revision"]),
        puts={key: value.encode("utf-8", "surrogateescape") for key, value in entry["puts"].items()},
        deletes=tuple(entry.get("deletes", ())),
    )

"""Request headers, parsed by hand, and response headers."""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import NamedTuple

from .api.table import API_BY_KEY
from .java_strings import REPLACING
from .primitives import INT32, Buffer, DecodeError, skip_tagged_fields, underflow

__all__ = [
    "DecodeError",
    "RequestHeader",
    "finish_frame",
    "frame_with_header",
    "parse_request_header",
]

_FIXED = Struct(">hhih")  # api key, api version, correlation id, length of the client id
_FIXED_SIZE = _FIXED.size
_unpack_fixed = _FIXED.unpack_from
_FRAME_V0 = Struct(">ii")
_FRAME_V1 = Struct(">iib")


class RequestHeader(NamedTuple):
    """The header of every request (Kafka's `RequestHeader.json`), and the position of the body after it."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


_new_header = partial(tuple.__new__, RequestHeader)  # without a Python-level call


def parse_request_header(buf: Buffer) -> RequestHeader:
    """Read a request header of version 1 or 2, whichever the API's version calls for.

    The client id is a legacy nullable string in both (`RequestHeader.json`). Rejecting an unserved version is left to
    the caller, who must answer ApiVersions even then.

    Raises DecodeError for a key not in the API table and for bytes that are no header.
    """
    size = len(buf)
    if size < _FIXED_SIZE:
        raise underflow("request header", _FIXED_SIZE, buf, 0)
    key, version, correlation_id, length = _unpack_fixed(buf)
    api = API_BY_KEY.get(key)
    if api is None:
        raise DecodeError(f"unknown API key {key} (version {version})")
    pos = _FIXED_SIZE
    client_id = None
    if length >= 0:
        end = pos + length
        if end > size:
            raise underflow("client id", length, buf, pos)
        client_id = str(buf[pos:end], "utf-8", REPLACING) if length else ""
        pos = end
    if version >= api.first_flexible:
        pos = pos + 1 if pos < size and not buf[pos] else skip_tagged_fields(buf, pos)
    return _new_header((key, version, correlation_id, client_id, pos))


def frame_with_header(header_version: int, correlation_id: int) -> bytearray:
    """A new frame: a size of zero, which `finish_frame` sets later, and the response header."""
    if header_version == 1:
        return bytearray(_FRAME_V1.pack(0, correlation_id, 0))
    return bytearray(_FRAME_V0.pack(0, correlation_id))


def finish_frame(frame: bytearray, size_outside: int = 0) -> bytearray:
    """Set the size prefix to what the frame holds, plus `size_outside` bytes sent after it."""
    INT32.pack_into(frame, 0, len(frame) - 4 + size_outside)
    return frame

"""One request to another node, how its answer is read, and why there may be none.

What the other node answers, an error code included, is an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Generic, TypeVar

from protocol.api.messages import request_class, response_class
from protocol.api.row import API_VERSIONS_KEY
from protocol.primitives import INT32, skip_tagged_fields
from protocol.schema import Entity


class PeerError(Exception):
    """The request was not answered; it may or may not have been handled. The message names the node's address."""


class PeerUnreachableError(PeerError):
    """No connection could be opened, or the other node is no broker or controller: nothing was sent."""


class PeerAuthenticationError(PeerError):
    """The other node does not take this node's credentials, or cannot show that it knows them."""


class PeerDisconnectedError(PeerError):
    """The connection ended before the answer came."""


class PeerTimeoutError(PeerError):
    """The answer did not come in time; the connection was closed, since later answers would wait behind it."""


class PeerVersionError(PeerError):
    """The other node serves no version of the API that this node speaks: nothing was sent."""


T = TypeVar("T")

_HEADER = Struct(">ihhih")  # size, api key, version, correlation id, length of the client id


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request in any of the versions `lowest` to `highest`.

    `is_flexible(version)` says whether that version has tagged fields. `encode(out, version)` appends the body of the
    request. `decode(frame, position, version)` reads the body of the response, which begins at `position` and lasts
    until the end of the frame; `frame` is the reader's to keep.
    """

    api_key: int
    lowest: int
    highest: int
    is_flexible: Callable[[int], bool]
    encode: Callable[[bytearray, int], None]
    decode: Callable[[bytes, int, int], T]

    def frame(self, version: int, correlation_id: int, client_id: bytes | None) -> bytearray:
        """The whole request, size prefix included."""
        length = -1 if client_id is None else len(client_id)
        out = bytearray(_HEADER.pack(0, self.api_key, version, correlation_id, length))
        out += client_id or b""
        if self.is_flexible(version):
            out.append(0)
        self.encode(out, version)
        INT32.pack_into(out, 0, len(out) - INT32.size)
        return out

    def read(self, frame: bytes, version: int) -> T:
        """The response in a frame without its size; the correlation id was looked at. Raises DecodeError."""
        position = INT32.size
        if self.is_flexible(version) and self.api_key != API_VERSIONS_KEY:
            position = skip_tagged_fields(frame, position)
        return self.decode(frame, position, version)


def entity_call(request: Entity, *, lowest: int | None = None) -> Call[Any]:
    """The call of one of kio's requests; the answer is kio's response of the same version.

    With `lowest`, an older version may be sent: fields that it lacks are left out, and the answer is lifted to the
    class of the request's version.
    """
    cls = request.__class__
    key, highest = cls.__api_key__, cls.__version__

    def encode(out: bytearray, version: int) -> None:
        from protocol.writer import entity_writer

        entity_writer(request_class(key, version), cls)(out, request)

    def decode(frame: bytes, position: int, version: int) -> Any:
        from protocol.reader import entity_reader

        response, _ = entity_reader(response_class(key, version), response_class(key, highest))(frame, position)
        return response

    def is_flexible(version: int) -> bool:
        return bool(request_class(key, version).__flexible__)

    return Call(key, highest if lowest is None else lowest, highest, is_flexible, encode, decode)

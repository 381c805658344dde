"""Requests and responses of every API as entities, kio's or of its form: decode, lift to the newest version, encode.

kio's schema modules cost milliseconds each to import, so they are loaded when a version is first met.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .. import newer
from ..lift import is_reshaped, lift
from ..primitives import Buffer, DecodeError
from ..schema import Entity, EntityClass
from .row import Api
from .table import API_BY_KEY

if TYPE_CHECKING:
    from ..careful_reader import Read
    from ..writer import WriteFrame

__all__ = [
    "DecodeError",
    "decode_request",
    "encode_response",
    "lift",
    "newest_request",
    "newest_response",
    "request_class",
    "request_reader",
    "response_class",
    "response_writer",
]


@cache
def request_class(key: int, version: int) -> EntityClass:
    if (key, version) in newer.MODULES:
        return newer.load(newer.MODULES[key, version]).REQUEST
    from kio.index import load_request_schema

    return load_request_schema(key, version)


@cache
def response_class(key: int, version: int) -> EntityClass:
    if (key, version) in newer.MODULES:
        return newer.load(newer.MODULES[key, version]).RESPONSE
    from kio.index import load_response_schema

    return load_response_schema(key, version)


def newest_request(api: Api) -> EntityClass:
    """The request class that the handler takes: that of the highest version served, unless we have an own one."""
    if api.key in newer.HANDLED:
        return newer.load(newer.HANDLED[api.key]).REQUEST
    return request_class(api.key, api.highest)


def newest_response(api: Api) -> EntityClass:
    """The response class that the handler gives: that of the highest version served, unless we have an own one."""
    if api.key in newer.HANDLED:
        return newer.load(newer.HANDLED[api.key]).RESPONSE
    return response_class(api.key, api.highest)


def decode_request(api: Api, version: int, body: bytes) -> Entity:
    """The request as kio's class of `version`. Bytes after it are ignored, as in Kafka.

    Raises DecodeError for malformed input; memory use stays proportional to the body, whatever lengths it claims.
    """
    from ..reader import entity_reader

    cls = request_class(api.key, version)
    entity, _ = entity_reader(cls, cls)(body, 0)
    return entity


def request_reader(key: int, version: int) -> Read:
    """`(body, position) -> (request, next position)`: as `decode_request`, in the newest version's class.

    Fields that the older version lacks get their defaults, or what `lift` says.
    """
    from ..reader import entity_reader

    cls, into = request_class(key, version), newest_request(API_BY_KEY[key])
    if not is_reshaped(cls, into):
        return entity_reader(cls, into)
    read = entity_reader(cls, cls)

    def read_and_lift(buf: Buffer, pos: int) -> tuple[Entity, int]:
        entity, pos = read(buf, pos)
        return lift(entity, into), pos

    return read_and_lift


def encode_response(api: Api, response: Entity, version: int, correlation_id: int) -> bytearray:
    """The whole frame, size prefix included, of `response` at `version`.

    `response` has the attributes of kio's newest class; fields that `version` lacks are left out. A field that only
    older versions have is taken from an attribute of that name if `response` has one, else it gets its default.
    """
    return response_writer(api.key, version)(response, correlation_id)


def response_writer(key: int, version: int) -> WriteFrame:
    """`(response, correlation id) -> frame`: as `encode_response`."""
    from ..writer import frame_writer

    api = API_BY_KEY[key]
    return frame_writer(response_class(key, version), newest_response(api), api.response_header_version(version))

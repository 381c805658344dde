"""Kafka messages as plain dicts, written and read by the field lists of kio's schema classes.

The judge has a codec of its own, so that it can send what a proper client never would (nulls, unknown enum values,
numbers out of range) and so that a fault in kio or in the broker's codecs cannot hide itself. Durations and times are
plain milliseconds; a uuid is 32 hex digits; error codes read as "3 UNKNOWN_TOPIC_OR_PARTITION"; `records` stay bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import struct
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.static.protocol import RequestPayload, ResponsePayload

from protocol import newer

KEYS = {name: key for key, name in api_key_map.items()} | {
    "streams_group_topology_description_update": 93,  # kio does not have these two yet
    "unregister_controller": 94,
}
NO_ID = "0" * 32
_INTS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "int64": ">q",
    "error_code": ">h",
    "timedelta_i32": ">i",
    "timedelta_i64": ">q",
    "datetime_i64": ">q",
    "float64": ">d",
}


class Field(NamedTuple):
    name: str
    kind: str  # a kafka_type, or "struct"
    array: bool
    struct: type | None
    tag: int | None
    default: Any
    nullable: bool


class TruncatedError(Exception):
    """The message ended before its schema did."""


class Request(NamedTuple):
    """One request as it goes on the wire, and what its answer is to be read with."""

    api: str
    version: int
    body: bytes


def versions_of(api: str) -> list[int]:
    """Every version of the API that there is a class of, ascending."""
    return sorted({*schema_name_map.get(api, ()), *(version for key, version in newer.MODULES if key == KEYS[api])})


@functools.cache
def message_class(api: str, version: int, kind: str) -> type[RequestPayload] | type[ResponsePayload]:
    """kio's class for `kind` ("request" or "response"), or ours for a version that kio lacks."""
    name = newer.MODULES.get((KEYS[api], version))
    if name is not None:
        module = newer.load(name)
        return module.REQUEST if kind == "request" else module.RESPONSE  # type: ignore[no-any-return]
    load = load_request_schema if kind == "request" else load_response_schema
    return load(KEYS[api], version)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value


@functools.cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a kio class in wire order."""
    out = []
    for f in dataclasses.fields(cls):
        hint, nullable = _unwrap(f.type)
        array = get_origin(hint) is tuple
        if array:
            hint, inner_null = _unwrap(get_args(hint)[0])
            nullable = nullable or inner_null
        struct_cls = hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None
        kind = "struct" if struct_cls else f.metadata["kafka_type"]
        default = None
        if f.default is not dataclasses.MISSING:
            default = _plain(f.default)
        elif array:
            default = None if nullable else []
        elif struct_cls is None and not nullable:
            default = {"string": "", "bytes": b"", "records": b"", "bool": False}.get(kind, 0)
        elif struct_cls is not None and not nullable:
            default = {}
        out.append(Field(f.name, kind, array, struct_cls, f.metadata.get("tag"), default, nullable))
    return tuple(out)


def _unwrap(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) is UnionType:
        args = get_args(hint)
        return next(a for a in args if a is not NoneType), NoneType in args
    return hint, False


@functools.cache
def known_names(api: str) -> frozenset[str]:
    """Names of all fields of any version of the API's request, nested ones included."""
    names: set[str] = set()

    def walk(cls: type) -> None:
        for f in fields_of(cls):
            names.add(f.name)
            if f.struct:
                walk(f.struct)

    for version in versions_of(api):
        walk(message_class(api, version, "request"))
    return frozenset(names)


# ---- writing


def uvarint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def encode_request(api: str, version: int, body: dict[str, Any]) -> Request:
    """Encode a request, without fields that this version lacks; a name that no version has is the scenario's error."""
    known = known_names(api)

    def check(value: Any) -> None:
        if isinstance(value, dict):
            if unknown := set(value) - known:
                raise KeyError(f"{api} has no field {unknown}")
            for inner in value.values():
                check(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                check(inner)

    check(body)
    cls = message_class(api, version, "request")
    return Request(api, version, _struct(cls, body, cls.__flexible__))


def _struct(cls: type, value: dict[str, Any], flexible: bool) -> bytes:
    out, tagged = [], []
    for f in fields_of(cls):
        if f.tag is None:
            out.append(_field(f, value.get(f.name, f.default), flexible))
        elif f.name in value and value[f.name] != f.default:
            raw = _field(f, value[f.name], flexible)
            tagged.append(uvarint(f.tag) + uvarint(len(raw)) + raw)
    if flexible:
        out += [uvarint(len(tagged)), *tagged]
    return b"".join(out)


def _field(f: Field, value: Any, flexible: bool) -> bytes:
    if not f.array:
        if f.struct is not None and f.nullable:
            return b"\xff" if value is None else b"\x01" + _struct(f.struct, value, flexible)
        return _one(f, value, flexible)
    if value is None:
        return uvarint(0) if flexible else b"\xff\xff\xff\xff"
    head = uvarint(len(value) + 1) if flexible else struct.pack(">i", len(value))
    return head + b"".join(_one(f, item, flexible) for item in value)


def _one(f: Field, value: Any, flexible: bool) -> bytes:
    if f.struct is not None:
        return _struct(f.struct, value, flexible)
    if f.kind == "bool":
        return b"\x01" if value else b"\x00"
    if f.kind == "uuid":
        return bytes.fromhex(value or NO_ID)
    if f.kind in _INTS:
        return struct.pack(_INTS[f.kind], value)
    if value is None:
        return uvarint(0) if flexible else (b"\xff\xff" if f.kind == "string" else b"\xff\xff\xff\xff")
    raw = value.encode() if isinstance(value, str) else value
    if flexible:
        return uvarint(len(raw) + 1) + raw
    return struct.pack(">h" if f.kind == "string" else ">i", len(raw)) + raw


# ---- reading


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def take(self, n: int) -> bytes:
        if n < 0 or self.pos + n > len(self.data):
            raise TruncatedError(f"{n} bytes wanted at {self.pos} of {len(self.data)}")
        self.pos += n
        return self.data[self.pos - n : self.pos]

    def unpack(self, fmt: str) -> Any:
        return struct.unpack(fmt, self.take(struct.calcsize(fmt)))[0]

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def decode_response(api: str, version: int, data: bytes) -> dict[str, Any]:
    """The body (no header) as a dict; bytes left over are told under `trailing_bytes`.

    Raises TruncatedError."""
    cls = message_class(api, version, "response")
    r = Reader(data)
    out = _read_struct(r, cls, cls.__flexible__)
    if r.pos != len(data):
        out["trailing_bytes"] = len(data) - r.pos
    return out


def response_header_is_flexible(api: str, version: int) -> bool:
    return message_class(api, version, "response").__header_schema__.__flexible__


def request_header_is_flexible(api: str, version: int) -> bool:
    return message_class(api, version, "request").__header_schema__.__flexible__


def _read_struct(r: Reader, cls: type, flexible: bool) -> dict[str, Any]:
    fields = fields_of(cls)
    out = {f.name: _read_field(r, f, flexible) for f in fields if f.tag is None}
    if flexible:
        by_tag = {f.tag: f for f in fields if f.tag is not None}
        for _ in range(r.uvarint()):
            tag, inner = r.uvarint(), Reader(r.take(r.uvarint()))
            f = by_tag.get(tag)
            out[f.name if f else f"tag_{tag}"] = _read_field(inner, f, True) if f else inner.data.hex()
    return out


def _read_field(r: Reader, f: Field, flexible: bool) -> Any:
    if not f.array:
        if f.struct is not None and f.nullable:
            return None if r.unpack(">b") < 0 else _read_struct(r, f.struct, flexible)
        return _read_one(r, f, flexible)
    n = r.uvarint() - 1 if flexible else r.unpack(">i")
    return None if n < 0 else [_read_one(r, f, flexible) for _ in range(n)]


def _read_one(r: Reader, f: Field, flexible: bool) -> Any:
    if f.struct is not None:
        return _read_struct(r, f.struct, flexible)
    if f.kind == "bool":
        return r.take(1) != b"\x00"
    if f.kind == "uuid":
        return r.take(16).hex()
    if f.kind in _INTS:
        value = r.unpack(_INTS[f.kind])
        return error_name(value) if f.kind == "error_code" else value
    n = r.uvarint() - 1 if flexible else r.unpack(">h" if f.kind == "string" else ">i")
    if n < 0:
        return None
    raw = r.take(n)
    return raw.decode() if f.kind == "string" else raw


def error_name(code: int) -> str:
    try:
        return f"{code} {re.sub('_EXCEPTION$', '', ErrorCode(code).name.upper())}"
    except ValueError:
        return f"{code} ?"

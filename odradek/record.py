"""Records as a test sees them, and what it may write."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odradek.schemas.codecs import plain

Content = bytes | str | None
"""A key, or a header's content: text is written as UTF-8."""

Value = bytes | str | Mapping[str, Any] | None
"""A record's value: a mapping is written as JSON; None is a tombstone."""

HeadersGiven = Mapping[str, Content] | Iterable[tuple[str, Content]]
Timestamp = int | datetime.datetime
"""Milliseconds since 1970, or a time (one without a time zone is local)."""


class Bytes(bytes):
    """What a record has as bytes; equal to a str too, if it is that str in UTF-8: a key "7" comes out as it went in.

    As a key of a dict, or in a set, only text in ASCII is found by its str.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        """As text. Raises UnicodeDecodeError if it is no UTF-8."""
        return self.decode()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other.encode(errors="surrogatepass") if isinstance(other, str) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = bytes.__hash__


class Headers(tuple[tuple[str, Bytes | None], ...]):
    """A record's headers: pairs in their order, and `headers["name"]` is the last content under a name.

    They compare with lists of pairs and with dicts, whose contents may be bytes or str.
    """

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, str):
            return super().__getitem__(at)
        for name, content in reversed(self):
            if name == at:
                return content
        raise KeyError(at)

    def get(self, name: str, default: Any = None) -> Any:
        """The last content under this name."""
        return next((content for known, content in reversed(self) if known == name), default)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return len(self) == len(other) and dict(self) == other
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


NO_HEADERS = Headers()


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema that a key or value names.

    Attributes:
        id: its id, or its GUID if that is in a header.
        type: AVRO, JSON or PROTOBUF; None if it is not known.
        problem: why the content is not decoded, if it is not.
    """

    id: int | str
    type: str | None
    content: Any = field(default=None, repr=False)
    problem: str | None = None

    @classmethod
    def of(cls, answer: Mapping[str, Any], name: str, content: str) -> Schema | None:
        """The schema in an answer of the control interface, with what it decodes."""
        found = answer.get(name)
        if found is None:
            return None
        named = found["id"] if "id" in found else found["guid"]
        return cls(named, found["type"], answer.get(content), found.get("problem"))


@dataclass(frozen=True, slots=True)
class Record:
    """A record in a topic. `timestamp` is milliseconds since 1970; a value None is a tombstone.

    Key, value and the contents of headers are bytes that compare with str too: `record.key == "7"`. `schema` and
    `key_schema` are those that value and key name, of the broker's schema registry.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Bytes | None
    value: Bytes | None
    headers: Headers = NO_HEADERS
    schema: Schema | None = field(default=None, compare=False, repr=False)
    key_schema: Schema | None = field(default=None, compare=False, repr=False)

    @property
    def decoded(self) -> Any:
        """The value by its schema: a dict, mostly. Raises ValueError if it has no schema, or is not of it."""
        return self._by_schema("value", self.schema)

    @property
    def decoded_key(self) -> Any:
        """The key, as `decoded`."""
        return self._by_schema("key", self.key_schema)

    def _by_schema(self, name: str, schema: Schema | None) -> Any:
        where = f"offset {self.offset} of {self.topic}-{self.partition}"
        if schema is None:
            raise ValueError(f"the {name} at {where} names no schema")
        if schema.problem is not None:
            raise ValueError(f"the {name} at {where} is not decoded by schema {schema.id}: {schema.problem}")
        return schema.content

    @property
    def text(self) -> str | None:
        """The value as text. Raises UnicodeDecodeError if it is no UTF-8."""
        return None if self.value is None else self.value.decode()

    def json(self) -> Any:
        """Read the value as JSON, or by its schema if it has one. Raises ValueError if it is none."""
        if self.schema is not None and (self.schema.problem is None or (self.value or b"").startswith(b"\0")):
            return self.decoded
        if self.value is None:
            raise ValueError(f"offset {self.offset} of {self.topic}-{self.partition} is a tombstone, and no JSON")
        try:
            return json.loads(self.value)
        except RecursionError:
            where = f"offset {self.offset} of {self.topic}-{self.partition}"
            raise ValueError(f"the JSON at {where} is nested too deeply to be read") from None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Record:
        """A record in an answer of the control interface. Raises ValueError for one that is not given whole."""
        if "left_out" in answer:
            where = f"offset {answer['offset']} of {answer['topic']}-{answer['partition']}"
            raise ValueError(f"{where} is too large for the control interface: read it with a consumer")
        return cls(
            answer["topic"],
            answer["partition"],
            answer["offset"],
            answer["timestamp"],
            _bytes_of(answer, "key"),
            _bytes_of(answer, "value"),
            Headers((header["key"], _bytes_of(header, "value")) for header in answer["headers"]),
            Schema.of(answer, "schema", "json"),
            Schema.of(answer, "key_schema", "key_json"),
        )


def _bytes_of(answer: Mapping[str, Any], name: str) -> Bytes | None:
    text: str | None = answer.get(name)
    if text is not None:
        return Bytes(text.encode())
    encoded = answer.get(f"{name}_base64")
    return None if encoded is None else Bytes(base64.b64decode(encoded))


def content_as_json(name: str, content: object) -> dict[str, str]:
    """`{name: text}` or `{name_base64: ...}`; nothing for None. Raises TypeError for what is no content."""
    if content is None:
        return {}
    if isinstance(content, str):
        return {name: content}
    if isinstance(content, bytes | bytearray | memoryview):
        content = bytes(content)
        try:
            return {name: content.decode()}
        except UnicodeDecodeError:
            return {f"{name}_base64": base64.b64encode(content).decode()}
    raise TypeError(f"{name} = {content!r}: expected bytes, str or None")


def headers_as_json(headers: object) -> list[dict[str, str]]:
    """The headers of a record to write. Raises TypeError for what is none."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [{"key": _name(name), **content_as_json("value", content)} for name, content in pairs]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"headers = {headers!r}: expected a dict, or pairs, of names (str) and contents (bytes, str or None)"
        ) from error


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no str")
    return name


def record_as_json(
    value: object,
    key: object = None,
    headers: object = None,
    partition: int | None = None,
    timestamp: object = None,
    schema: Mapping[str, Any] | None = None,
    key_schema: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A record to write, for the control interface. Raises TypeError that names the wrong parameter.

    With a schema, as the control interface takes it, the value (key) is encoded by it unless it is None.
    """
    given: dict[str, Any] = {}
    if schema is not None and value is not None:
        given |= {"json": plain(value), "schema": schema}
        value = None
    if key_schema is not None and key is not None:
        given |= {"key_json": plain(key), "key_schema": key_schema}
        key = None
    if isinstance(value, Mapping):
        try:
            value = json.dumps(dict(value), separators=(",", ":"), ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise TypeError(f"value = {value!r} cannot be written as JSON: {error}") from error
        except RecursionError:
            raise TypeError("value is nested too deeply to be written as JSON") from None
    elif value is not None and not isinstance(value, bytes | bytearray | memoryview | str):
        raise TypeError(f"value = {value!r}: expected bytes, str, a dict (written as JSON) or None (a tombstone)")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
        raise TypeError(f"partition = {partition!r}: expected an int")
    given |= {**content_as_json("value", value), **content_as_json("key", key)}
    if headers is not None:
        given["headers"] = headers_as_json(headers)
    if partition is not None:
        given["partition"] = partition
    if timestamp is not None:
        given["timestamp"] = _milliseconds(timestamp)
    return given


def _milliseconds(timestamp: object) -> int:
    if isinstance(timestamp, datetime.datetime):
        return round(timestamp.timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise TypeError(f"timestamp = {timestamp!r}: expected milliseconds since 1970 (int), or a datetime")
    return timestamp

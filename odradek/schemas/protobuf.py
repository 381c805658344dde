"""Protobuf: messages as bytes and back, by Google's library, which has the .proto file's descriptors from `protoc`.

A message is a dict by the names of the file. Fields that cannot be absent are always there; Google's own types
(Timestamp and so on) are as in Protobuf's JSON, as are bytes (base64) and enums (names); 64-bit numbers stay numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from . import protoc
from .codecs import LONGEST_VALUE, check_length
from .errors import SchemaError
from .framing import Framed, read_indexes, written_indexes
from .lookup import PROTOBUF, Source

GOOGLES = "google.protobuf."


class Messages:
    """The messages of a .proto file, by name or by where they are in it.

    `compiled`: a FileDescriptorSet as bytes, of the file, which is the last, and of all that it imports.
    """

    def __init__(self, compiled: bytes) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool

        files = FileDescriptorSet.FromString(compiled).file
        self._pool = DescriptorPool()
        for file in files:
            self._pool.Add(file)
        self._main = files[-1]

    def class_at(self, indexes: Sequence[int]) -> Any:
        """The class of a message. Raises ValueError."""
        names, level = [self._main.package] if self._main.package else [], self._main.message_type
        for index in indexes:
            if not 0 <= index < len(level):
                raise ValueError(f"the schema has no message {list(indexes)}")
            names.append(level[index].name)
            level = level[index].nested_type
        return self._class(".".join(names))

    def indexes_of(self, name: str | None) -> list[int]:
        """Where a message is; None: the first one. Raises SchemaError."""
        if name is None:
            if not self._main.message_type:
                raise SchemaError("the schema has no message")
            return [0]
        rest = [([number], message, "") for number, message in enumerate(self._main.message_type)]
        known = []
        while rest:
            indexes, message, above = rest.pop(0)
            if message.options.map_entry:
                continue  # of the compiler's own, for a map
            own = f"{above}{message.name}"
            if name in (own, f"{self._main.package}.{own}"):
                return indexes
            known.append(own)
            rest += [([*indexes, number], inner, f"{own}.") for number, inner in enumerate(message.nested_type)]
        raise SchemaError(f"the schema has no message {name}: expected {', '.join(known)}")

    def _class(self, name: str) -> Any:
        from google.protobuf.message_factory import GetMessageClass

        return GetMessageClass(self._pool.FindMessageTypeByName(name))


class ProtobufCodec:
    """`compiled` as for `Messages`; `message` is the one to encode, None the first."""

    kind = PROTOBUF

    def __init__(self, compiled: bytes, message: str | None, longest: int = LONGEST_VALUE) -> None:
        self._messages = Messages(compiled)
        self._message = message
        self._longest = longest

    @property
    def front(self) -> bytes:
        return written_indexes(self._messages.indexes_of(self._message))

    def decode(self, framed: Framed) -> Any:
        from google.protobuf.message import DecodeError

        check_length(framed.payload, self._longest)
        try:
            indexes, content = (
                (read_indexes(framed.indexes)[0], framed.payload) if framed.indexes else read_indexes(framed.payload)
            )
            message = self._messages.class_at(indexes)()
            if self._message is not None and indexes != self._messages.indexes_of(self._message):
                raise SchemaError(f"it is a {message.DESCRIPTOR.full_name}, and {self._message} is wanted")
            message.ParseFromString(content)
            return _value(message)
        except SchemaError:
            raise
        except (DecodeError, ValueError) as error:
            raise SchemaError(f"the bytes are not of the schema: {error}") from error

    def encode(self, value: Any) -> bytes:
        from google.protobuf.json_format import ParseDict, ParseError

        indexes = self._messages.indexes_of(self._message)
        if not isinstance(value, Mapping):
            raise SchemaError(f"does not fit the schema: {repr(value)[:100]}: expected an object")
        try:
            message = self._messages.class_at(indexes)()
            ParseDict(_given(value), message, descriptor_pool=message.DESCRIPTOR.file.pool)
            return written_indexes(indexes) + bytes(message.SerializeToString(deterministic=True))
        except (ParseError, ValueError, TypeError) as error:
            raise SchemaError(f"does not fit the schema: {error}") from error


def make(source: Source, message: str | None, longest: int) -> ProtobufCodec:
    return ProtobufCodec(protoc.compile_text(source.text, source.needed), message, longest)


def _value(message: Any) -> Any:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError

    kind = message.DESCRIPTOR
    if kind.full_name.startswith(GOOGLES):
        with suppress(TypeError, DecodeError):  # an Any of a message that nobody here knows: its parts are told
            return MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=kind.file.pool)
    found = {}
    for field in kind.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        found[field.name] = _content(field, getattr(message, field.name))
    return found


def _content(field: Any, content: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return {str(name): _one(of, content[name]) for name in content}
    if is_repeated(field):
        return [_one(field, each) for each in content]
    return _one(field, content)


def is_repeated(field: Any) -> bool:
    found = getattr(field, "is_repeated", None)  # of newer releases, where `label` warns
    return bool(field.label == field.LABEL_REPEATED if found is None else found)


def _one(field: Any, content: Any) -> Any:
    if field.message_type is not None:
        return _value(content)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(content)
        return content if known is None else known.name
    return base64.b64encode(content).decode() if isinstance(content, bytes) else content


def _given(value: Any) -> Any:
    """What Protobuf's JSON has for values that a test may use."""
    if isinstance(value, Mapping):
        return {name: _given(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_given(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else value

"""Protobuf schemas. `protoc`, Google's own compiler, decides whether a text is one (`odradek/schemas/protoc.py`).

Clients register the text of a .proto file, or (Python's) its descriptor in base64. A text is kept as it is, a
descriptor as text. Two schemas are the same if their descriptors and comments are. Imports are references by name.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from broker.registry.errors import Code, RegistryError, invalid_schema
from broker.registry.formats.parsed import Given, Needed, Work
from broker.registry.formats.protobuf_rules import Files, differences
from broker.registry.formats.protobuf_text import CannotWriteError, text_of
from odradek.schemas.errors import MissingLibraryError, SchemaError
from odradek.schemas.protoc import MAIN, compile_text

SERIALIZED = "serialized"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """See `parsed.Parsed`."""

    text: str
    file: FileDescriptorProto
    comments: tuple[str, ...]
    files: Files

    @property
    def meaning(self) -> str:
        """See `parsed.Parsed`."""
        content = self.file.SerializeToString(deterministic=True)
        return "\n".join((base64.b64encode(content).decode(), *self.comments))

    def normalized(self) -> str:
        try:
            return text_of(self.file, in_order=True)
        except CannotWriteError:
            return self.text

    def formatted(self, name: str) -> str:
        return base64.b64encode(self.file.SerializeToString()).decode() if name == SERIALIZED else self.text

    def problems(self, writer: ProtobufSchema, _policy: str, work: Work) -> list[str]:
        found = differences(writer.files, self.files, work)
        return list(dict.fromkeys(each.text for each in found if not each.kind.value.allowed))


def parse(given: Given) -> ProtobufSchema:
    """Raises RegistryError."""
    descriptor = _descriptor(given.text)
    if descriptor is None:
        return _compiled(given.text, given.needed)
    try:
        text = text_of(descriptor)
    except CannotWriteError as error:
        raise invalid_schema(
            f"Invalid schema of type PROTOBUF: the descriptor has {error}, for which its .proto text is needed"
        ) from error
    return _compiled(text, given.needed)


def _descriptor(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is in base64; None if it is none."""
    packed = "".join(text.split())
    if not _BASE64.fullmatch(packed):
        return None
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(packed))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise invalid_schema(
            "Invalid schema of type PROTOBUF: neither a .proto file nor a descriptor in base64"
        ) from error
    return found


def _compiled(text: str, needed: Iterable[Needed]) -> ProtobufSchema:
    try:
        compiled = compile_text(text, {each.name: _text_of(each) for each in needed})
    except MissingLibraryError as error:
        raise RegistryError(Code.STORE_ERROR, str(error)) from error
    except SchemaError as error:
        raise invalid_schema(str(error)) from error
    found = FileDescriptorSet.FromString(compiled)
    *imported, main = found.file
    comments = tuple(
        part.strip()
        for location in main.source_code_info.location
        for part in (*location.leading_detached_comments, location.leading_comments, location.trailing_comments)
        if part.strip()
    )
    for file in found.file:
        _clean(file)
    return ProtobufSchema(text, main, comments, Files(main, imported))


def _text_of(needed: Needed) -> str:
    descriptor = _descriptor(needed.text)
    return needed.text if descriptor is None else text_of(descriptor)


def _clean(file: FileDescriptorProto) -> None:
    """Leave out what says nothing: comments and places in the text, and names in JSON that follow from others."""
    file.ClearField("source_code_info")
    file.name = "" if file.name == MAIN else file.name
    rest = [*file.message_type]
    while rest:
        message = rest.pop()
        rest += message.nested_type
        for field in (*message.field, *message.extension):
            if field.json_name == _json_name(field.name):
                field.ClearField("json_name")


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)

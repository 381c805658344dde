"""The text of a .proto file from its descriptor, for schemas that come as descriptors, and for `normalize`.

What it cannot write, options that only extensions know, is an error: such a schema is kept as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.unknown_fields import UnknownFieldSet

_LARGEST_FIELD = 1 << 29


class CannotWriteError(Exception):
    """The descriptor has something that has no text here."""


def text_of(file: FileDescriptorProto, *, in_order: bool = False) -> str:
    """The text; `in_order` sorts what has no order. Raises CannotWriteError."""
    return "\n".join(_Writer(file, in_order).lines()) + "\n"


class _Writer:
    def __init__(self, file: FileDescriptorProto, in_order: bool) -> None:
        if file.syntax not in ("", "proto2", "proto3"):
            raise CannotWriteError(f"syntax {file.syntax}")
        self._file = file
        self._in_order = in_order
        self._is_3 = file.syntax == "proto3"

    def lines(self) -> Iterator[str]:
        file = self._file
        yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        imports = [
            f'import {"public " if at in file.public_dependency else ""}"{name}";'
            for at, name in enumerate(file.dependency)
        ]
        if imports:
            yield ""
            yield from self._ordered(imports)
        options = [f"option {option};" for option in _options(file.options)]
        if options:
            yield ""
            yield from self._ordered(options)
        for message in self._named(file.message_type):
            yield ""
            yield from self._message(message, "")
        for enum in self._named(file.enum_type):
            yield ""
            yield from self._enum(enum, "")
        yield from self._extensions(file.extension, "")
        for service in self._named(file.service):
            yield ""
            yield from self._service(service)

    def _ordered(self, lines: list[str]) -> list[str]:
        return sorted(lines) if self._in_order else lines

    def _named(self, parts: Iterable[Any]) -> list[Any]:
        return sorted(parts, key=lambda part: part.name) if self._in_order else list(parts)

    def _message(self, message: DescriptorProto, indent: str, word: str = "message") -> Iterator[str]:
        yield f"{indent}{word} {message.name} {{"
        yield from self._body(message, indent + "  ")
        yield f"{indent}}}"

    def _body(self, message: DescriptorProto, inner: str) -> Iterator[str]:
        for option in self._ordered(list(_options(message.options))):
            yield f"{inner}option {option};"
        yield from _reserved(message, inner)
        groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == Field.TYPE_GROUP}
        if groups:
            raise CannotWriteError("a group")
        maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        written: set[int] = set()
        fields = sorted(message.field, key=lambda field: field.number) if self._in_order else message.field
        for field in fields:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield f"{inner}{self._field(field, maps)}"
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                yield f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{"
                for option in _options(message.oneof_decl[field.oneof_index].options):
                    yield f"{inner}  option {option};"
                members = [each for each in fields if each.HasField("oneof_index") and not each.proto3_optional]
                for each in members:
                    if each.oneof_index == field.oneof_index:
                        yield f"{inner}  {self._field(each, maps, in_oneof=True)}"
                yield f"{inner}}}"
        for span in message.extension_range:
            yield f"{inner}extensions {_span(span.start, span.end, _LARGEST_FIELD)};"
        yield from self._extensions(message.extension, inner)
        for nested in self._named(message.nested_type):
            if not nested.options.map_entry:
                yield from self._message(nested, inner)
        for enum in self._named(message.enum_type):
            yield from self._enum(enum, inner)

    def _field(self, field: Field, maps: dict[str, DescriptorProto], *, in_oneof: bool = False) -> str:
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == Field.TYPE_MESSAGE else None
        if entry is not None and field.label == Field.LABEL_REPEATED:
            kind = f"map<{_type(entry.field[0])}, {_type(entry.field[1])}>"
        else:
            kind = f"{'' if in_oneof else self._label(field)}{_type(field)}"
        options = list(_options(field.options))
        if field.HasField("default_value"):
            options.append(f"default = {_default(field)}")
        if field.json_name and field.json_name != _json_name(field.name):
            options.append(f'json_name = "{_escaped(field.json_name)}"')
        listed = f" [{', '.join(self._ordered(options))}]" if options else ""
        return f"{kind} {field.name} = {field.number}{listed};"

    def _label(self, field: Field) -> str:
        if field.label == Field.LABEL_REPEATED:
            return "repeated "
        if field.label == Field.LABEL_REQUIRED:
            return "required "
        return "optional " if field.proto3_optional or not self._is_3 else ""

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        inner = indent + "  "
        yield f"{indent}enum {enum.name} {{"
        for option in self._ordered(list(_options(enum.options))):
            yield f"{inner}option {option};"
        for span in enum.reserved_range:
            yield f"{inner}reserved {_span(span.start, span.end + 1, 1 << 31)};"
        for name in enum.reserved_name:
            yield f'{inner}reserved "{name}";'
        for value in enum.value:
            options = ", ".join(_options(value.options))
            yield f"{inner}{value.name} = {value.number}{f' [{options}]' if options else ''};"
        yield f"{indent}}}"

    def _extensions(self, extensions: Iterable[Field], indent: str) -> Iterator[str]:
        for field in extensions:
            yield f"{indent}extend {field.extendee} {{"
            yield f"{indent}  {self._field(field, {})}"
            yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        for option in _options(service.options):
            yield f"  option {option};"
        for method in self._named(service.method):
            takes = f"({'stream ' if method.client_streaming else ''}{method.input_type})"
            gives = f"({'stream ' if method.server_streaming else ''}{method.output_type})"
            options = " ".join(f"option {option};" for option in _options(method.options))
            yield f"  rpc {method.name} {takes} returns {gives}{f' {{ {options} }}' if options else ';'}"
        yield "}"


def _reserved(message: DescriptorProto, indent: str) -> Iterator[str]:
    for span in message.reserved_range:
        yield f"{indent}reserved {_span(span.start, span.end, _LARGEST_FIELD)};"
    for name in message.reserved_name:
        yield f'{indent}reserved "{name}";'


def _span(start: int, end: int, largest: int) -> str:
    """A range whose end does not belong to it."""
    if end >= largest:
        return f"{start} to max"
    return str(start) if end == start + 1 else f"{start} to {end - 1}"


def _type(field: Field) -> str:
    if field.type in (Field.TYPE_MESSAGE, Field.TYPE_ENUM):
        return str(field.type_name)
    return str(Field.Type.Name(field.type).removeprefix("TYPE_").lower())


def _default(field: Field) -> str:
    if field.type == Field.TYPE_STRING:
        return f'"{_escaped(field.default_value)}"'
    return f'"{field.default_value}"' if field.type == Field.TYPE_BYTES else str(field.default_value)


def _options(options: Any) -> Iterator[str]:
    if len(UnknownFieldSet(options)):
        raise CannotWriteError("an option of an extension")
    for field, value in options.ListFields():
        if field.name == "map_entry":
            continue
        if field.message_type is not None or field.is_extension:
            raise CannotWriteError(f"option {field.name}")
        for each in value if field.is_repeated else (value,):
            yield f"{field.name} = {_option_value(field, each)}"


def _option_value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{_escaped(value)}"' if isinstance(value, str) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)

"""Each difference between two Protobuf files, and whether bytes of the earlier one can be read by the later one.

The names and the judgement are Confluent's (`protobuf.diff.SchemaDiff`). Fields are known by their numbers, messages
and enums by their names. What is compared of a field's type is how it is written: numbers of variable length (with bool
and enums) are of one kind, and so are strings and bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum, unique
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from broker.registry.formats.parsed import Work


class Rule(NamedTuple):
    allowed: bool
    text: str


@unique
class Kind(Enum):
    """The rules, by Confluent's names."""

    PACKAGE_CHANGED = Rule(False, "the package is another")
    MESSAGE_ADDED = Rule(True, "the message is new")
    MESSAGE_REMOVED = Rule(False, "the message is gone")
    MESSAGE_MOVED = Rule(True, "the message is at another place, so the indexes in front of records change")
    ENUM_ADDED = Rule(True, "the enum is new")
    ENUM_REMOVED = Rule(True, "the enum is gone")
    ENUM_CONST_ADDED = Rule(True, "the constant is new")
    ENUM_CONST_CHANGED = Rule(True, "the constant has another name")
    ENUM_CONST_REMOVED = Rule(True, "the constant is gone")
    FIELD_ADDED = Rule(True, "the field is new")
    FIELD_REMOVED = Rule(True, "the field is gone")
    FIELD_NAME_CHANGED = Rule(True, "the field has another name")
    FIELD_KIND_CHANGED = Rule(False, "the field was a message, a map or a scalar, and is another of these")
    FIELD_SCALAR_KIND_CHANGED = Rule(False, "the field has a type that is written in another way")
    FIELD_NAMED_TYPE_CHANGED = Rule(False, "the field's message is another, or has changed in what it may not")
    FIELD_NUMERIC_LABEL_CHANGED = Rule(False, "the number is repeated now, or not any more")
    FIELD_STRING_OR_BYTES_LABEL_CHANGED = Rule(True, "the text is repeated now, or not any more")
    REQUIRED_FIELD_ADDED = Rule(False, "a required field is new")
    REQUIRED_FIELD_REMOVED = Rule(False, "a required field is gone")
    ONEOF_ADDED = Rule(True, "the oneof is new")
    ONEOF_REMOVED = Rule(True, "the oneof is gone")
    ONEOF_FIELD_ADDED = Rule(True, "a field of the oneof is new")
    ONEOF_FIELD_REMOVED = Rule(False, "a field of the oneof is gone")
    ONEOF_FIELD_MOVED_TO_TOP_LEVEL = Rule(True, "a field has left its oneof")
    MULTIPLE_FIELDS_MOVED_TO_ONEOF = Rule(False, "several fields are in a oneof now")
    FIELD_MOVED_TO_EXISTING_ONEOF = Rule(False, "a field is in a oneof that was there before")


class Difference(NamedTuple):
    """`path` is where it is: names of messages, oneofs and enums, and numbers of fields."""

    kind: Kind
    path: str

    @property
    def text(self) -> str:
        return f'{{errorType:"{self.kind.name}", description:"at \'#{self.path}\': {self.kind.value.text}"}}'


_SCALARS: Mapping[int, str] = {
    **dict.fromkeys(
        (Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_UINT32, Field.TYPE_UINT64, Field.TYPE_BOOL, Field.TYPE_ENUM),
        "number",
    ),
    **dict.fromkeys((Field.TYPE_SINT32, Field.TYPE_SINT64), "signed number"),
    **dict.fromkeys((Field.TYPE_STRING, Field.TYPE_BYTES), "text"),
    **dict.fromkeys((Field.TYPE_FIXED32, Field.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((Field.TYPE_FIXED64, Field.TYPE_SFIXED64), "fixed64"),
    Field.TYPE_FLOAT: "float",
    Field.TYPE_DOUBLE: "double",
}
"""How each scalar is written."""


class Files:
    """A file with those that it imports; `message` finds a type by the name that fields have."""

    def __init__(self, main: FileDescriptorProto, imported: Iterable[FileDescriptorProto]) -> None:
        self.main = main
        self._messages: dict[str, tuple[DescriptorProto, str]] = {}
        for file in (*imported, main):
            prefix = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._add(message, prefix, file.package)

    def _add(self, message: DescriptorProto, prefix: str, package: str) -> None:
        name = f"{prefix}.{message.name}"
        self._messages[name] = message, package
        for nested in message.nested_type:
            self._add(nested, name, package)

    def message(self, name: str) -> DescriptorProto | None:
        found = self._messages.get(name)
        return None if found is None else found[0]

    def local_name(self, name: str) -> str:
        """The name within its package."""
        found = self._messages.get(name)
        package = "" if found is None else found[1]
        return name.removeprefix(f".{package}.") if package else name.removeprefix(".")


def differences(earlier: Files, later: Files, work: Work) -> list[Difference]:
    """All differences, allowed or not. Raises RegistryError if there is too much to compare."""
    comparison = _Comparison(earlier, later, work)
    found = []
    if earlier.main.package != later.main.package:
        found.append(Difference(Kind.PACKAGE_CHANGED, "/"))
    return [*found, *comparison.types(earlier.main, later.main, "")]


class _Comparison:
    def __init__(self, earlier: Files, later: Files, work: Work) -> None:
        self._earlier, self._later = earlier, later
        self._spend = work.spend
        self._seen: dict[tuple[int, int], list[Difference]] = {}

    def types(self, earlier: Any, later: Any, path: str) -> Iterator[Difference]:
        """Of the messages and enums in a file or a message."""
        before, after = _messages(earlier), _messages(later)
        places, new_places = ({name: at for at, name in enumerate(named)} for named in (before, after))
        for name in dict.fromkeys([*before, *after]):
            inner = f"{path}/{name}"
            if name not in after:
                yield from () if before[name].options.map_entry else (Difference(Kind.MESSAGE_REMOVED, inner),)
            elif name not in before:
                yield from () if after[name].options.map_entry else (Difference(Kind.MESSAGE_ADDED, inner),)
            else:
                yield from self._message(before[name], after[name], inner)
                if places[name] != new_places[name]:
                    yield Difference(Kind.MESSAGE_MOVED, inner)
        yield from _enums(earlier.enum_type, later.enum_type, path)

    def _message(self, earlier: DescriptorProto, later: DescriptorProto, path: str) -> list[Difference]:
        """Of two messages; nothing for those that are being compared already."""
        pair = id(earlier), id(later)
        if pair not in self._seen:
            self._seen[pair] = []
            self._spend(1 + len(earlier.field) + len(later.field))
            relative = [*self._fields(earlier, later), *self.types(earlier, later, "")]
            self._seen[pair] = relative
        return [Difference(kind, path + rest) for kind, rest in self._seen[pair]]

    def _fields(self, earlier: DescriptorProto, later: DescriptorProto) -> Iterator[Difference]:
        before, after = ({field.number: field for field in message.field} for message in (earlier, later))
        oneof, new_oneof = _oneofs(earlier), _oneofs(later)
        yield from _moves(before, oneof, new_oneof)
        names, new_names = set(oneof.values()), set(new_oneof.values())
        yield from (Difference(Kind.ONEOF_REMOVED, f"/{name}") for name in sorted(names - new_names))
        yield from (Difference(Kind.ONEOF_ADDED, f"/{name}") for name in sorted(new_names - names))
        living = new_names | {name for number, name in oneof.items() if number in after}
        for number in sorted({*before, *after}):
            if number not in after:
                yield from _removed(before[number], oneof, living)
            elif number not in before:
                yield _added(after[number], new_oneof)
            else:
                place = f"/{new_oneof[number]}/{number}" if number in new_oneof else f"/{number}"
                if number in oneof and number not in new_oneof:
                    yield Difference(Kind.ONEOF_FIELD_MOVED_TO_TOP_LEVEL, place)
                yield from self._field(before[number], after[number], place)

    def _field(self, earlier: Field, later: Field, path: str) -> Iterator[Difference]:
        if earlier.name != later.name:
            yield Difference(Kind.FIELD_NAME_CHANGED, path)
        yield from self._type(earlier, later, path, with_label=True)

    def _type(self, earlier: Field, later: Field, path: str, *, with_label: bool) -> Iterator[Difference]:
        entry, new_entry = self._map_entry(self._earlier, earlier), self._map_entry(self._later, later)
        kinds = [
            "map" if map_entry is not None else "scalar" if field.type in _SCALARS else "message"
            for field, map_entry in ((earlier, entry), (later, new_entry))
        ]
        if kinds[0] != kinds[1]:
            yield Difference(Kind.FIELD_KIND_CHANGED, path)
        elif entry is not None and new_entry is not None:
            for at in (0, 1):  # its key and its value
                yield from self._type(entry.field[at], new_entry.field[at], path, with_label=False)
        elif kinds[0] == "scalar":
            yield from self._scalar(earlier, later, path, with_label)
        else:
            yield from self._named(earlier.type_name, later.type_name, path)

    def _map_entry(self, files: Files, field: Field) -> DescriptorProto | None:
        found = files.message(field.type_name) if field.type == Field.TYPE_MESSAGE else None
        return found if found is not None and found.options.map_entry else None

    def _scalar(self, earlier: Field, later: Field, path: str, with_label: bool) -> Iterator[Difference]:
        kind = _SCALARS[earlier.type]
        if kind != _SCALARS[later.type]:
            yield Difference(Kind.FIELD_SCALAR_KIND_CHANGED, path)
            return
        label, new_label = (
            _label(files.main, field) for files, field in ((self._earlier, earlier), (self._later, later))
        )
        if with_label and label is not None and new_label is not None and label != new_label:
            is_text = kind == "text"
            yield Difference(
                Kind.FIELD_STRING_OR_BYTES_LABEL_CHANGED if is_text else Kind.FIELD_NUMERIC_LABEL_CHANGED, path
            )

    def _named(self, name: str, new_name: str, path: str) -> Iterator[Difference]:
        before, after = self._earlier.message(name), self._later.message(new_name)
        if before is None or after is None or self._earlier.local_name(name) != self._later.local_name(new_name):
            if before is not None or after is not None or name != new_name:
                yield Difference(Kind.FIELD_NAMED_TYPE_CHANGED, path)
            return
        found = self._message(before, after, path)
        yield from found
        if not all(each.kind.value.allowed for each in found):
            yield Difference(Kind.FIELD_NAMED_TYPE_CHANGED, path)


def _messages(of: Any) -> dict[str, DescriptorProto]:
    found = of.message_type if isinstance(of, FileDescriptorProto) else of.nested_type
    return {message.name: message for message in found}


def _oneofs(message: DescriptorProto) -> dict[int, str]:
    """The oneof of each field that is in one; `optional` fields of proto3 are in none that anybody wrote."""
    return {
        field.number: message.oneof_decl[field.oneof_index].name
        for field in message.field
        if field.HasField("oneof_index") and not field.proto3_optional
    }


def _label(file: FileDescriptorProto, field: Field) -> int | None:
    """The label that is written; None where none need be."""
    if field.label == Field.LABEL_OPTIONAL and file.syntax not in ("", "proto2") and not field.proto3_optional:
        return None
    return int(field.label)


def _moves(before: Mapping[int, Field], oneof: Mapping[int, str], new_oneof: Mapping[int, str]) -> Iterator[Difference]:
    """Fields that are in a oneof with others now, and were not."""
    members: dict[str, list[int]] = {}
    for number, name in new_oneof.items():
        if number in before:
            members.setdefault(name, []).append(number)
    for name, numbers in members.items():
        free = [number for number in numbers if number not in oneof]
        origins = len({oneof[number] for number in numbers if number in oneof}) + len(free)
        if origins > 1:
            several = len(free) > 1
            kind = Kind.MULTIPLE_FIELDS_MOVED_TO_ONEOF if several else Kind.FIELD_MOVED_TO_EXISTING_ONEOF
            yield Difference(kind, f"/{name}")


def _removed(field: Field, oneof: Mapping[int, str], living: Collection[str]) -> Iterator[Difference]:
    """`living` are the oneofs of which something is left."""
    number, name = field.number, oneof.get(field.number)
    if name is None:
        is_required = field.label == Field.LABEL_REQUIRED
        yield Difference(Kind.REQUIRED_FIELD_REMOVED if is_required else Kind.FIELD_REMOVED, f"/{number}")
    elif name in living:
        yield Difference(Kind.ONEOF_FIELD_REMOVED, f"/{name}/{number}")
    # else the whole oneof is gone, as any optional field may be


def _added(field: Field, new_oneof: Mapping[int, str]) -> Difference:
    if field.number in new_oneof:
        return Difference(Kind.ONEOF_FIELD_ADDED, f"/{new_oneof[field.number]}/{field.number}")
    is_required = field.label == Field.LABEL_REQUIRED
    return Difference(Kind.REQUIRED_FIELD_ADDED if is_required else Kind.FIELD_ADDED, f"/{field.number}")


def _enums(
    earlier: Iterable[EnumDescriptorProto], later: Iterable[EnumDescriptorProto], path: str
) -> Iterator[Difference]:
    before, after = ({enum.name: enum for enum in enums} for enums in (earlier, later))
    for name in dict.fromkeys([*before, *after]):
        inner = f"{path}/{name}"
        if name not in after:
            yield Difference(Kind.ENUM_REMOVED, inner)
        elif name not in before:
            yield Difference(Kind.ENUM_ADDED, inner)
        else:
            yield from _constants(before[name], after[name], inner)


def _constants(earlier: EnumDescriptorProto, later: EnumDescriptorProto, path: str) -> Iterator[Difference]:
    before, after = ({value.number: value.name for value in enum.value} for enum in (earlier, later))
    for number in sorted({*before, *after}):
        if number not in after:
            yield Difference(Kind.ENUM_CONST_REMOVED, f"{path}/{number}")
        elif number not in before:
            yield Difference(Kind.ENUM_CONST_ADDED, f"{path}/{number}")
        elif before[number] != after[number]:
            yield Difference(Kind.ENUM_CONST_CHANGED, f"{path}/{number}")

"""Protobuf schemas. `protoc`, Google's own compiler, decides whether a text is one, in a process of its own.

Another parser would have to be right about all that protoc knows; and what strangers write cannot harm this process or
keep it busy, as the compiler's time and memory are bounded. It takes some milliseconds for each new text.

Clients register the text of a .proto file, or (Python's) its descriptor in base64. A text is kept as it is, a
descriptor as text. Two schemas are the same if their descriptors and comments are. Imports are references by name;
Google's types (`google/protobuf/*.proto`) and Confluent's (`confluent/*.proto`) are always there.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from broker.registry.errors import Code, RegistryError, invalid_schema
from broker.registry.formats.parsed import Given, Needed, Work
from broker.registry.formats.protobuf_rules import Files, differences
from broker.registry.formats.protobuf_text import CannotWriteError, text_of

SERIALIZED = "serialized"
MAIN = "odradek-registered-schema.proto"
CPU_S, WAIT_S, MEMORY = 5, 20, 1 << 30
"""What the compiler may use for a schema."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_NAME = re.compile(r"[A-Za-z0-9_.@+-]+(?:/[A-Za-z0-9_.@+-]+)*")

_KNOWN = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
}
extend google.protobuf.FileOptions { optional Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { optional Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { optional Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { optional Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { optional Meta enum_value_meta = 1088; }
""",
    "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
}
"""Files of Confluent's that schemas import without a reference."""


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
    with tempfile.TemporaryDirectory(prefix="odradek-proto-") as folder:
        sources = {**_KNOWN, **{each.name: _text_of(each) for each in needed}, MAIN: text}  # none can take its place
        for name, source in sources.items():
            _write(Path(folder), name, source)
        found = _run(folder)
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


def _write(folder: Path, name: str, source: str) -> None:
    """Write a file for the compiler; its name is a stranger's."""
    if not _NAME.fullmatch(name) or ".." in name.split("/") or "." in name.split("/") or len(name) > 1000:
        raise invalid_schema(f"Invalid schema of type PROTOBUF: a reference cannot have the name {name[:200]!r}")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8", errors="replace")
    except OSError as error:  # such as a name that is a folder for another one
        raise invalid_schema(f"Invalid schema of type PROTOBUF: reference {name[:200]!r}: {error.strerror}") from error


def _run(folder: str) -> FileDescriptorSet:
    compiler, include = _compiler()
    out = os.path.join(folder, ".out")
    command = [compiler, f"--proto_path={folder}", *([f"--proto_path={include}"] if include else ())]
    command += ["--include_imports", "--include_source_info", f"--descriptor_set_out={out}", MAIN]
    running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={})
    _bound(running.pid)
    try:
        _, errors = running.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired as error:
        running.kill()
        running.communicate()
        raise invalid_schema("The schema is too complex: the compiler did not end in time") from error
    if running.returncode:
        said = errors.decode(errors="replace").replace(f"{folder}/", "").strip()[:1000]
        said = said or f"the compiler failed ({running.returncode})"
        raise invalid_schema(f"Invalid schema of type PROTOBUF, details: {said}")
    return FileDescriptorSet.FromString(Path(out).read_bytes())


def _bound(process: int) -> None:
    """Bound what the compiler may use, where the system can do that for another process."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            resource.prlimit(process, resource.RLIMIT_CPU, (CPU_S, CPU_S))
            resource.prlimit(process, resource.RLIMIT_AS, (MEMORY, MEMORY))


def _compiler() -> tuple[str, str | None]:
    """The compiler, that of the extra or of the machine, and where Google's files are. Raises RegistryError."""
    try:
        import protoc
    except ImportError:
        found = shutil.which("protoc")
        if found is None:
            raise RegistryError(
                Code.STORE_ERROR, "PROTOBUF needs protoc, which is not here: pip install '/path/to/odradek[registry]'"
            ) from None
        return found, None
    folder = Path(protoc.__file__).parent / "data"
    return str(folder / "bin" / "protoc"), str(folder / "include")


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

"""Protobuf's compiler, in a process of its own.

Another parser would have to be right about all that protoc knows; and what strangers write cannot harm this process or
keep it busy, as the compiler's time and memory are bounded. It takes some milliseconds for each text. Google's types
(`google/protobuf/*.proto`) and Confluent's (`confluent/*.proto`) are always there.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .errors import MissingLibraryError, SchemaError

MAIN = "odradek-registered-schema.proto"
"""The name of the file that is compiled."""

CPU_S, WAIT_S, MEMORY = 5, 20, 1 << 30
"""What the compiler may use for a schema."""

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


def compile_text(text: str, imports: Mapping[str, str]) -> bytes:
    """A FileDescriptorSet of the text and of all that it imports, with comments; the last file is the text's.

    `imports` are texts by name. Raises SchemaError.
    """
    with tempfile.TemporaryDirectory(prefix="odradek-proto-") as folder:
        sources = {**_KNOWN, **imports, MAIN: text}  # none can take its place
        for name, source in sources.items():
            _write(Path(folder), name, source)
        return _run(folder)


def _write(folder: Path, name: str, source: str) -> None:
    """Write a file for the compiler; its name is a stranger's."""
    if not _NAME.fullmatch(name) or ".." in name.split("/") or "." in name.split("/") or len(name) > 1000:
        raise SchemaError(f"Invalid schema of type PROTOBUF: a reference cannot have the name {name[:200]!r}")
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8", errors="replace")
    except OSError as error:  # such as a name that is a folder for another one
        raise SchemaError(f"Invalid schema of type PROTOBUF: reference {name[:200]!r}: {error.strerror}") from error


def _run(folder: str) -> bytes:
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
        raise SchemaError("The schema is too complex: the compiler did not end in time") from error
    if running.returncode:
        said = errors.decode(errors="replace").replace(f"{folder}/", "").strip()[:1000]
        said = said or f"the compiler failed ({running.returncode})"
        raise SchemaError(f"Invalid schema of type PROTOBUF, details: {said}")
    return Path(out).read_bytes()


def _bound(process: int) -> None:
    """Bound what the compiler may use, where the system can do that for another process."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            resource.prlimit(process, resource.RLIMIT_CPU, (CPU_S, CPU_S))
            resource.prlimit(process, resource.RLIMIT_AS, (MEMORY, MEMORY))


def _compiler() -> tuple[str, str | None]:
    """The compiler, that of the extra or of the machine, and where Google's files are. Raises MissingLibraryError."""
    try:
        import protoc
    except ImportError:
        found = shutil.which("protoc")
        if found is None:
            raise MissingLibraryError("Protobuf (protoc)") from None
        return found, None
    folder = Path(protoc.__file__).parent / "data"
    return str(folder / "bin" / "protoc"), str(folder / "include")

"""A schema in a file: `avro:@FILE`. A .proto file comes with those beside it that it imports."""

from __future__ import annotations

import re
from pathlib import Path

from .errors import SchemaError
from .lookup import PROTOBUF, Source

IMPORT = re.compile(r"""^\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""", re.MULTILINE)


def source_of_file(kind: str, file: str) -> Source:
    """Raises SchemaError."""
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8-sig")
        needed: dict[str, str] = {}
        if kind == PROTOBUF:
            _import(path.parent, text, needed)
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(str(error)) from error
    return Source(kind, text, needed)


def _import(folder: Path, text: str, needed: dict[str, str]) -> None:
    """Add what is imported, as far as it is in the folder; of the rest, the compiler tells what it does not know."""
    for name in IMPORT.findall(text):
        if name not in needed and (folder / name).is_file():
            needed[name] = (folder / name).read_text(encoding="utf-8-sig")
            _import(folder, needed[name], needed)

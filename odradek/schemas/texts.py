"""Texts of a registry for people: schemas laid out, and why one may not follow another."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from .lookup import PROTOBUF

_PART = re.compile(r"\{(\w+): ?(?:'(.*)'|\"(.*)\"|(.*))\}", re.DOTALL)
_LEVEL = re.compile(r"\bcompatibility: ?['\"]?(\w+)")
_ERROR = re.compile(
    r"\{errorType:(['\"])(\w[\w, ]*)\1, ?description:(['\"])(.*?)\3(?:, ?additionalInfo:.*)?\}", re.DOTALL
)


def readable(messages: Sequence[str]) -> list[str]:
    """What a registry says of two schemas, as sentences: which rule, and where; the text of the other schema is not."""
    found = []
    for message in messages:
        error, part = _ERROR.fullmatch(message), _PART.fullmatch(message)
        if error is not None:
            found.append(f"{error[2]}: {error[4]}")
        elif part is not None and part[1] == "oldSchemaVersion":
            found.append(f"compared with version {part[2] or part[3] or part[4]}")
        elif part is not None and (level := _LEVEL.search(message)):
            found.append(f"the level is {level[1]}")
        elif part is None or part[1] != "oldSchema":
            found.append(message)
    return found


def laid_out(kind: str, text: str) -> str:
    """The text of a schema for people: JSON over several lines, unless that would write a number in another way."""
    if kind == PROTOBUF:
        return text.rstrip("\n")
    try:
        return json.dumps(
            json.loads(text, parse_float=_as_it_is, parse_constant=_as_it_is), indent=2, ensure_ascii=False
        )
    except (ValueError, RecursionError):
        return text


def _as_it_is(text: str) -> float:
    raise ValueError(text)

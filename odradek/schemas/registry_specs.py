"""Which schemas of a registry or of a file keys or values have: the words of `--schema TOPIC=avro`, `--value avro`.

`avro`, `jsonschema` or `protobuf` alone: each record names its schema, by the id in front of it or the GUID in a
header. `:latest` is the latest version of a subject and `:@FILE` a file; records then have nothing in front. After the
first two may come `:subject=NAME` (default: TOPIC-value or TOPIC-key). `protobuf:message=NAME` is another message than
the first one of a schema, and may have `:latest` or `:@FILE` behind it. What is written may have a schema by `:id=N`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .lookup import AVRO, JSON, PROTOBUF

VALUE, KEY = "value", "key"
KINDS = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}
"""The registry's names for what may be asked for."""

LATEST = "latest"
FORMS = "avro, jsonschema or protobuf, each alone or with :latest, :@FILE, :subject=NAME; protobuf also :message=NAME"
_OPTION = re.compile(r"(?:^|:)(?=(?:subject|message|id)=)")


@dataclass(frozen=True, slots=True)
class RegisteredSpec:
    """`latest` false and `file` empty: by the id in each record. `subject` empty: named by the topic.

    `message` empty: the first one of a schema.
    """

    kind: str
    latest: bool = False
    file: str = ""
    subject: str = ""
    message: str = ""
    id: int | None = None

    @property
    def by_id(self) -> bool:
        return not self.latest and not self.file

    def subject_of(self, topic: str, side: str) -> str:
        return self.subject or f"{topic}-{side}"


def parse(text: str, *, with_id: bool = False) -> RegisteredSpec | None:
    """None for a text that begins with none of the kinds. Raises ValueError for another form.

    `with_id`: it may name a schema by its id.
    """
    name, colon, rest = text.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        return None
    first, *options = _OPTION.split(rest) if rest else [""]
    given: dict[str, Any] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key == "message":
            value, behind, after = value.partition(":")
            if behind and (first or not after):
                raise ValueError(FORMS)
            first = after or first
        if not value or key in given:
            raise ValueError(FORMS)
        given[key] = value
    file = first[1:].strip() if first.startswith("@") else ""
    if (colon and not rest) or not (first in ("", LATEST) or file):
        raise ValueError(FORMS)
    if file and ("subject" in given or "id" in given):
        raise ValueError("a file has no subject and no id")
    if "id" in given:
        if not with_id or first or not given["id"].isascii() or not given["id"].isdecimal():
            raise ValueError(FORMS)
        given["id"] = int(given["id"])
    if "message" in given and kind != PROTOBUF:
        raise ValueError("only protobuf has messages")
    return RegisteredSpec(kind, first == LATEST, file, **given)

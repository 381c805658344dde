"""The records of `_schemas`, as Confluent's registry writes them: JSON as key and as value.

The order of a key's fields matters, as the topic is compacted by the bytes of its keys. A value keeps the fields that
are not known here: what is written again has all that was read.

| keytype        | value                                                                     |
| -------------- | ------------------------------------------------------------------------- |
| SCHEMA         | a version of a subject, with `deleted` after a soft delete; null: gone    |
| DELETE_SUBJECT | the versions up to this one are soft-deleted                              |
| CLEAR_SUBJECT  | the soft-deleted versions of the subject, or of the context, are gone     |
| CONFIG, MODE   | of a subject, a context, or without a subject of everything; null: unset  |
| CONTEXT        | there is this context                                                     |
| NOOP           | nothing; ours may have `maxIds`, which Confluent's registry does not read |

The largest id of each context that was ever given is in `maxIds`: it is written when the last version with an id is
removed for good, since no other record would keep that id from being given again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

AVRO = "AVRO"
LARGEST = (1 << 31) - 1
MD5_BYTES = 16


class Reference(NamedTuple):
    """A schema that another one needs: by which name, and which version of which subject."""

    name: str
    subject: str
    version: int

    @property
    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A version of a subject. `value` is the record's, with what is not known here; `md5` identifies the content."""

    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: tuple[Reference, ...]
    is_deleted: bool
    md5: bytes
    value: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, int]:
        return self.subject, self.version

    @property
    def guid(self) -> str:
        return str(uuid.UUID(bytes=self.md5))


class Written(NamedTuple):
    """A record to write. Without a value, what it is about is gone."""

    key: dict[str, Any]
    value: dict[str, Any] | None

    @property
    def content(self) -> tuple[bytes, bytes | None]:
        """Key and value as bytes."""
        return packed(self.key), None if self.value is None else packed(self.value)


def packed(value: Any) -> bytes:
    """JSON without spaces, in UTF-8."""
    return compact(value).encode(errors="surrogatepass")


def compact(value: Any, *, in_order: bool = False) -> str:
    """JSON without spaces; with `in_order`, the names of each object in alphabetical order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=in_order)


def schema_record(
    subject: str,
    version: int,
    schema_id: int,
    kind: str,
    text: str,
    references: Iterable[Reference],
    more: Mapping[str, Any],
) -> Written:
    """A new version. `more` are the fields `metadata` and `ruleSet`, as far as they are given."""
    value: dict[str, Any] = {"subject": subject, "version": version, "id": schema_id}
    value |= {"md5": base64.b64encode(md5_of(text, references, more)).decode()}
    if kind != AVRO:
        value["schemaType"] = kind
    if listed := [reference.as_json for reference in references]:
        value["references"] = listed
    value |= {**more, "schema": text, "deleted": False}
    return Written(_schema_key(subject, version), value)


def soft_deleted(schema: Schema) -> Written:
    return Written(_schema_key(*schema.key), {**schema.value, "deleted": True})


def removed(schema: Schema) -> Written:
    return Written(_schema_key(*schema.key), None)


def _schema_key(subject: str, version: int) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


def subject_deleted(subject: str, version: int) -> Written:
    key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
    return Written(key, {"subject": subject, "version": version})


def subjects_cleared(subject: str | None) -> Written:
    return Written(
        {"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0}, {} if subject is None else {"subject": subject}
    )


def setting(keytype: str, subject: str | None, value: Mapping[str, Any] | None) -> Written:
    """A level or mode; `value` has what is in the record besides the subject."""
    named = {} if subject is None else {"subject": subject}
    return Written({"keytype": keytype, "subject": subject, "magic": 0}, None if value is None else {**named, **value})


def context_made(context: str) -> Written:
    key = {"keytype": "CONTEXT", "tenant": "default", "context": context, "magic": 0}
    return Written(key, {"tenant": "default", "context": context})


def highest_ids(by_context: Mapping[str, int]) -> Written:
    return Written({"keytype": "NOOP", "magic": 0}, {"maxIds": dict(by_context)})


def read_schema(key: Mapping[str, Any], value: Mapping[str, Any]) -> Schema:
    """The version of a record. Raises an exception of Python's if it is none."""
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    text, kind = value["schema"], value.get("schemaType") or AVRO
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError("schema and schemaType must be texts")
    if not all(isinstance(value.get(part), dict | None) for part in ("metadata", "ruleSet")):
        raise TypeError("metadata and ruleSet must be objects")
    md5 = base64.b64decode(value.get("md5") or "")
    return Schema(
        str(key["subject"]),
        int(key["version"]),
        checked_id(value["id"]),
        kind,
        text,
        references,
        bool(value.get("deleted")),
        md5 if len(md5) == MD5_BYTES else md5_of(text, references, value),
        value,
    )


def checked_id(given: Any) -> int:
    """Raises ValueError, TypeError."""
    found = int(given)
    if not 0 <= found <= LARGEST:
        raise ValueError(f"{found} is no id")
    return found


def md5_of(text: str, references: Iterable[Reference], more: Mapping[str, Any]) -> bytes:
    """What identifies a schema's content; as a UUID it is the schema's GUID (Confluent's `Schema.updateHash`)."""
    digest = hashlib.md5(text.encode(errors="surrogatepass"), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode() + subject.encode() + version.to_bytes(4, "big", signed=True))
    metadata, rules = more.get("metadata"), more.get("ruleSet")
    if metadata is not None:
        digest.update(b"\x01")
        _add_metadata(digest, metadata)
    if rules is not None:  # not in the order of Confluent's classes: such a schema has a GUID of its own here
        digest.update(b"\x01" + packed(rules))
    return digest.digest()


def _add_metadata(digest: Any, metadata: Mapping[str, Any]) -> None:
    for name, values in sorted((metadata.get("tags") or {}).items()):
        digest.update(str(name).encode() + b"".join(str(value).encode() for value in sorted(values)))
    for name, value in sorted((metadata.get("properties") or {}).items()):
        digest.update(str(name).encode() + str(value).encode())
    for name in sorted(metadata.get("sensitive") or ()):
        digest.update(str(name).encode())

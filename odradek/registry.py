"""A broker's schema registry in a test's hands: register and look up schemas, without a client; and break it.

It begins to listen when it is first asked for. Clients get its `url`; what is done here needs no user.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from odradek.control import Control
from odradek.faults import Drop, Fault

Given = str | os.PathLike[str] | Mapping[str, Any]
"""A schema: the path of a file, a text, or for Avro and JSON Schema a dict."""

References = Iterable[Mapping[str, Any]] | Mapping[str, str]
"""What a schema refers to: a subject by each name (its latest version), or dicts with name, subject and version."""

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
Call = Literal["register", "look_up", "get", "list", "check", "delete", "config", "mode"]

KINDS: Mapping[str, Kind] = {".avsc": "AVRO", ".avro": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
LATEST = -1


class Registry:
    """See above; `Broker.registry` and `Cluster.registry` make it.

    Where a `subject` is asked for, the name of a topic stands for the subject of its values: "orders" for
    "orders-value", unless the name ends with -value or -key.
    """

    def __init__(self, control: Callable[[], Control], begun: Callable[[list[str]], None] = lambda _urls: None) -> None:
        """`begun` is told the addresses."""
        self._control = control
        self._begun = begun

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    @property
    def url(self) -> str:
        """The address for clients, such as http://127.0.0.1:43627."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """The addresses; of a cluster, one for each broker."""
        found: list[str] = self._control().post("/registry")["urls"]
        self._begun(found)
        return found

    def register(
        self,
        subject: str,
        schema: Given,
        *,
        type: Kind | None = None,
        references: References = (),
        key: bool = False,
        normalize: bool = False,
    ) -> int:
        """Register a schema, and return its id; the same schema again has the same id.

        `schema` is the path of a file, a text or a dict. The type follows from the file's suffix (.avsc, .json, .proto)
        or from what the schema looks like. With `key` a topic's name stands for the subject of its keys.
        Raises ControlError if it is none, or not compatible with earlier versions; the message ends with the code.
        """
        body = _body(schema, type, references)
        answer = self._control().post(self._path(_subject(subject, key)), **body, normalize=normalize or None)
        found: int = answer["id"]
        return found

    def check(
        self, subject: str, schema: Given, *, type: Kind | None = None, references: References = (), key: bool = False
    ) -> list[str]:
        """Say why a schema may not follow the versions that there are; empty if it may."""
        path = f"{self._path(_subject(subject, key))}/check"
        answer = self._control().post(path, **_body(schema, type, references))
        return [] if answer["compatible"] else list(answer["messages"] or ["it is not compatible"])

    def get(self, subject: str, version: int | Literal["latest"] = "latest", *, key: bool = False) -> dict[str, Any]:
        """A version of a subject: subject, version, id, guid, schemaType, schema, references."""
        path = f"{self._path(_subject(subject, key))}/versions/{version}"
        found: dict[str, Any] = self._control().get(path)
        return found

    def schema(self, schema_id: int) -> dict[str, Any]:
        """A schema by its id: schema, schemaType, references."""
        found: dict[str, Any] = self._control().get(f"/registry/schemas/{schema_id}")
        return found

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        found: list[str] = self._control().get("/registry/subjects")["subjects"]
        return found

    def versions(self, subject: str, *, key: bool = False) -> list[int]:
        """The versions of a subject."""
        found: list[int] = self._control().get(self._path(_subject(subject, key)))["versions"]
        return found

    def compatibility(self, subject: str, *, key: bool = False) -> str:
        """The level that counts for a subject."""
        found: str = self._control().get(self._path(_subject(subject, key)))["compatibility"]
        return found

    def set_compatibility(self, level: str, subject: str | None = None, *, key: bool = False) -> None:
        """Set the level of a subject, or of all: NONE, BACKWARD, FORWARD, FULL, or one with _TRANSITIVE."""
        named = None if subject is None else _subject(subject, key)
        self._control().post("/registry/compatibility", subject=named, level=level)

    def delete(
        self, subject: str, version: int | None = None, *, permanent: bool = False, key: bool = False
    ) -> list[int]:
        """Delete a subject, or a version; return what was deleted. With `permanent` its ids are not found either."""
        path = self._path(_subject(subject, key))
        which = None if version is None else str(version)
        found: list[int] = self._control().delete(path, version=which, permanent=permanent or None)["versions"]
        return found

    def fault(
        self,
        call: Call | None = None,
        *,
        subject: str | None = None,
        error: int | None = None,
        delay: float | None = None,
        drop: Drop | bool | None = None,
        observe: bool | None = None,
        skip: int | None = None,
        count: int | None = None,
    ) -> Fault:
        """Set a fault: do something to what clients ask of the registry; what this class asks is spared.

        `call` is what they ask: "register", "look_up" (a schema's id), "get" (by id or version), "list", "check",
        "delete", "config", "mode"; None: anything. `subject` is the whole name. `error` answers with a status (503) or
        Confluent's code (50001), `delay` waits so many seconds first, `drop` loses the request (True) or the "reply"
        and closes the connection. `skip` requests are left alone first, then `count` are struck (None: all).
        """
        chosen = "request" if drop is True else drop or None
        values = {
            "call": call,
            "subject": subject,
            "error": error,
            "delay": delay,
            "drop": chosen,
            "observe": observe,
            "skip": skip,
            "count": count,
        }
        return Fault(self._control(), self._control().post("/registry/faults", **values))

    def _path(self, subject: str) -> str:
        return f"/registry/subjects/{quote(subject, safe='')}"


def _subject(name: str, key: bool) -> str:
    if not isinstance(name, str):
        raise TypeError(f"subject = {name!r}: expected a str")
    if name.endswith(("-value", "-key")) and not key:
        return str(name)
    return f"{name}-{'key' if key else 'value'}"


def _body(schema: Given, kind: Kind | None, references: References) -> dict[str, Any]:
    text, found = read_schema(schema)
    return {"schema": text, "type": kind or found, "references": _references(references) or None}


def read_schema(given: Given) -> tuple[str, Kind]:
    """The text of a schema, and its type. Raises OSError for a file that cannot be read, TypeError for no schema."""
    if isinstance(given, Mapping):
        return json.dumps(given), _kind(dict(given))
    if isinstance(given, os.PathLike) or (isinstance(given, str) and _is_path(given)):
        path = Path(given)
        text = path.read_text(encoding="utf-8")
        return text, KINDS.get(path.suffix.lower()) or _kind_of_text(text)
    if not isinstance(given, str):
        raise TypeError(f"schema = {given!r}: expected the path of a file, a text or a dict")
    return given, _kind_of_text(given)


def _is_path(text: str) -> bool:
    return text.lower().endswith(tuple(KINDS)) and not any(char in text for char in '\n{"')


def _kind_of_text(text: str) -> Kind:
    try:
        return _kind(json.loads(text))
    except ValueError:
        is_json = text.lstrip().startswith(("{", "[", '"'))  # with a mistake in it, which the registry will name
        return "PROTOBUF" if not is_json and ("{" in text or ";" in text) else "AVRO"  # "int" is one of Avro's types


def _kind(schema: Any) -> Kind:
    """Avro's types are never "object" or "number", and its schemas have no `$schema` and no `properties`."""
    is_json = isinstance(schema, bool) or (
        isinstance(schema, dict)
        and (
            not schema
            or not {"$schema", "$id", "$ref", "properties", "oneOf", "anyOf", "allOf"}.isdisjoint(schema)
            or schema.get("type") in ("object", "number", "integer")
        )
    )
    return "JSON" if is_json else "AVRO"


def _references(given: References) -> list[dict[str, Any]]:
    if isinstance(given, Mapping):
        return [{"name": name, "subject": subject, "version": LATEST} for name, subject in given.items()]
    return [{"version": LATEST, **each} for each in given]

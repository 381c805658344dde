"""What the records of `_schemas` amount to: the same whoever reads them, and in whatever pieces.

Only `apply` changes it. Soft-deleted versions are kept, and found by their ids: data that was written with them is
still read. An id belongs to a schema's content in a context; several subjects may have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import structlog

from broker.registry import subjects as names
from broker.registry.records import Schema, checked_id, read_schema
from odradek.schemas.json_text import json_of

logger = structlog.get_logger(__name__)

MOST_LINES = 20
"""Records that cannot be read and are logged."""


class State:
    """Subjects with their versions, levels and modes.

    Attributes:
        subjects: the versions of each subject, in ascending order.
        configs, modes: the values of the records, by subject; None stands for everything.
        contexts: those that were ever used, without the default one.
        highest: the largest id of each context that was ever given, as far as records tell.
        unreadable: how many records could not be read.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, Schema]] = {}
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, Mapping[str, Any]] = {}
        self.contexts: dict[str, None] = {}
        self.highest: dict[str, int] = {}
        self.unreadable = 0
        self._by_id: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        self._by_content: dict[tuple[str, bytes], int] = {}
        self._referring: dict[tuple[str, int], dict[tuple[str, int], None]] = {}
        self._apply: dict[str, Callable[[Mapping[str, Any], Any], None]] = {
            "SCHEMA": self._apply_schema,
            "DELETE_SUBJECT": self._apply_delete_subject,
            "CLEAR_SUBJECT": self._apply_clear_subject,
            "CONFIG": lambda key, value: _set(self.configs, key, value),
            "MODE": lambda key, value: _set(self.modes, key, value),
            "CONTEXT": self._apply_context,
            "NOOP": self._apply_noop,
        }

    # -- looking

    def versions(self, subject: str, *, deleted: bool = False) -> list[Schema]:
        """The versions of a subject in ascending order; with `deleted`, those too that are soft-deleted."""
        found = self.subjects.get(subject, {}).values()
        return [schema for schema in found if deleted or not schema.is_deleted]

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Schema | None:
        """One version, with `deleted` also if it is soft-deleted; -1 is the latest that is not."""
        if version == -1:
            return next(iter(reversed(self.versions(subject))), None)
        schema = self.subjects.get(subject, {}).get(version)
        return None if schema is None or (schema.is_deleted and not deleted) else schema

    def has(self, scope: str | None, *, deleted: bool = False) -> bool:
        """Whether there is a version of this subject, or of one in this context."""
        return any(self.versions(subject, deleted=deleted) for subject in self.in_scope(scope))

    def in_scope(self, scope: str | None) -> Iterator[str]:
        """The subject of this name, or those of this context."""
        if scope is not None and names.parse(scope).name:
            return iter((scope,) if scope in self.subjects else ())
        return (subject for subject in self.subjects if names.matches(subject, scope))

    def with_id(self, context: str, schema_id: int) -> list[Schema]:
        """The versions that have an id."""
        return [self._at(key) for key in self._by_id.get((context, schema_id), ())]

    def id_of(self, context: str, md5: bytes) -> int | None:
        """The id of a schema with this content."""
        return self._by_content.get((context, md5))

    def referring_to(self, schema: Schema) -> list[Schema]:
        """The versions that refer to this one."""
        return [self._at(key) for key in self._referring.get(schema.key, ())]

    def _at(self, key: tuple[str, int]) -> Schema:
        subject, version = key
        return self.subjects[subject][version]

    # -- records

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record in. One that is not known, or cannot be read, stays in the topic as it is."""
        try:
            named = json_of(key or b"null")
            known = self._apply.get(named.get("keytype", "")) if isinstance(named, dict) else None
            if known is None:
                raise ValueError("the key is none of a registry")
            content = None if value is None else json_of(value)
            if content is not None and not isinstance(content, dict):
                raise ValueError("the value is no object")
            known(named, content)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:  # others may write it
            self.unreadable += 1
            if self.unreadable <= MOST_LINES:
                logger.warning("record of the schema registry not understood", key=repr(key)[:200], error=repr(error))

    def _apply_schema(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        subject, version = str(key["subject"]), int(key["version"])
        schema = None if value is None else read_schema(key, value)
        self._forget(subject, version)
        if schema is not None:
            self._keep(schema)

    def _keep(self, schema: Schema) -> None:
        context = names.parse(schema.subject).context
        versions = self.subjects.setdefault(schema.subject, {})
        is_last = not versions or schema.version > next(reversed(versions))
        versions[schema.version] = schema
        if not is_last:
            self.subjects[schema.subject] = dict(sorted(versions.items()))
        self._by_id.setdefault((context, schema.id), {})[schema.key] = None
        self._by_content[context, schema.md5] = schema.id
        self.highest[context] = max(self.highest.get(context, 0), schema.id)
        if context != names.DEFAULT:
            self.contexts.setdefault(context)
        for reference in schema.references:
            target = names.referred(reference.subject, schema.subject), reference.version
            self._referring.setdefault(target, {})[schema.key] = None

    def _forget(self, subject: str, version: int) -> None:
        schema = self.subjects.get(subject, {}).pop(version, None)
        if schema is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        context = names.parse(subject).context
        _discard(self._by_id, (context, schema.id), schema.key)
        if (context, schema.id) not in self._by_id and self.id_of(context, schema.md5) == schema.id:
            del self._by_content[context, schema.md5]
        for reference in schema.references:
            _discard(self._referring, (names.referred(reference.subject, subject), reference.version), schema.key)

    def _apply_delete_subject(self, _key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            return
        for schema in self.versions(str(value["subject"])):
            if schema.version <= int(value["version"]):
                # Not through `_forget`: all that is looked up stays.
                gone = replace(schema, is_deleted=True, value={**schema.value, "deleted": True})
                self.subjects[schema.subject][schema.version] = gone

    def _apply_clear_subject(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            return
        for subject in list(self.in_scope(key.get("subject"))):
            for schema in self.versions(subject, deleted=True):
                if schema.is_deleted:
                    self._forget(*schema.key)

    def _apply_context(self, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.contexts.pop(str(key["context"]), None)
        else:
            self.contexts.setdefault(str(key["context"]))

    def _apply_noop(self, _key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        for context, highest in ((value or {}).get("maxIds") or {}).items():
            self.highest[context] = max(self.highest.get(context, 0), checked_id(highest))


def _set(values: dict[str | None, Mapping[str, Any]], key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
    subject = key.get("subject")
    if value is None:
        values.pop(subject, None)
    else:
        values[subject] = value


def _discard(
    index: dict[tuple[str, int], dict[tuple[str, int], None]], at: tuple[str, int], key: tuple[str, int]
) -> None:
    found = index.get(at, {})
    found.pop(key, None)
    if not found:
        index.pop(at, None)

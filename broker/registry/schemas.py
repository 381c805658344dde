"""Parses schemas in threads, with those that they refer to, and keeps some of those that were parsed last."""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import TypeVar, cast

from broker.registry import subjects as names
from broker.registry.errors import Code, RegistryError, invalid_schema
from broker.registry.formats.parsed import (
    LONGEST_NEEDED,
    LONGEST_TEXT,
    MOST_REFERENCES,
    Given,
    Needed,
    Parse,
    Parsed,
    without_overflow,
)
from broker.registry.records import AVRO, Reference, Schema
from broker.registry.state import State
from storage.workers import Workers

T = TypeVar("T")

JSON, PROTOBUF = "JSON", "PROTOBUF"
MODULES = {
    JSON: "broker.registry.formats.json_schema",
    PROTOBUF: "broker.registry.formats.protobuf",
    AVRO: "broker.registry.formats.avro",
}
"""Where each kind is parsed, in the order in which the kinds are listed."""

LANE = "schemas"
KEPT, KEPT_CHARACTERS = 1000, 4 << 20
"""Parsed schemas that are kept, and the length of their texts: what is parsed takes some ten times as much."""

FORMS_KEPT = 20_000


class Form(Enum):
    """Texts by which a schema is known to be the same as another one."""

    MEANING = "meaning"
    NORMALIZED = "normalized"
    RESOLVED = "resolved"

    def of(self, parsed: Parsed) -> str:
        match self:
            case Form.MEANING:
                return parsed.meaning
            case Form.NORMALIZED:
                return parsed.normalized()
        return parsed.formatted(self.value)


class Schemas:
    """`run` does work in a thread; `given` is for the loop, `parse` for threads."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers.lane(LANE)
        self._kept: OrderedDict[tuple[str, Given], Parsed] = OrderedDict()
        self._forms: OrderedDict[tuple[Form, bytes], bytes] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        """Raises what the work raises, and RegistryError for schemas with too many levels."""
        return await self._workers.call(partial(without_overflow, work))

    def given(self, state: State, subject: str, text: str, references: tuple[Reference, ...]) -> Given:
        """A schema with all that it refers to. Raises RegistryError if something of that does not exist."""
        needed: dict[str, Needed] = {}
        self._collect(state, subject, references, needed, set())
        return Given(text, references, tuple(needed.values()))

    def of(self, state: State, schema: Schema) -> Given:
        """A version as the registry has it."""
        return self.given(state, schema.subject, schema.text, schema.references)

    def _collect(
        self,
        state: State,
        subject: str,
        references: Iterable[Reference],
        needed: dict[str, Needed],
        seen: set[tuple[str, int]],
    ) -> None:
        for reference in references:
            target = names.referred(reference.subject, subject)
            found = state.version(target, reference.version, deleted=True)
            if found is None:
                raise invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                )
            if found.key not in seen:
                seen.add(found.key)
                if len(seen) > MOST_REFERENCES or sum(len(each.text) for each in needed.values()) > LONGEST_NEEDED:
                    raise invalid_schema(f"The schema needs more than {MOST_REFERENCES} others, or very long ones")
                self._collect(state, target, found.references, needed, seen)
            needed.setdefault(reference.name, Needed(reference.name, found.text, reference))

    def parse(self, kind: str, given: Given) -> Parsed:
        """Any thread. Raises RegistryError."""
        if kind not in MODULES:
            raise invalid_schema(f"Invalid schema type {kind}: expected one of {', '.join(MODULES)}")
        if len(given.text) > LONGEST_TEXT:
            raise RegistryError(Code.TOO_LARGE, f"The schema has more than {LONGEST_TEXT} characters")
        with self._lock:
            kept = self._kept.get((kind, given))
            if kept is not None:
                self._kept.move_to_end((kind, given))
                return kept
        parsed = self._parser(kind)(given)
        self._keep((kind, given), parsed)
        return parsed

    def has(self, kind: str, given: Given, form: Form, text: str) -> bool:
        """Whether a schema has this text in a form. It is parsed once for that. Any thread. Raises RegistryError."""
        key = form, _digest(repr((kind, given)))
        with self._lock:
            found = self._forms.get(key)
        if found is None:
            found = _digest(form.of(self.parse(kind, given)))
            with self._lock:
                self._forms[key] = found
                if len(self._forms) > FORMS_KEPT:
                    self._forms.popitem(last=False)
        return found == _digest(text)

    def _parser(self, kind: str) -> Parse:
        try:
            return cast(Parse, importlib.import_module(MODULES[kind]).parse)
        except ImportError as error:
            raise RegistryError(
                Code.STORE_ERROR,
                f"{kind} needs libraries that are not here ({error}): pip install '/path/to/odradek[registry]'",
            ) from error

    def _keep(self, key: tuple[str, Given], parsed: Parsed) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = parsed
                self._characters += _length(key[1])
            while self._kept and (len(self._kept) > KEPT or self._characters > KEPT_CHARACTERS):
                (_, dropped), _ = self._kept.popitem(last=False)
                self._characters -= _length(dropped)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _length(given: Given) -> int:
    return len(given.text) + sum(len(needed.text) for needed in given.needed)

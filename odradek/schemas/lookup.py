"""A schema with all that it refers to, asked of a registry by whatever way there is.

What is asked is a generator of paths that is sent the answers, so that it is written once for threads, for asyncio, and
for the registry's own process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from .errors import SchemaError
from .rest import subject_path

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
MOST_REFERENCES = 200

T = TypeVar("T")
Steps = Generator[str, Any, T]
"""Yields paths, gets answers, returns the result."""


class Source(NamedTuple):
    """A schema's text. `needed` are the texts of those that it refers to, by name, each after those it needs itself."""

    kind: str
    text: str
    needed: Mapping[str, str] = {}


class Version(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    id: int
    source: Source


def by_name(schema: int | str, subject: str | None = None) -> Steps[Source | None]:
    """The schema of an id, in the context of a subject, or of a GUID; None if the registry does not know it.

    Raises SchemaError.
    """
    if isinstance(schema, int):
        where = f"/schemas/ids/{schema}" + ("" if subject is None else f"?subject={quote(subject, safe='')}")
    else:
        where = f"/schemas/guids/{quote(schema, safe='')}"
    found = yield where
    return None if found is None else (yield from source_of(found, subject))


def by_subject(subject: str, version: int | str = "latest") -> Steps[Version | None]:
    """A version of a subject; None if there is none. Raises SchemaError."""
    found = yield subject_path(subject, "versions", version)
    if found is None:
        return None
    source = yield from source_of(found, subject)
    try:
        return Version(str(found["subject"]), int(found["version"]), int(found["id"]), source)
    except (LookupError, TypeError, ValueError) as error:
        raise SchemaError(f"the registry's answer for {subject} is none of a registry") from error


def source_of(found: Any, subject: str | None = None) -> Steps[Source]:
    """The source of a schema as a registry writes it, or somebody who registers it in a subject. Raises SchemaError."""
    needed: dict[str, str] = {}
    text = _text(found)
    context = _context_of(str(found.get("subject") or subject or ""))
    yield from _collect(found.get("references") or (), context, needed, set())
    return Source(str(found.get("schemaType") or AVRO), text, needed)


def _context_of(subject: str) -> str:
    """What a subject begins with in another context than the default one; that of what it refers to, too."""
    context, colon, _ = subject.removeprefix(":").partition(":")
    return f":{context}:" if subject.startswith(":.") and colon else ""


def _text(found: Any) -> str:
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise SchemaError("the registry's answer has no schema")
    return str(found["schema"])


def _collect(references: Any, context: str, needed: dict[str, str], seen: set[tuple[str, str]]) -> Steps[None]:
    for reference in references if isinstance(references, list | tuple) else ():
        try:
            name, subject, version = (str(reference[part]) for part in ("name", "subject", "version"))
        except (LookupError, TypeError) as error:
            raise SchemaError("a reference of the schema has no name, subject or version") from error
        subject = subject if subject.startswith(":.") else context + subject
        if (subject, version) in seen:
            continue
        seen.add((subject, version))
        if len(seen) > MOST_REFERENCES:
            raise SchemaError(f"the schema needs more than {MOST_REFERENCES} others")
        found = yield f"{subject_path(subject, 'versions', version)}?deleted=true"
        if found is None:
            raise SchemaError(f"the schema refers to version {version} of {subject}, which the registry does not have")
        text = _text(found)
        yield from _collect(found.get("references") or (), _context_of(subject), needed, seen)
        needed[name] = text


def run(steps: Steps[T], ask: Callable[[str], Any]) -> T:
    """The result, with `ask` for the answer of a path; None for 404."""
    try:
        path = next(steps)
        while True:
            path = steps.send(ask(path))
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(steps: Steps[T], ask: Callable[[str], Awaitable[Any]]) -> T:
    """As `run`."""
    try:
        path = next(steps)
        while True:
            path = steps.send(await ask(path))
    except StopIteration as end:
        result: T = end.value
        return result

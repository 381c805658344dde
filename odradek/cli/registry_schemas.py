"""Schemas as commands have them: read from files, listed from a registry, and why one may not follow another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import click

from odradek.schemas.client import RegistryClient, RegistryRefused
from odradek.schemas.lookup import AVRO, JSON, PROTOBUF
from odradek.schemas.rest import subject_path
from odradek.schemas.texts import readable

KINDS = {"avro": AVRO, "json": JSON, "protobuf": PROTOBUF}
ENDINGS = {AVRO: ".avsc", JSON: ".json", PROTOBUF: ".proto"}
"""How files with a schema of each type end."""

ANY = ":*:"
"""The prefix of subjects in all contexts."""

PAGE = 1000
NONE_SUCH = (404, 405)
VERSION = re.compile(r"latest|-?[0-9]+")


def kind_of(file: str, given: str | None) -> str:
    """The type of the schema in a file, by what its name ends with. Raises UsageError."""
    if given is not None:
        return KINDS[given]
    found = {ending: kind for kind, ending in ENDINGS.items()}.get(PurePath(file).suffix.lower())
    if found is None:
        expected = ", ".join(ENDINGS.values())
        raise click.UsageError(f"{file}: the name does not end with {expected}: --type says what is in it")
    return found


def read_text(file: str) -> str:
    """A file with a schema; `-` is the input. Raises ClickException."""
    try:
        with click.open_file(file, encoding="utf-8-sig") as opened:
            return str(opened.read())
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{file} is no text in UTF-8") from error
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error


def references(given: Sequence[str], client: RegistryClient) -> list[dict[str, Any]]:
    """NAME=SUBJECT or NAME=SUBJECT:VERSION as a registry takes it, with the latest version. Raises UsageError."""
    found = []
    for text in given:
        name, _, subject = text.partition("=")
        head, colon, version = subject.rpartition(":")
        if colon and head and VERSION.fullmatch(version):
            subject = head
        else:
            version = "latest"
        if not name or not subject:
            raise click.BadParameter(f"{text!r}: expected NAME=SUBJECT or NAME=SUBJECT:VERSION", param_hint="-R")
        number = client.send("GET", subject_path(subject, "versions", version))["version"]
        found.append({"name": name, "subject": subject, "version": number})
    return found


def versions(client: RegistryClient, prefix: str = "", *, deleted: bool, latest: bool = False) -> Iterator[Any]:
    """The versions of subjects that begin so, as the registry describes each; those that are deleted say so.

    A registry tells all of them in few answers; of one that does not, each is asked for.
    """
    prefix = prefix if prefix.startswith(":") else ANY + prefix
    try:
        live = {_key(one): one for one in _pages(client, prefix, latestOnly=latest or None)}
        gone = _pages(client, prefix, latestOnly=latest or None, deleted=True) if deleted else ()
    except RegistryRefused as error:
        if error.status not in NONE_SUCH:
            raise
        yield from _one_by_one(client, prefix, deleted=deleted, latest=latest)
        return
    found = live | {_key(one): {**one, "deleted": True} for one in gone if _key(one) not in live}
    yield from (found[key] for key in sorted(found))


def _key(version: Any) -> tuple[str, int]:
    return str(version["subject"]), int(version["version"])


def _pages(client: RegistryClient, prefix: str, **query: object) -> list[Any]:
    found: list[Any] = []
    seen: set[tuple[str, int]] = set()
    while True:
        page = client.send("GET", "/schemas", subjectPrefix=prefix, offset=len(found), limit=PAGE, **query)
        if not page or _key(page[0]) in seen:  # an older registry tells all at once, whatever the offset
            return found
        found += page
        seen.update(map(_key, page))


def _one_by_one(client: RegistryClient, prefix: str, *, deleted: bool, latest: bool) -> Iterator[Any]:
    more = {"deleted": True} if deleted else {}
    name = prefix.removeprefix(ANY)
    for subject in sorted(one for one in client.send("GET", "/subjects", **more) if one.startswith(name)):
        live = client.ask(subject_path(subject, "versions")) or []
        every = client.send("GET", subject_path(subject, "versions"), **more) if deleted else live
        for number in every[-1:] if latest else every:
            found = client.send("GET", subject_path(subject, "versions", number), **more)
            yield found if number in live else {**found, "deleted": True}


def incompatibilities(
    client: RegistryClient, subject: str, body: object, version: str | None = None
) -> list[str] | None:
    """Why a schema may not be in the subject, as sentences; None if it may. `version`: beside this one alone."""
    where = subject_path(subject, "versions", *([version] if version else []))
    answer = client.send("POST", f"/compatibility{where}", body, verbose=True)
    if answer.get("is_compatible"):
        return None
    return readable(answer.get("messages") or ()) or ["it does not say why"]

"""`odradek registry export|import`: schemas from one registry to another, with their ids, versions and levels.

An export is lines of JSON. A version is what the registry says of it (`subject, version, id, schemaType, references,
schema`, `deleted` if it is soft-deleted); a level is `{"subject": S, "config": {...}}`, where null is everything.
In a folder the lines are in `schemas.jsonl`, and name a `file` of the folder in place of the text of the schema.

An import sets the mode IMPORT for each subject that lacks versions, and puts back what was there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from odradek.cli.output import Output
from odradek.cli.registry_access import asking, refusals
from odradek.cli.registry_schemas import ENDINGS, versions
from odradek.schemas.client import RegistryClient, RegistryRefused
from odradek.schemas.errors import SchemaError
from odradek.schemas.lookup import AVRO
from odradek.schemas.rest import setting_path, subject_path
from odradek.terminal import printable

INDEX = "schemas.jsonl"
Version = Mapping[str, Any]
Key = tuple[str, int]


@click.command("export")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("-o", "--out", "target", type=click.Path(), help="A new folder, or a new file that ends with .jsonl.")
@asking
def export(client: RegistryClient, out: Output, prefixes: tuple[str, ...], target: str | None) -> None:
    """Write all versions of all subjects, or of those that begin with a PREFIX, as lines of JSON.

    Soft-deleted ones are with them, as data may have their ids, and so are the levels of compatibility; without PREFIX
    also those of contexts and of everything.
    """
    found = {key: one for prefix in prefixes or ("",) for key, one in _versions(client, prefix)}
    subjects = {subject for subject, _ in found}
    contexts = set() if prefixes else {one[: one.index(":", 1) + 1] for one in subjects if one.startswith(":.")}
    levels = [_level(client, one) for one in ([] if prefixes else [None]) + sorted(subjects | contexts)]
    lines = [*found.values(), *filter(None, levels)]
    try:
        if target is None:
            out.as_json = False  # these lines are no part of one document
            click.echo("".join(map(_line, lines)), nl=False)
            return
        if target.endswith(".jsonl"):
            _write(Path(target), "".join(map(_line, lines)))
        else:
            _write_folder(Path(target), lines)
    except OSError as error:
        raise click.ClickException(f"{error.filename or target} cannot be written: {error.strerror}") from error
    done = f"{len(found)} versions of {len(subjects)} subjects written"
    out.result({"export": target, "versions": len(found), "subjects": len(subjects)}, done)


def _versions(client: RegistryClient, prefix: str) -> Iterator[tuple[Key, Version]]:
    for one in versions(client, prefix, deleted=True):
        yield (
            (str(one["subject"]), int(one["version"])),
            {name: one[name] for name in one if name not in ("ts", "guid")},
        )


def _level(client: RegistryClient, subject: str | None) -> dict[str, Any] | None:
    """What is set for a subject, or for everything; None if nothing is."""
    found = client.ask(setting_path("config", subject))
    return None if found is None else {"subject": subject, "config": found}


def _line(value: object) -> str:
    return json.dumps(value) + "\n"


def _write(file: Path, text: str) -> None:
    """Write a new file: none that is there is replaced, also where letters of either case are the same name."""
    with open(file, "x", encoding="utf-8", errors="surrogatepass", newline="") as opened:
        opened.write(text)


def _write_folder(folder: Path, lines: Iterable[Version]) -> None:
    folder.mkdir(parents=True)
    index = []
    for one in lines:
        if "schema" in one:
            ending = ENDINGS.get(one.get("schemaType") or AVRO, ".txt")
            name = f"subjects/{_file_name(one['subject'])}/{one['version']}{ending}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _write(folder / name, one["schema"])
            one = {**{key: value for key, value in one.items() if key != "schema"}, "file": name}  # noqa: PLW2901
        index.append(_line(one))
    _write(folder / INDEX, "".join(index))


def _file_name(subject: str) -> str:
    """A subject as the name of a folder; those that would be another folder are written otherwise."""
    return {"": "%", ".": "%2E", "..": "%2E%2E"}.get(subject) or quote(subject, safe="")


# -- import


@click.command("import")
@click.argument("source", metavar="PATH")
@click.option("--dry-run", is_flag=True, help="Only say what there is to do.")
@asking
def import_(client: RegistryClient, out: Output, source: str, dry_run: bool) -> None:
    """Register what an export has (a folder, a file, or - for the input), with the same ids and versions.

    What is there already stays. Where another schema has an id or a version, that is said, and the rest is done.
    """
    wanted, levels = _read(source)
    there = {(one["subject"], one["version"]): one for one in versions(client, deleted=True)}
    missing, same = [], 0
    for one in _in_order(wanted):
        found = there.get((one["subject"], one["version"]))
        if found is None:
            missing.append(one)
        elif _content(found) == _content(one):
            same += 1
        else:
            out.failure(_what(one), "differs", f"another one is there: {_name(found)}, and not {_name(one)}")
    if same:
        out.result({"versions": same}, "are there already")
    if dry_run:
        for one in missing:
            out.result(_what(one), f"missing: {_name(one)}")
        return
    has_versions = {subject for subject, _ in there}
    with _importing(client, out, dict.fromkeys(str(one["subject"]) for one in missing), has_versions):
        for one in missing:
            with refusals(out, **_what(one)):
                _register(client, one)
                out.result(_what(one), _name(one))
        for one in reversed(missing):  # what refers to others goes first
            if one.get("deleted"):
                with refusals(out, **_what(one)):
                    client.send("DELETE", subject_path(one["subject"], "versions", one["version"]))
    for level in levels:
        _set_level(client, out, level["subject"], level["config"])


def _what(one: Version) -> dict[str, Any]:
    named = {"subject": one["subject"], "version": one["version"], "id": one["id"]}
    return {"schema": f"{one['subject']}:{one['version']}", **named}


def _name(one: Version) -> str:
    return f"id {one['id']}{', soft-deleted' if one.get('deleted') else ''}"


def _content(one: Version) -> tuple[object, ...]:
    kind, refers = one.get("schemaType") or AVRO, one.get("references") or []
    return one["id"], kind, one["schema"], refers, bool(one.get("deleted"))


def _read(source: str) -> tuple[list[Version], list[Version]]:
    """The versions and the levels of an export. Raises ClickException that names the line."""
    path = Path(source)
    index = path / INDEX if source != "-" and path.is_dir() else path
    wanted: list[Version] = []
    levels: list[Version] = []
    try:
        with click.open_file(str(index), encoding="utf-8") as opened:
            for number, line in enumerate(opened, 1):
                if line.strip():
                    one = _checked(line, f"{index}: line {number}", index.parent)
                    (levels if "config" in one else wanted).append(one)
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{index} is no text in UTF-8") from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or index} cannot be read: {error.strerror}") from error
    return wanted, levels


def _checked(line: str, where: str, folder: Path) -> Version:
    try:
        one = json.loads(line)
        if "config" in one:
            return {"subject": None if one["subject"] is None else str(one["subject"]), "config": dict(one["config"])}
        if "file" in one:
            file = (folder / one["file"]).resolve()
            if not file.is_relative_to(folder.resolve()):
                raise click.ClickException(f"{where}: {one['file']} is outside of the folder")
            one["schema"] = file.read_bytes().decode(errors="surrogatepass")
        named = {"subject": str(one["subject"]), "version": int(one["version"]), "id": int(one["id"])}
        refers = [
            {**each, "subject": str(each["subject"]), "version": int(each["version"])}
            for each in one.get("references") or ()
        ]
        return {**one, **named, "schema": str(one["schema"]), "references": refers}
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        expected = (
            'expected {"subject": S, "version": N, "id": N, "schema": TEXT}, as odradek registry export writes it'
        )
        raise click.ClickException(f"{where}: {expected} ({error!r})") from error


def _in_order(wanted: Iterable[Version]) -> list[Version]:
    """By subject and version, but each after what it refers to. Raises ClickException if they refer in a circle."""
    left = {(one["subject"], one["version"]): one for one in wanted}
    refers = {
        key: {(each["subject"], each["version"]) for each in one.get("references") or ()} for key, one in left.items()
    }
    made: list[Version] = []
    while left:
        ready = sorted(key for key in left if not refers[key] & left.keys())
        if not ready:
            raise click.ClickException(f"schemas refer to each other in a circle: {next(iter(left))}")
        made += [left.pop(key) for key in ready]
    return made


@contextmanager
def _importing(client: RegistryClient, out: Output, subjects: Iterable[str], has_versions: set[str]) -> Iterator[None]:
    """Have subjects take schemas with ids; their modes are afterwards what they were before."""
    before: dict[str, str | None] = {}
    try:
        for subject in subjects:
            path = setting_path("mode", subject)
            found = client.ask(path)
            if client.send("GET", path, defaultToGlobal=True)["mode"] == "IMPORT":
                if found is not None:
                    click.echo(f"subject {printable(subject)} is in mode IMPORT, and stays so", err=True)
                continue
            client.send("PUT", path, {"mode": "IMPORT"}, force=True if subject in has_versions else None)
            before[subject] = None if found is None else found["mode"]
        yield
    finally:
        for subject, mode in before.items():
            path = setting_path("mode", subject)
            try:
                client.send(*(("DELETE", path) if mode is None else ("PUT", path, {"mode": mode})))
            except SchemaError as error:
                said = f"{error}: it stays in mode IMPORT until `odradek registry mode` sets another"
                out.failure({"mode_of": subject}, "mode", said)


def _register(client: RegistryClient, one: Version) -> None:
    """Raises RegistryRefused, also if the registry has given another id."""
    body = {name: one[name] for name in ("version", "id", "schemaType", "references", "schema") if one.get(name)}
    body |= {name: one[name] for name in ("metadata", "ruleSet") if one.get(name)}
    answer = client.send("POST", subject_path(one["subject"], "versions"), body)
    if answer["id"] != one["id"]:
        raise RegistryRefused(f"it has the id {answer['id']} there, and not {one['id']}", 409)


def _set_level(client: RegistryClient, out: Output, subject: str | None, config: Mapping[str, Any]) -> None:
    """Set what an export has of a subject or of everything."""
    path = setting_path("config", subject)
    value = {"compatibility" if name == "compatibilityLevel" else name: each for name, each in config.items()}
    with refusals(out, level_of=subject or "everything"):
        if client.ask(path) != config:
            client.send("PUT", path, value)
            out.result({"level_of": subject or "everything"}, str(value.get("compatibility")))

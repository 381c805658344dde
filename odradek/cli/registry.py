"""`odradek registry ...`: a client of a schema registry with Confluent's interface, Odradek's or any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import click

from odradek.cli.general import RegistryCommands, confirm
from odradek.cli.output import Output
from odradek.cli.registry_access import asking, refusals
from odradek.cli.registry_schemas import (
    KINDS,
    incompatibilities,
    kind_of,
    read_text,
    references,
    versions,
)
from odradek.cli.registry_transfer import export, import_
from odradek.schemas.client import RegistryClient, RegistryRefused
from odradek.schemas.lookup import AVRO
from odradek.schemas.rest import LEVELS, MODES, setting_path, subject_path
from odradek.schemas.texts import laid_out
from odradek.terminal import printable

INCOMPATIBLE = 409
GONE_SOFTLY = (40404, 40406)


class _Group(RegistryCommands):
    other_words: ClassVar = {
        **dict.fromkeys(("describe", "show", "schema", "cat"), "get"),
        **dict.fromkeys(("put", "create", "add", "upload"), "register"),
        **dict.fromkeys(("test", "validate", "check-compatibility"), "check"),
        **dict.fromkeys(("config", "level", "compatibility", "compatibility-level"), "compat"),
        **dict.fromkeys(("backup", "dump", "download"), "export"),
        **dict.fromkeys(("restore", "load"), "import"),
    }

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return None if cmd_name in self.other_words else super().get_command(ctx, cmd_name)


@click.group("registry", cls=_Group)
def main() -> None:
    """Schemas of a registry with Confluent's interface: Odradek's own, or any other.

    The registry is that of -r, of the setting schema.registry.url (-X, or the context), of $SCHEMA_REGISTRY_URL, or
    else http://127.0.0.1:8081. Other settings that begin with schema.registry. are those of Confluent's clients:
    basic.auth.user.info (USER:PASSWORD), bearer.auth.token, ssl.ca.location, ssl.certificate.location and so on.
    """


@main.command("list")
@click.argument("prefix", default="")
@click.option("--versions", "every", is_flag=True, help="All versions of each subject, and not only the latest.")
@click.option("--deleted", is_flag=True, help="Also those that are soft-deleted.")
@asking
def list_(client: RegistryClient, out: Output, prefix: str, every: bool, deleted: bool) -> None:
    """List the subjects, or those that begin with PREFIX, with their latest versions."""
    rows = []
    for one in versions(client, prefix, deleted=deleted, latest=not every):
        refers = [f"{each['subject']}:{each['version']}" for each in one.get("references") or ()]
        row = [one["subject"], one["version"], one["id"], one.get("schemaType") or AVRO, refers]
        rows.append([*row, bool(one.get("deleted"))] if deleted else row)
    out.table(("subject", "version", "id", "type", "refers_to", *(("deleted",) if deleted else ())), rows)


@main.command()
@click.argument("subject", required=False)
@click.argument("version", default="latest")
@click.option("--id", "schema_id", type=click.IntRange(0, 2**31 - 1), help="The schema with this id.")
@click.option("--guid", help="The schema with this GUID.")
@click.option("--deleted", is_flag=True, help="Also if it is soft-deleted.")
@click.option("--used-by", is_flag=True, help="What refers to it, in place of its text.")
@asking
def get(
    client: RegistryClient,
    out: Output,
    subject: str | None,
    version: str,
    schema_id: int | None,
    guid: str | None,
    deleted: bool,
    used_by: bool,
) -> None:
    """Print the text of a schema: of a SUBJECT the latest VERSION or another, or by its id or GUID.

    With --json all that the registry says of it is printed.
    """
    if sum(given is not None for given in (subject, schema_id, guid)) != 1 or (used_by and subject is None):
        raise click.UsageError("expected SUBJECT, or else --id or --guid; --used-by with SUBJECT")
    if used_by:
        _print_users(client, out, str(subject), version)
        return
    if subject and deleted and version == "latest" and client.ask(subject_path(subject, "versions")) is None:
        version = str(client.send("GET", subject_path(subject, "versions"), deleted=True)[-1])  # all are deleted
    path = subject_path(subject, "versions", version) if subject else f"/schemas/ids/{schema_id}"
    path = f"/schemas/guids/{quote(guid, safe='')}" if guid else path
    found = client.send("GET", path, deleted=deleted or None)
    if out.as_json:
        out.document(found)
    else:
        click.echo(laid_out(found.get("schemaType") or AVRO, found["schema"]))


def _print_users(client: RegistryClient, out: Output, subject: str, version: str) -> None:
    rows = []
    for schema_id in client.send("GET", subject_path(subject, "versions", version, "referencedby")):
        rows += [
            [one["subject"], one["version"], schema_id]
            for one in client.send("GET", f"/schemas/ids/{schema_id}/versions")
        ]
    out.table(("subject", "version", "id"), rows)


SCHEMA_OPTIONS = (
    click.option("--type", "kind", type=click.Choice([*KINDS]), help="Default: by the end of the file's name."),
    click.option(
        "-R",
        "--reference",
        "refers",
        multiple=True,
        metavar="NAME=SUBJECT[:VERSION]",
        help="What the schema calls NAME; may be repeated.",
    ),
    click.option("--normalize", is_flag=True, help="Schemas that differ in form alone are the same."),
)


def _with_schema(command: Any) -> Any:
    for option in reversed(SCHEMA_OPTIONS):
        command = option(command)
    return command


def _body(client: RegistryClient, file: str, kind: str | None, refers: tuple[str, ...]) -> dict[str, Any]:
    found = {"schemaType": kind_of(file, kind), "schema": read_text(file)}
    return {**found, "references": references(refers, client)} if refers else found


@main.command()
@click.argument("subject")
@click.argument("file")
@_with_schema
@asking
def register(
    client: RegistryClient,
    out: Output,
    subject: str,
    file: str,
    kind: str | None,
    refers: tuple[str, ...],
    normalize: bool,
) -> None:
    """Register the schema in FILE (.avsc, .json, .proto; - is the input) as a version of SUBJECT."""
    body = _body(client, file, kind, refers)
    before = _latest(client, subject)
    try:
        answer = client.send("POST", subject_path(subject, "versions"), body, normalize=normalize or None)
    except RegistryRefused as error:
        if error.status != INCOMPATIBLE:
            raise
        raise _does_not_fit(client, subject, body, str(error)) from error
    if "version" not in answer:  # an older registry
        answer = client.send("POST", subject_path(subject), body, normalize=normalize or None)
    is_new = answer["version"] > before
    done = f"version {answer['version']}, id {answer['id']}" + ("" if is_new else ", was there already")
    out.result({"subject": subject, "version": answer["version"], "id": answer["id"]}, done)


def _latest(client: RegistryClient, subject: str) -> int:
    """The number of the latest version, 0 if there is none, or if the user may not see it."""
    try:
        found = client.ask(subject_path(subject, "versions", "latest"))
    except RegistryRefused:
        return 0
    return 0 if found is None else int(found["version"])


def _does_not_fit(client: RegistryClient, subject: str, body: Mapping[str, Any], told: str) -> click.ClickException:
    try:
        found = incompatibilities(client, subject, body) or [told]
    except RegistryRefused:  # it has said so already, in its own form
        found = [told]
    lines = "".join(f"\n  {printable(one)}" for one in found)
    return click.ClickException(f"the schema does not fit subject {subject}:{lines}")


@main.command()
@click.argument("subject")
@click.argument("file")
@click.option("--version", help="Compare with this version alone (a number, or latest).")
@_with_schema
@asking
def check(
    client: RegistryClient,
    out: Output,
    subject: str,
    file: str,
    version: str | None,
    kind: str | None,
    refers: tuple[str, ...],
    normalize: bool,
) -> None:
    """Say whether the schema in FILE could be registered in SUBJECT; the exit status is 1 if not.

    It is compared with what the level of the subject asks for.
    """
    body = _body(client, file, kind, refers)
    found = incompatibilities(client, subject, body, version)
    if out.as_json:
        out.document({"subject": subject, "is_compatible": found is None, "messages": found or []})
    elif found is None:
        click.echo(f"{file} fits subject {subject}")
    else:
        lines = "".join(f"\n  {printable(one)}" for one in found)
        click.echo(f"{file} does not fit subject {subject}:{lines}")
    if found is not None:
        raise click.exceptions.Exit(1)


@main.command()
@click.argument("subject", required=False)
@click.option("--set", "level", type=click.Choice(LEVELS, case_sensitive=False), help="Set this level.")
@click.option("--unset", is_flag=True, help="Go back to the level of the context, or of everything.")
@asking
def compat(client: RegistryClient, out: Output, subject: str | None, level: str | None, unset: bool) -> None:
    """Print or set the compatibility level of SUBJECT, or else of all subjects that have none of their own."""
    _setting(client, out, "config", subject, {"compatibility": level} if level else None, unset)


@main.command()
@click.argument("subject", required=False)
@click.option("--set", "mode_", type=click.Choice(MODES, case_sensitive=False), help="Set this mode.")
@click.option("--unset", is_flag=True, help="Go back to the mode of the context, or of everything.")
@click.option("--force", is_flag=True, help="Set the mode IMPORT also where there are schemas.")
@asking
def mode(client: RegistryClient, out: Output, subject: str | None, mode_: str | None, unset: bool, force: bool) -> None:
    """Print or set the mode of SUBJECT, or else of all subjects that have none of their own."""
    _setting(client, out, "mode", subject, {"mode": mode_} if mode_ else None, unset, force=force or None)


ANSWERS = {"config": ("compatibility level", "compatibilityLevel", "compatibility"), "mode": ("mode", "mode", "mode")}


def _setting(
    client: RegistryClient,
    out: Output,
    kind: str,
    subject: str | None,
    value: Mapping[str, str] | None,
    unset: bool,
    **query: object,
) -> None:
    """Print, set or unset a level or mode."""
    if value and unset:
        raise click.UsageError("--set and --unset: expected one of them")
    title, *names = ANSWERS[kind]
    path = setting_path(kind, subject or None)
    if value:
        client.send("PUT", path, value, **query)
    elif unset:
        client.send("DELETE", path)
    found = client.send("GET", path, defaultToGlobal=True if subject else None)
    counts = next(str(found[name]) for name in names if name in found)
    own = subject is None or client.ask(path) is not None
    if value or unset:
        out.result({"subject": subject or "*", title.replace(" ", "_"): counts}, f"{title} {counts}")
    elif out.as_json:
        out.document({"subject": subject, title.replace(" ", "_"): counts, "own": own, **found})
    else:
        click.echo(
            counts if own else f"{counts} (not set for {printable(str(subject))}: that of its context or of all)"
        )


@main.command()
@click.argument("subjects", nargs=-1, required=True, metavar="SUBJECT...")
@click.option("--version", "numbers", multiple=True, help="Only this version; may be repeated.")
@click.option("--permanent", is_flag=True, help="For good, so that data written with it can be read no more.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@asking
def delete(
    client: RegistryClient,
    out: Output,
    subjects: tuple[str, ...],
    numbers: tuple[str, ...],
    permanent: bool,
    yes: bool,
) -> None:
    """Delete subjects, or versions of one: softly, so that their ids still have their schemas, or for good."""
    if numbers and len(subjects) > 1:
        raise click.UsageError("--version: expected one SUBJECT")
    which = f"version {', '.join(numbers)} of " if numbers else ""
    how = " for good" if permanent else ""
    confirm(f"Delete {which}{', '.join(map(printable, subjects))}{how}?", yes)
    for subject in subjects:
        for number in numbers or (None,):
            _delete(client, out, subject, number, permanent)


def _delete(client: RegistryClient, out: Output, subject: str, version: str | None, permanent: bool) -> None:
    what = {"subject": subject, **({"version": version} if version else {})}
    with refusals(out, **what):
        path = subject_path(subject)
        if version:  # the latest would be another one after the first of two deletes
            number = client.send("GET", subject_path(subject, "versions", version), deleted=True)["version"]
            path = subject_path(subject, "versions", number)
        try:
            gone = client.send("DELETE", path)
        except RegistryRefused as error:
            if not (permanent and error.code in GONE_SOFTLY):
                raise
        if permanent:
            gone = client.send("DELETE", path, permanent=True)
        numbers = ", ".join(map(str, gone if isinstance(gone, list) else [gone]))
        out.result({**what, "versions": gone}, f"version {numbers} deleted{' for good' if permanent else ''}")


main.add_command(export)
main.add_command(import_)

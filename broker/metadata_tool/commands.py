"""`odradek metadata dump`: print the records of a metadata log."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain

import click

from broker.metadata_tool.dump import Row, dump
from controller.quorum.survey import FOLDER_NAME, OLD_BOOTSTRAP
from storage.files import OsFileSystem

FS = OsFileSystem()
SUFFIXES = (".checkpoint", ".log")


@click.group()
def main() -> None:
    """Look into the metadata log of a node that is stopped or running."""


@main.command("dump")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--skip-noop", is_flag=True, help="Leave out NoOpRecords.")
def dump_command(paths: tuple[str, ...], as_json: bool, skip_noop: bool) -> None:
    """Print the batches and records of metadata logs and their snapshots; nothing is changed.

    PATH is a segment (.log), a snapshot (.checkpoint), the folder of a metadata log, or one of log.dirs that has it.
    Exit status 1: something could not be read.
    """
    failed = False
    for path in chain.from_iterable(_files(given.rstrip("/") or "/") for given in paths):
        if not as_json:
            click.echo(f"# {path}")
        try:
            for row in dump(FS, path, skip_no_ops=skip_noop):
                failed = failed or "error" in row
                click.echo(json.dumps({"file": path} | row, ensure_ascii=False) if as_json else _line(row))
        except BrokenPipeError:
            raise  # the reader, such as `head`, has enough: no file is at fault, and click ends the program
        except OSError as error:
            click.echo(f"{path}: {error}", err=True)
            failed = True
    sys.exit(failed)


def _files(path: str) -> Iterator[str]:
    """The snapshots and then the segments of a folder, or the file itself."""
    if not FS.is_dir(path):
        yield path
        return
    if FS.is_dir(f"{path}/{FOLDER_NAME}"):
        if FS.exists(f"{path}/{OLD_BOOTSTRAP}"):
            yield f"{path}/{OLD_BOOTSTRAP}"
        path = f"{path}/{FOLDER_NAME}"
    names = sorted(FS.listdir(path))
    found = [f"{path}/{name}" for suffix in SUFFIXES for name in names if name.endswith(suffix)]
    if not found:
        raise click.ClickException(f"{path} has no metadata log")
    yield from found


def _line(row: Row) -> str:
    if "offset" not in row:
        return " ".join(f"{key}={_shown(value)}" for key, value in row.items())
    if "error" in row:
        return f"  {row['offset']} error={json.dumps(row['error'])} value={row.get('value', '')}"
    text = json.dumps(row["record"], ensure_ascii=False, separators=(",", ":"))
    return f"  {row['offset']} {row['type']} v{row['version']} {text}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)

"""`odradek log dump|verify|repair`: look into the files of a log, and repair damaged ones."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import click
import structlog

from broker.log_tool.dump import TEXT_FILES, dump
from storage.files import OsFileSystem
from storage.folders import meta_properties
from storage.folders.log_dirs import LOCK_FILE
from storage.segments.index import CorruptIndexError
from storage.tools.verification import (
    Finding,
    KeepingFileSystem,
    is_partition,
    partitions_in,
    repair_data_folder,
    repair_partition,
    verify_data_folder,
    verify_partition,
)

FS = OsFileSystem()
DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", *TEXT_FILES)


class LogFolder(click.Path):
    """A folder of log.dirs, or one partition's. In another folder a repair would find what is none of ours."""

    def __init__(self) -> None:
        super().__init__(exists=True, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        folder = str(super().convert(value, param, ctx))
        found = is_partition(FS, folder) or any(is_partition(FS, path) for path in partitions_in(FS, folder))
        if not found and not FS.exists(f"{folder}/{meta_properties.FILE_NAME}"):
            self.fail(
                f"{folder!r} is no folder of log.dirs: it has neither {meta_properties.FILE_NAME} nor partitions",
                param,
                ctx,
            )
        return folder


@click.group()
def main() -> None:
    """Inspect or repair the files of a log; DIR is a folder of log.dirs, or one partition's folder in it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@main.command("dump")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option("--no-records", is_flag=True, help="Print batches without their records.")
def dump_command(paths: tuple[str, ...], as_json: bool, no_records: bool) -> None:
    """Print segments, indexes, producer snapshots and checkpoints.

    Records of internal topics are decoded. Exit status 1: something could not be read.
    """
    failed = False
    for path in chain.from_iterable(_files(given.rstrip("/")) for given in paths):
        if not as_json:
            click.echo(f"# {path}")
        try:
            for row in dump(FS, path, records=not no_records):
                if as_json:
                    click.echo(json.dumps({"file": path} | row, ensure_ascii=False))
                else:
                    click.echo(" ".join(f"{key}={_shown(value)}" for key, value in row.items()))
        except BrokenPipeError:
            raise  # the reader, such as `head`, has enough: no file is at fault, and click ends the program
        except (OSError, ValueError, IndexError, CorruptIndexError) as error:
            click.echo(f"{path}: {error}", err=True)
            failed = True
    sys.exit(failed)


def _shown(value: object) -> str:
    return value if isinstance(value, str) and " " not in value else json.dumps(value, ensure_ascii=False)


def _files(path: str) -> Iterator[str]:
    if not FS.is_dir(path):
        yield path
        return
    for name in sorted(FS.listdir(path)):
        below = f"{path}/{name}"
        if FS.is_dir(below) or name.endswith(DUMPED):
            yield from _files(below)


@main.command()
@click.argument("folder", metavar="DIR", type=LogFolder())
def verify(folder: str) -> None:
    """Check everything in DIR and change nothing.

    Exit status 0: no damage; 1: damage was found.
    """
    with _locked(folder):
        found = _verify(folder)
    for finding in found:
        click.echo(f"{'DAMAGE' if finding.serious else 'note'}: {finding.path}: {finding.text}")
    damage = sum(finding.serious for finding in found)
    click.echo(f"{damage} damaged, {len(found) - damage} notes")
    sys.exit(damage > 0)


@main.command()
@click.argument("folder", metavar="DIR", type=LogFolder())
@click.option("--yes", is_flag=True, help="Do it; without this option damage is only reported.")
def repair(folder: str, yes: bool) -> None:
    """Cut damaged logs at their first bad batch.

    Indexes and the other files beside the log are rebuilt. What is removed is kept in DIR.removed-TIME, beside DIR.
    Exit status 0: no damage is left; 1: some is.
    """
    folder = folder.rstrip("/")
    with _locked(folder):
        found = [finding for finding in _verify(folder) if finding.serious]
        for finding in found:
            click.echo(f"DAMAGE: {finding.path}: {finding.text}")
        if not found:
            click.echo("nothing to repair")
            return
        if not yes:
            click.echo("nothing was changed; add --yes to repair")
            sys.exit(1)
        kept = _repair(folder, found)
        left = [finding for finding in _verify(folder) if finding.serious]
    for path in kept:
        click.echo(f"kept: {path}")
    for finding in left:
        click.echo(f"LEFT: {finding.path}: {finding.text}")
    click.echo(f"{len(left)} damaged files are left")
    sys.exit(len(left) > 0)


def _repair(folder: str, found: list[Finding]) -> list[str]:
    aside = f"{folder}.removed-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    fs = KeepingFileSystem(FS, folder, aside)
    if not is_partition(FS, folder):
        repair_data_folder(fs, folder)
    damaged = [path for path in _partitions(folder) if any(finding.path.startswith(f"{path}/") for finding in found)]
    with click.progressbar(damaged, label="repairing", file=sys.stderr) as progress:
        for partition in progress:
            repair_partition(fs, partition, time.time_ns() // 1_000_000)
    return fs.kept


def _verify(folder: str) -> list[Finding]:
    folder = folder.rstrip("/")
    found = [] if is_partition(FS, folder) else list(verify_data_folder(FS, folder))
    partitions = _partitions(folder)
    total = sum(FS.size(f"{path}/{name}") for path in partitions for name in FS.listdir(path) if name.endswith(".log"))
    with click.progressbar(length=total, label="verifying", file=sys.stderr) as progress:
        for partition in partitions:
            found += verify_partition(FS, partition, progress.update)
    return found


def _partitions(folder: str) -> list[str]:
    return [folder] if is_partition(FS, folder) else partitions_in(FS, folder)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep a broker out of the data folder meanwhile; one that runs already keeps us out."""
    folder = os.path.abspath(folder)
    data_folder = folder.rpartition("/")[0] if is_partition(FS, folder) else folder
    path = f"{data_folder}/{LOCK_FILE}"
    if not FS.exists(path):
        yield
        return
    release = FS.lock(path)
    if release is None:
        raise click.ClickException(f"a broker is using {data_folder}: stop it first")
    try:
        yield
    finally:
        release()

"""`odradek backup verify PATH`: whether a backup is whole, without a broker."""

from __future__ import annotations

import sys

import click

from storage.files import FileSystem, OsFileSystem
from storage.state.manifest import SnapshotError, read, verify
from storage.tools.verification import Finding, verify_partition

FS: FileSystem = OsFileSystem()


@click.group("backup")
def main() -> None:
    """Verify a backup."""


@main.command("verify")
@click.argument("path", type=click.Path(exists=True, file_okay=False))
def verify_(path: str) -> None:
    """Compare the files with their list, and check every batch, record and index entry in them. Nothing is changed.

    Exit status 0: it is whole; 1: it is not, or is no backup.
    """
    try:
        manifest = read(FS, path)
        verify(FS, path, manifest)
    except (SnapshotError, OSError) as error:
        raise click.ClickException(str(error)) from error
    partitions = sorted(
        {
            f"{path}/{number}/{name.rpartition('/')[0]}"
            for number, files in enumerate(manifest.folders)
            for name in files
            if name.endswith(".log")
        }
    )
    found: list[Finding] = []
    for folder in partitions:
        try:
            listed = manifest.folders[int(folder[len(path) + 1 :].partition("/")[0])]
            name = folder.rpartition("/")[2]
            more = [one for one in FS.listdir(folder) if f"{name}/{one}" not in listed]
            if more:  # not restored; and whatever they are, they are not opened
                found.append(Finding(folder, f"has files that are not in the list of the backup: {more[0]!a}"))
                continue
            found += [finding for finding in verify_partition(FS, folder, lambda done: None) if finding.serious]
        except OSError as error:
            raise click.ClickException(f"{folder}: {error}") from error
    for finding in found:
        click.echo(f"DAMAGE: {finding.path}: {finding.text}")
    click.echo(f"{path}: cluster {manifest.cluster_id}, {len(partitions)} partitions, {manifest.size} bytes")
    click.echo(f"{len(found)} damaged")
    sys.exit(bool(found))

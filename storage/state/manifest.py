"""What a snapshot consists of: `snapshot.json`, written last, without which a folder is none.

It lists every file with its size, and with a checksum those that were copied. A segment that was linked has none: it
may be large, and its batches have their own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from storage.files import FileSystem, read_file
from storage.state.capture import FolderCapture, write_new

FILE_NAME = "snapshot.json"
FORMAT = 1
_PIECE_BYTES = 1 << 20


class SnapshotError(Exception):
    """There is no snapshot, or none that can be restored here; the message says why. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """Bytes of a file, and its CRC-32C; None for one that was linked."""

    size: int
    crc: int | None


Files = Mapping[str, FileEntry]
"""The files of one folder of `log.dirs`, by their names in it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """See above. `folders` are those of `log.dirs`, in that order; the first has the metadata."""

    node_id: int
    cluster_id: str
    taken_ms: int
    folders: Sequence[Files]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(entry.size for files in self.folders for entry in files.values())

    def write(self, fs: FileSystem, path: str) -> None:
        """Write it into the snapshot at `path`. Raises OSError."""
        content = {
            "format": FORMAT,
            "node_id": self.node_id,
            "cluster_id": self.cluster_id,
            "taken_ms": self.taken_ms,
            "folders": [{name: [file.size, file.crc] for name, file in files.items()} for files in self.folders],
        }
        write_new(fs, f"{path}/{FILE_NAME}.tmp", json.dumps(content).encode())
        fs.rename(f"{path}/{FILE_NAME}.tmp", f"{path}/{FILE_NAME}")


def describe(fs: FileSystem, capture: FolderCapture) -> Files:
    """The entries of what was captured and finished; blocking. Raises OSError."""
    linked = {name: FileEntry(fs.size(f"{capture.staging}/{name}"), None) for name in capture.links}
    copied = {name: _entry(fs, f"{capture.staging}/{name}") for name in (*capture.grown, *capture.written)}
    return linked | copied


def read(fs: FileSystem, path: str) -> Manifest:
    """Read the manifest of a snapshot. Raises SnapshotError, OSError."""
    try:
        content = json.loads(read_file(fs, f"{path}/{FILE_NAME}"))
    except (FileNotFoundError, NotADirectoryError):
        raise SnapshotError(f"{path} is no snapshot: it has no {FILE_NAME}") from None
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot {path} is damaged: {FILE_NAME} is no JSON ({error})") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise SnapshotError(f"the snapshot {path} has the format {version!r}; this release reads {FORMAT}")
    try:
        return _manifest(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"the snapshot {path} is damaged: {FILE_NAME} lacks or has a wrong {error}") from error


def _manifest(content: Mapping[str, Any]) -> Manifest:
    folders = [
        {_safe(name): FileEntry(int(size), None if crc is None else int(crc)) for name, (size, crc) in files.items()}
        for files in content["folders"]
    ]
    return Manifest(int(content["node_id"]), str(content["cluster_id"]), int(content["taken_ms"]), folders)


def _safe(name: str) -> str:
    """A name that stays below its folder. Raises ValueError."""
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"file name {name!r}")
    return name


def require_apart(path: str, roots: Sequence[str]) -> None:
    """Refuse a snapshot at this path if it and a folder of `log.dirs`, one of `roots`, lie in each other.

    A restore replaces all that these folders have, and would remove the snapshot with it. Blocking, as links are
    followed. Raises SnapshotError.
    """
    for root in roots:
        if _lies_in(path, root):
            where = f"lies in {root}, a folder of log.dirs"
        elif _lies_in(root, path):
            where = f"has {root} in it, a folder of log.dirs"
        else:
            continue
        raise SnapshotError(
            f"the snapshot {path} {where}: a restore replaces all that is there; keep it in a folder elsewhere"
        )


def _lies_in(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath((path, folder)) == folder


def usable(fs: FileSystem, path: str, node_id: int, roots: Sequence[str], cluster_id: str | None) -> Manifest:
    """The manifest of a snapshot that this node can have; blocking. Raises SnapshotError, OSError.

    `roots` are the folders of `log.dirs`, `cluster_id` the cluster that the node has to be in, None for any.
    """
    require_apart(path, roots)
    manifest = read(fs, path)
    verify(fs, path, manifest)
    if manifest.node_id != node_id:
        raise SnapshotError(f"the snapshot {path} is of node {manifest.node_id}; this is node {node_id} (node.id)")
    if len(manifest.folders) != len(roots):
        raise SnapshotError(f"the snapshot {path} has {len(manifest.folders)} folders, and log.dirs has {len(roots)}")
    if cluster_id not in (None, manifest.cluster_id):
        raise SnapshotError(
            f"the snapshot {path} is of cluster {manifest.cluster_id}, and odradek.cluster.id is {cluster_id}"
        )
    return manifest


def verify(fs: FileSystem, path: str, manifest: Manifest) -> None:
    """Compare the files with the manifest; blocking. Raises SnapshotError, OSError."""
    for number, files in enumerate(manifest.folders):
        for name, expected in files.items():
            file = f"{path}/{number}/{name}"
            try:
                found = _entry(fs, file) if expected.crc is not None else FileEntry(fs.size(file), None)
            except FileNotFoundError:
                raise SnapshotError(f"the snapshot {path} is damaged: {number}/{name} is missing") from None
            if found.size != expected.size:
                raise SnapshotError(
                    f"the snapshot {path} is damaged: {number}/{name} has {found.size} bytes, not {expected.size}"
                )
            if found.crc != expected.crc:
                raise SnapshotError(f"the snapshot {path} is damaged: the content of {number}/{name} is another")


def _entry(fs: FileSystem, path: str) -> FileEntry:
    file = fs.open_to_read(path)
    try:
        size, crc, at = file.size(), 0, 0
        while at < size:
            piece = file.pread(min(_PIECE_BYTES, size - at), at)
            if not piece:
                break
            crc = crc32c(piece, crc)
            at += len(piece)
        return FileEntry(size, crc)
    finally:
        file.close()

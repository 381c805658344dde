"""The content of a snapshot: `snapshot.json`, written last, without which a folder is none.

It lists every file with its size, and with a checksum those that were copied. A segment that was linked has none: it
may be large, and its batches have their own.

Whoever can write to the folder of a snapshot may have made all that is in it. So its names are those that a snapshot
has, and its files are files: a symbolic link would bring another file of this machine into a log, or have the node
append to it, and a FIFO would be waited for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocol.records.crc import crc32c
from storage.files import FileSystem, read_file
from storage.folders import log_names, meta_properties
from storage.folders.log_dirs import LOCK_FILE
from storage.folders.meta_properties import MetaPropertiesError
from storage.state.capture import FolderCapture, write_new

FILE_NAME = "snapshot.json"
FORMAT = 1
_PIECE_BYTES = 1 << 20
LARGEST_BYTES = 256 << 20
"""Of `snapshot.json`: some millions of files."""

_LARGEST_NUMBER = (1 << 63) - 1
_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_CLUSTER_ID = re.compile(r"[!-~]{1,255}")
_SHOWN = 80
"""Characters of a wrong value that are shown."""


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
class StateManifest:
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


def read(fs: FileSystem, path: str) -> StateManifest:
    """Read the manifest of a snapshot. Raises SnapshotError, OSError."""
    try:
        _require_file(fs, path, FILE_NAME)
        if fs.size(f"{path}/{FILE_NAME}") > LARGEST_BYTES:
            raise SnapshotError(f"the snapshot {path} is damaged: {FILE_NAME} has more than {LARGEST_BYTES} bytes")
        content = json.loads(read_file(fs, f"{path}/{FILE_NAME}"))
    except (FileNotFoundError, NotADirectoryError):
        raise SnapshotError(f"{path} is no snapshot: it has no {FILE_NAME}") from None
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"the snapshot {path} is damaged: {FILE_NAME} is no JSON ({error})") from error
    version = content.get("format") if isinstance(content, dict) else None
    if version != FORMAT:
        raise SnapshotError(f"the snapshot {path} has the format {_named(version)}; this release reads {FORMAT}")
    try:
        return _manifest(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SnapshotError(f"the snapshot {path} is damaged: {FILE_NAME} lacks or has a wrong {error}") from error


def _manifest(content: Mapping[str, Any]) -> StateManifest:
    folders = [
        {_safe(name): FileEntry(_number(size), None if crc is None else _number(crc)) for name, (size, crc) in each}
        for each in (files.items() for files in content["folders"])
    ]
    cluster_id = content["cluster_id"]
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise ValueError(f"cluster_id {_named(cluster_id)}")
    return StateManifest(_number(content["node_id"]), cluster_id, _number(content["taken_ms"]), folders)


def _number(value: Any) -> int:
    """Raises ValueError for what is no size, checksum, id or time."""
    if type(value) is not int or not 0 <= value <= _LARGEST_NUMBER:
        raise ValueError(f"number {_named(value)}")
    return value


def _safe(name: str) -> str:
    """The name of a file that a folder of `log.dirs` has, or a partition's folder in it. Raises ValueError."""
    folder, slash, file = name.rpartition("/")
    is_place = log_names.parse(folder) is not None and len(folder) <= log_names.LONGEST_NAME if slash else True
    if not is_place or not _NAME.fullmatch(file) or file in (".", "..", FILE_NAME, LOCK_FILE):
        raise ValueError(f"file name {_named(name)}")
    return name


def _named(value: Any) -> str:
    """The beginning of a wrong value, whatever was made of it."""
    return repr(value[:_SHOWN] if isinstance(value, str) else value)[:_SHOWN] if _is_plain(value) else "no number"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 128)


def _require_file(fs: FileSystem, path: str, name: str) -> None:
    """Refuse a name below `path` that leads elsewhere or is no file. Raises SnapshotError, OSError."""
    if os.path.realpath(f"{path}/{name}") != f"{os.path.realpath(path).rstrip('/')}/{name}":
        raise SnapshotError(f"the snapshot {path} is not safe: {name} is, or lies behind, a symbolic link")
    if not fs.is_file(f"{path}/{name}"):
        raise SnapshotError(f"the snapshot {path} is damaged: {name} is no file")


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


def usable(fs: FileSystem, path: str, node_id: int, roots: Sequence[str], cluster_id: str | None) -> StateManifest:
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
    _require_owner(fs, path, manifest)
    return manifest


def _require_owner(fs: FileSystem, path: str, manifest: StateManifest) -> None:
    """Refuse folders whose `meta.properties` say otherwise than the manifest: no start would take them."""
    for number, files in enumerate(manifest.folders):
        try:
            found = meta_properties.read(fs, f"{path}/{number}") if meta_properties.FILE_NAME in files else None
        except MetaPropertiesError as error:
            raise SnapshotError(f"the snapshot {path} is damaged: {error}") from error
        if found is None or (found.node_id, found.cluster_id) != (manifest.node_id, manifest.cluster_id):
            raise SnapshotError(
                f"the snapshot {path} is damaged: {number}/{meta_properties.FILE_NAME} is not there, or is of another "
                f"node or cluster than {FILE_NAME} says"
            )


def verify(fs: FileSystem, path: str, manifest: StateManifest) -> None:
    """Compare the files with the manifest; blocking. Raises SnapshotError, OSError."""
    for number, files in enumerate(manifest.folders):
        for name, expected in files.items():
            file = f"{path}/{number}/{name}"
            try:
                _require_file(fs, path, f"{number}/{name}")
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

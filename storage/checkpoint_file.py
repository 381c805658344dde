"""The text format of all of Kafka's checkpoints: version, number of entries, one entry per line (CheckpointFile)."""

from __future__ import annotations

from collections.abc import Sequence

from storage.files import FileSystem, read_file, write_file_atomically

_VERSION = 0


class CorruptCheckpointError(ValueError):
    """The file is not in this format, or its number of entries is wrong."""


def read_checkpoint(fs: FileSystem, path: str) -> list[str] | None:
    """The entries' lines; None if there is no file. Raises CorruptCheckpointError, OSError.

    An empty file has none: Kafka makes one before it first has something to write.
    """
    if not fs.exists(path):
        return None
    return checkpoint_entries(read_file(fs, path), path)


def checkpoint_entries(data: bytes, path: str) -> list[str]:
    """The entries' lines of a whole file, which is named `path`. Raises CorruptCheckpointError."""
    if not data:
        return []
    lines = data.decode(errors="replace").splitlines()
    entries = [line for line in lines[2:] if line.strip()]
    try:
        valid = int(lines[0]) == _VERSION and int(lines[1]) == len(entries)
    except (ValueError, IndexError) as error:
        raise CorruptCheckpointError(f"{path}: {error}") from error
    if not valid:
        raise CorruptCheckpointError(f"{path} has another version than {_VERSION}, or entries are missing")
    return entries


def write_checkpoint(fs: FileSystem, path: str, entries: Sequence[str]) -> None:
    """Replace the file, atomically and durably. Raises OSError."""
    write_file_atomically(fs, path, checkpoint_bytes(entries))


def checkpoint_bytes(entries: Sequence[str]) -> bytes:
    """The whole file."""
    return ("\n".join((str(_VERSION), str(len(entries)), *entries)) + "\n").encode()

"""The file that says that a follower's log is being built from remote storage (`tier_start`).

How it works: the file is there from before the log's old files go until its leader epochs and producers are those of
the new ones. If a kill comes in between, nobody can say what belongs together: such a log is dropped at the next start,
and the replica is an empty one. A kill before anything has gone leaves the log as it was.
"""

from __future__ import annotations

from storage.files import FileSystem, read_file
from storage.log.segment_recovery import segment_offsets

FILE_NAME = "begins-in-remote-storage"


def path_in(folder: str) -> str:
    """The file of the log in `folder`. It has the offset at which the log is to begin."""
    return f"{folder}/{FILE_NAME}"


def is_half_built(fs: FileSystem, folder: str) -> bool:
    """Whether the log's old files went, and the new ones are not complete. Raises OSError."""
    if not fs.exists(path := path_in(folder)):
        return False
    bases, text = segment_offsets(fs, folder), read_file(fs, path)
    return bool(text) and (not bases or bases[0] >= int(text))


def unmark(fs: FileSystem, folder: str) -> None:
    """Remove the file, if it is there; blocking. Raises OSError."""
    if fs.exists(path := path_in(folder)):
        fs.unlink(path)
        fs.fsync_dir(folder)

"""What a file system that stands before another (`storage/files.py`) has in common with others of its kind."""

from __future__ import annotations

from storage.files import FileSystem


class FileSystemOver:
    """Leaves to the other whatever neither writes, syncs nor changes a name; `_fs` is the other."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self.open_to_read = fs.open_to_read
        self.listdir = fs.listdir
        self.exists = fs.exists
        self.is_dir = fs.is_dir
        self.is_file = fs.is_file
        self.is_link = fs.is_link
        self.identity = fs.identity
        self.size = fs.size
        self.modified_ms = fs.modified_ms
        self.set_modified_ms = fs.set_modified_ms
        self.space = fs.space
        self.lock = fs.lock

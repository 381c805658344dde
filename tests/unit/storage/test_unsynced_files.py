"""Files that are never synced to the device are files all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from storage.files import OsFileSystem, UnsyncedFileSystem, read_file, sync_file, write_file_atomically


@pytest.mark.parametrize(("fs", "expected"), [(OsFileSystem(), True), (UnsyncedFileSystem(), False)])
def test_a_file_is_written_with_or_without_a_sync(
    fs: OsFileSystem, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("storage.files._sync_data", synced.append)
    monkeypatch.setattr(os, "fsync", synced.append)
    path = f"{tmp_path}/file"
    write_file_atomically(fs, path, b"content")
    sync_file(fs, path)
    assert read_file(fs, path) == b"content"
    assert len(synced) == (3 if expected else 0)

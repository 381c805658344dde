"""Folders of releases before 0.2: one that such a release wrote, and files of their format."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import crc32c

from tests.doubles.files import MemoryFileSystem

RECORDED = Path(__file__).with_name("earlier_release.tar.gz")
"""What a node of commit b8f6479 left after a clean stop (in unit tests' virtual time, hence small).

It has the topics `t`, `lines` and `a.b`, which got partitions 1 and 2 later. `gone` was deleted, but its folder could
not be renamed. The group `readers` has committed offset 2 of `t`. One transaction was committed to `t`. There are
configurations of every kind of resource, quotas, SCRAM credentials, and `share.version` is 1.
"""


def unpacked(fs: MemoryFileSystem, folder: str = "/data") -> None:
    """Put the recorded folder on a disk."""
    fs.mkdir(folder)
    with tarfile.open(fileobj=io.BytesIO(RECORDED.read_bytes()), mode="r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is None:
                fs.mkdir(f"{folder}/{member.name}")
            else:
                write(fs, f"{folder}/{member.name}", content.read())
        folders = [f"{folder}/{member.name}" for member in tar.getmembers() if member.isdir()]
    for each in (*folders, folder, "/"):
        fs.fsync_dir(each)


def write(fs: MemoryFileSystem, path: str, data: bytes) -> None:
    """Write a file whole; its name is not synced."""
    file = fs.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.fdatasync()
    file.close()


def entry(*commits: tuple[int, Mapping[str, str], list[str]]) -> bytes:
    """An entry of `metadata.log` or `metadata.snapshot`; commits are (revision, puts, deletes)."""
    written = [{"revision": number, "puts": dict(puts), "deletes": deletes} for number, puts, deletes in commits]
    payload = json.dumps(written).encode()
    checksum = crc32c.crc32c(payload, crc32c.crc32c(struct.pack(">I", len(payload))))
    return struct.pack(">4sII", b"\xf0OM1", len(payload), checksum) + payload

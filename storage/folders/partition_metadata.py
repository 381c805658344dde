"""`partition.metadata`: the topic id of a partition's folder (Kafka's PartitionMetadataFile)."""

from __future__ import annotations

from uuid import UUID

from protocol import uuids
from storage.files import FileSystem, read_file, write_file_atomically

FILE_NAME = "partition.metadata"


class CorruptPartitionMetadataError(Exception):
    """The file does not have the right format."""


def read(fs: FileSystem, folder: str) -> UUID | None:
    """The topic id, None if there is no file. Raises CorruptPartitionMetadataError, OSError."""
    path = f"{folder}/{FILE_NAME}"
    if not fs.exists(path):
        return None
    text = read_file(fs, path).decode(errors="replace")
    try:
        values = dict(line.split(": ", 1) for line in text.splitlines() if line)
        if values["version"] != "0":
            raise CorruptPartitionMetadataError(f"{path}: unknown version {values['version']}")
        return uuids.from_text(values["topic_id"])
    except (ValueError, KeyError) as error:
        raise CorruptPartitionMetadataError(f"{path}: {error}") from error


def write(fs: FileSystem, folder: str, topic_id: UUID) -> None:
    """Write the file; the caller syncs the folder. Raises OSError."""
    text = f"version: 0\ntopic_id: {uuids.to_text(topic_id)}"
    write_file_atomically(fs, f"{folder}/{FILE_NAME}", text.encode(), sync_folder=False)

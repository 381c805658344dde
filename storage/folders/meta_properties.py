"""`meta.properties`: whose log folder this is (Kafka's MetaProperties, version 1)."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from datetime import UTC, datetime

from protocol import uuids
from storage.files import FileSystem, read_file, write_file_atomically

FILE_NAME = "meta.properties"


class MetaPropertiesError(Exception):
    """The folder cannot be used: the file is unreadable, or says that it belongs to another node or cluster."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Ids of the cluster, the node and this folder; ids other than the node's are Kafka's 22-character text."""

    cluster_id: str
    node_id: int
    directory_id: str | None


def read(fs: FileSystem, folder: str) -> MetaProperties | None:
    """The folder's properties, None if it has no file yet. Raises MetaPropertiesError, OSError."""
    path = f"{folder}/{FILE_NAME}"
    if not fs.exists(path):
        return None
    values = {}
    for line in re.split(r"\r\n|\n|\r", read_file(fs, path).removeprefix(BOM_UTF8).decode("latin-1")):
        text = line.strip()
        if text and text[0] not in "#!":
            key, _, value = text.partition("=")
            values[key.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    version = values.get("version")
    if version != "1":
        raise MetaPropertiesError(f"{path}: version is {version!r}, expected 1")
    directory_id = values.get("directory.id")
    try:
        if directory_id is not None:
            uuids.from_text(directory_id)
        return MetaProperties(values["cluster.id"], int(values["node.id"]), directory_id)
    except (KeyError, ValueError) as error:
        raise MetaPropertiesError(
            f"{path}: an id of cluster, node or directory is missing or malformed ({error})"
        ) from error


def write(fs: FileSystem, folder: str, properties: MetaProperties, now_ms: int) -> None:
    """Write the file as Kafka does. Raises OSError."""
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    lines = ["#", f"#{when}", f"node.id={properties.node_id}"]
    if properties.directory_id is not None:
        lines.append(f"directory.id={_escape(properties.directory_id)}")
    lines += ["version=1", f"cluster.id={_escape(properties.cluster_id)}", ""]
    write_file_atomically(fs, f"{folder}/{FILE_NAME}", "\n".join(lines).encode("latin-1"))


def _escape(value: str) -> str:
    return re.sub(r"([\\=:#!])", r"\\\1", value)

"""Folders to restore from and into: the log of `audited` as a broker's, with the metadata of its cluster."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from odradek_pipeline.commands.restore import command
from protocol.records.batch import BatchHeader, read_header
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.pipeline.audited import TOPIC, fill
from tests.unit.storage.support import Rig


def broker_folder(root: Path) -> Path:
    """The topic of `audited`, with what a broker keeps of its cluster beside it."""
    fill(root)
    metadata = root / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "quorum-state").write_text("{}")
    return root


def other_cluster(root: Path, topic: str = TOPIC, partitions: int = 2) -> Path:
    """The folder of another cluster's broker, which has the topic, empty, with another id."""
    rig = Rig(OsFileSystem(), LogConfig(), str(root))
    for number in range(partitions):
        rig.log(topic, number)
    rig.manager.close()
    for path in root.glob(f"{topic}-*/partition.metadata"):
        path.write_text("version: 0\ntopic_id: MWJ6FHTfRYy67jzwZdeqSQ")
    return root


def restore(*arguments: object) -> tuple[int, dict[str, Any]]:
    """(exit status, result) of the command."""
    asked = CliRunner().invoke(command, [*map(str, arguments), "--json", "-"], catch_exceptions=False)
    return asked.exit_code, json.loads(asked.stdout) if asked.stdout.startswith("{") else {"text": asked.output}


def copies(folder: Path, *names: str) -> list[Path]:
    """The folder as those of several brokers, which are replicas."""
    return [shutil.copytree(folder, folder.parent / name) for name in names]


def batches(folder: Path, partition: int = 0, topic: str = TOPIC) -> list[tuple[Path, int, BatchHeader]]:
    """(file, position, header) of each batch of a partition."""
    found = []
    for log in sorted((folder / f"{topic}-{partition}").glob("*.log")):
        content, position = log.read_bytes(), 0
        while position < len(content):
            header = read_header(content, position)
            found.append((log, position, header))
            position += header.size
    return found


def spoil(folder: Path, offset: int, partition: int = 0) -> BatchHeader:
    """Change a byte of the batch at an offset, which its CRC does cover; its header."""
    log, position, header = _at(folder, offset, partition)
    content = bytearray(log.read_bytes())
    content[position + header.size - 1] ^= 0xFF
    log.write_bytes(content)
    return header


def misplace(folder: Path, offset: int, to: int, partition: int = 0) -> BatchHeader:
    """Give the batch at an offset another one, which no CRC covers; its header."""
    log, position, header = _at(folder, offset, partition)
    content = bytearray(log.read_bytes())
    struct.pack_into(">q", content, position, to)
    log.write_bytes(content)
    return header


def _at(folder: Path, offset: int, partition: int) -> tuple[Path, int, BatchHeader]:
    (found,) = (one for one in batches(folder, partition) if one[2].base_offset <= offset < one[2].next_offset)
    return found


def content(folder: Path, partition: int = 0) -> bytes:
    """All of a partition's log."""
    return b"".join(log.read_bytes() for log in sorted((folder / f"{TOPIC}-{partition}").glob("*.log")))


def lost(result: dict[str, Any]) -> dict[int, list[list[int]]]:
    """By partition, the offsets that are lost."""
    return {one["partition"]: one["lost"]["ranges"] for one in result["partitions"] if one["lost"]["count"]}

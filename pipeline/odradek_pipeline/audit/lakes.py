"""Where `odradek-pipeline lake` has put a topic: its table, its dead letters, and how far its newest batch goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pyarrow import fs

from odradek_pipeline.audit.opened import OpenTable, exists, format_of, place_of
from odradek_pipeline.audit.sides import AuditError
from odradek_pipeline.lake import naming
from odradek_pipeline.lake.state import Checkpoint

if TYPE_CHECKING:
    from odradek_pipeline.files import Files

RECORDS = "records"


class _ArrowFiles:
    """What a checkpoint's reader needs of `odradek_pipeline.files.Files`, without Spark's JVM."""

    def exists(self, path: str) -> bool:
        return exists(path)

    def names(self, folder: str) -> list[str]:
        system, path = place_of(folder)
        if not exists(folder):
            return []
        return sorted(entry.base_name for entry in system.get_file_info(fs.FileSelector(path)))

    def read(self, path: str) -> str:
        system, at = place_of(path)
        with system.open_input_stream(at) as stream:
            text: str = stream.read().decode()
        return text


def tables_of(
    lake: str, topic: str, table_format: str | None, names: Mapping[str, str]
) -> tuple[OpenTable, OpenTable | None]:
    """A topic's table, and its dead letters if there are any. Raises AuditError."""
    uri = f"{lake}/{naming.folder(topic)}"
    if not exists(uri):
        raise AuditError(f"{lake} has no table for the topic {topic}: {uri} is not there.")
    table = OpenTable(uri, table_format or format_of(uri), names)
    bad = f"{lake}/{naming.dead_letters_folder(topic)}"
    if not exists(bad) or (table.format == "parquet" and not _has_rows(bad)):
        return table, None
    return table, OpenTable(bad, table.format, names)


def _has_rows(uri: str) -> bool:
    """A Parquet table of dead letters is there before it has a row, and then no file says its columns."""
    system, path = place_of(uri)
    found = system.get_file_info(fs.FileSelector(path, recursive=True))
    return any(entry.extension == "parquet" for entry in found)


def newest_batch(lake: str, topic: str, checkpoints: str | None) -> Mapping[int, int] | None:
    """By partition, the end of the newest batch that the job knows to be in the tables; None without a checkpoint.

    Raises AuditError for a table of one row a key.
    """
    folder = f"{checkpoints or f'{lake}/{naming.CHECKPOINTS}'}/{naming.folder(topic)}"
    checkpoint = Checkpoint(cast("Files", _ArrowFiles()), folder)
    state = checkpoint.load()
    if state is not None and state.upsert:
        raise AuditError(f"The table of {topic} has one row a key, and not each record: it cannot be audited.")
    return None if state is None else checkpoint.next_offsets(state, RECORDS).get(topic, {})

"""JSON of more levels than Python reads: each of the kit's readers says so, and none ends with a RecursionError."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from odradek.assertions import identity
from odradek.cli import contexts
from odradek.cli.records import from_json
from odradek.record import Bytes, Record, record_as_json
from storage.files import OsFileSystem
from storage.state.manifest import FILE_NAME, SnapshotError, read

DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000


def test_value_of_a_record() -> None:
    record = Record("t", 0, 7, 0, None, Bytes(DEEP.encode()))
    with pytest.raises(ValueError, match="offset 7 of t-0 is nested too deeply"):
        record.json()
    with pytest.raises(ValueError, match="offset 7 of t-0 is no JSON"):
        identity("value.a")(record)


def test_value_to_write() -> None:
    deep: dict[str, object] = {}
    for _ in range(2_000):
        deep = {"a": deep}
    with pytest.raises(TypeError, match="nested too deeply"):
        record_as_json(deep)


def test_line_of_the_command_line() -> None:
    with pytest.raises(click.ClickException, match="line 3 is no JSON"):
        from_json(DEEP, 3)


def test_contexts_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "contexts.json").write_text(DEEP)
    monkeypatch.setenv(contexts.FILE, str(tmp_path / "contexts.json"))
    with pytest.raises(click.ClickException, match=r"contexts\.json: expected"):
        contexts.read()


def test_list_of_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(DEEP)
    with pytest.raises(SnapshotError, match="is damaged"):
        read(OsFileSystem(), str(tmp_path))

"""A snapshot that an attacker made: its list and its files lead nowhere else, and are refused in one sentence."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from crc32c import crc32c

from broker.admin.logs import backup
from storage.files import OsFileSystem
from storage.folders.strays import remove_folder
from storage.state import manifest
from storage.state.manifest import FILE_NAME, SnapshotError, usable

FS = OsFileSystem()
META = b"node.id=1\nversion=1\ncluster.id=abc\n"
LOG = f"t-0/{0:020}.log"
Change = Callable[[dict[str, Any]], object]


def snapshot(path: Path, change: Change = lambda content: None) -> Path:
    """A snapshot of one empty log; its list is changed."""
    (path / "0" / "t-0").mkdir(parents=True)
    (path / "0" / "meta.properties").write_bytes(META)
    (path / "0" / LOG).write_bytes(b"")
    files: dict[str, Any] = {"meta.properties": [len(META), crc32c(META)], LOG: [0, None]}
    content = {"format": 1, "node_id": 1, "cluster_id": "abc", "taken_ms": 7, "folders": [files]}
    change(content)
    (path / FILE_NAME).write_text(json.dumps(content))
    return path


def refusal(path: Path) -> str:
    """Why a node does not take it; `odradek backup verify` says the same."""
    with pytest.raises(SnapshotError) as caught:
        usable(FS, str(path), 1, [str(path.parent / "data")], None)
    return str(caught.value)


def test_what_the_tests_change_is_taken_without_the_change(tmp_path: Path) -> None:
    assert usable(FS, str(snapshot(tmp_path / "s")), 1, [str(tmp_path / "data")], "abc").size == len(META)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "/etc/passwd", "../x", "t-0/../../x", "t-0//x", "t-0/", "t-0/.", "./x", "a/b-0/x", "t/x"),
        *(".lock", ".odradek-restore/old/x", ".odradek-histories/x", "lost+found/x", FILE_NAME, f"t-0/{FILE_NAME}"),
        *("a\0b", "\ud800", "a\nb", "\x1b[2Jx", "x" * 300, f"{'t' * 300}-0/x", "t-0\n/x", "x\\y", "\u202ex"),
    ],
)
def test_a_file_name_that_no_snapshot_has_is_refused(tmp_path: Path, name: str) -> None:
    path = snapshot(tmp_path / "s", lambda content: content["folders"][0].update({name: [0, None]}))
    told = refusal(path)
    assert "file name" in told
    assert told.isprintable() and len(told) < 500


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["folders"][0].update({LOG: [float("inf"), None]}),
        lambda content: content["folders"][0].update({LOG: [-1, None]}),
        lambda content: content["folders"][0].update({LOG: [1 << 70, None]}),
        lambda content: content["folders"][0].update({LOG: [True, None]}),
        lambda content: content["folders"][0].update({LOG: ["0", None]}),
        lambda content: content["folders"][0].update({LOG: [0, float("nan")]}),
        lambda content: content["folders"][0].update({LOG: 7}),
        lambda content: content.update(folders="abc"),
        lambda content: content.update(folders=None),
        lambda content: content.update(node_id=float("inf")),
        lambda content: content.update(taken_ms=10**4000),
        lambda content: content.update(cluster_id="\x1b]0;title\x07"),
        lambda content: content.update(cluster_id=["abc"]),
        lambda content: content.update(cluster_id="x" * 1_000_000),
        lambda content: content.update(format=json.loads("[" * 600 + "]" * 600)),
        lambda content: content.update(format="x" * 1_000_000),
        lambda content: content.update(format="\x1b[2J"),
    ],
)
def test_a_list_with_hostile_values_is_refused_in_a_short_sentence(tmp_path: Path, change: Change) -> None:
    told = refusal(snapshot(tmp_path / "s", change))
    assert told.isprintable() and len(told) < 500


def test_a_list_nested_without_end_is_refused(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "s")
    (path / FILE_NAME).write_text("[" * 200_000)
    assert "is no JSON" in refusal(path)


def test_a_list_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LARGEST_BYTES", 100)
    assert "more than 100 bytes" in refusal(snapshot(tmp_path / "s"))


@pytest.mark.parametrize("name", ["0/meta.properties", f"0/{LOG}", "0/t-0", "0", FILE_NAME])
def test_a_symbolic_link_is_refused_wherever_it_lies(tmp_path: Path, name: str) -> None:
    path = snapshot(tmp_path / "s")
    (path / name).rename(tmp_path / "elsewhere")
    (path / name).symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refusal(path)
    assert CliRunner().invoke(backup, ["verify", str(path)]).exit_code == 1


@pytest.mark.parametrize("name", [f"0/{LOG}", FILE_NAME])
def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    path = snapshot(tmp_path / "s")
    (path / name).unlink()
    os.mkfifo(path / name)
    assert "is no file" in refusal(path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "s", lambda content: content["folders"][0].update({"t-0": [4096, None]}))
    assert "t-0 is no file" in refusal(path)


def test_a_snapshot_may_itself_lie_behind_a_link(tmp_path: Path) -> None:
    snapshot(tmp_path / "s")
    (tmp_path / "link").symlink_to(tmp_path / "s")
    assert usable(FS, str(tmp_path / "link"), 1, [str(tmp_path / "data")], None).node_id == 1


@pytest.mark.parametrize(
    "meta", [b"node.id=2\nversion=1\ncluster.id=abc\n", b"node.id=1\nversion=1\ncluster.id=abd\n", b"version=1\n", None]
)
def test_meta_properties_of_another_node_or_cluster_than_the_list_says_are_refused(
    tmp_path: Path, meta: bytes | None
) -> None:
    def change(content: dict[str, Any]) -> None:
        del content["folders"][0]["meta.properties"]
        if meta is not None:
            content["folders"][0]["meta.properties"] = [len(meta), crc32c(meta)]

    path = snapshot(tmp_path / "s", change)
    (path / "0" / "meta.properties").write_bytes(meta or META)
    assert "meta.properties" in refusal(path)


def test_verify_opens_no_file_that_the_list_has_not(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "s")
    os.mkfifo(path / "0" / "t-0" / f"{5:020}.log")
    told = CliRunner().invoke(backup, ["verify", str(path)])
    assert (told.exit_code, "not in the list of the backup" in told.output) == (1, True)


def test_what_a_link_leads_to_is_not_removed_with_a_snapshot(tmp_path: Path) -> None:
    path = snapshot(tmp_path / "s")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    shutil.rmtree(path / "0")
    (path / "0").symlink_to(tmp_path / "kept")
    remove_folder(FS, str(path))
    assert not path.exists()
    assert (tmp_path / "kept" / "file").read_text() == "kept"

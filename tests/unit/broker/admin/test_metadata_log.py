"""`odradek metadata dump`, on what Kafka 4.4 wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.admin.metadata_log import main
from protocol.records.batch import read_header

KAFKA = Path(__file__).parents[2] / "controller" / "quorum" / "kafka"
SEGMENT = f"{0:020d}.log"
SNAPSHOT = f"{0:020d}-{0:010d}.checkpoint"


def tool(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["dump", *map(str, arguments)])


def rows(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tool("--json", *arguments).output.splitlines()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of log.dirs."""
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    shutil.copy(KAFKA / "standalone.log", folder / SEGMENT)
    shutil.copy(KAFKA / "standalone.checkpoint", folder / SNAPSHOT)
    (folder / "quorum-state").write_text("{}")
    return tmp_path


def test_every_record_has_kafkas_names(root: Path) -> None:
    found = [row for row in rows(root) if "record" in row and row["file"].endswith(".log")]
    assert found[0]["type"] == "LeaderChangeMessage"
    assert found[0]["record"]["leaderId"] == 1
    assert found[1]["record"] == {"version": 0, "kRaftVersion": 1}
    assert found[2]["record"]["voters"][0]["voterDirectoryId"] == "0uar37j8TaGy8LXmU9kBvQ"
    assert found[4] == {
        "file": str(root / "__cluster_metadata-0" / SEGMENT),
        "offset": 4,
        "epoch": 1,
        "time": "2026-11-27T02:36:31.149Z",
        "type": "FeatureLevelRecord",
        "version": 0,
        "record": {"name": "metadata.version", "featureLevel": 33},
    }
    broker = next(row for row in found if row["type"] == "RegisterBrokerRecord")
    assert broker["record"]["endPoints"] == [
        {"name": "PLAINTEXT", "host": "127.0.0.1", "port": 19510, "securityProtocol": 0}
    ]
    assert broker["version"] == 4


def test_a_folder_or_a_file(root: Path) -> None:
    folder = root / "__cluster_metadata-0"
    assert rows(root) == rows(folder) == rows(folder / SNAPSHOT, folder / SEGMENT)


def test_the_bootstrap_records_of_older_releases(root: Path) -> None:
    shutil.copy(KAFKA / "bootstrap-4.1.checkpoint", root / "bootstrap.checkpoint")
    assert rows(root)[3]["record"] == {"name": "metadata.version", "featureLevel": 27}
    shutil.rmtree(root / "__cluster_metadata-0")
    assert len(rows(root)) == 9


def test_for_people(root: Path) -> None:
    lines = tool(root / "__cluster_metadata-0" / SNAPSHOT).output.splitlines()
    assert lines[0] == f"# {root}/__cluster_metadata-0/{SNAPSHOT}"
    assert lines[1].startswith("batch_at=0 base_offset=0 last_offset=2 epoch=0 time_ms=")
    assert lines[6] == '  3 FeatureLevelRecord v0 {"name":"metadata.version","featureLevel":33}'


def test_without_no_ops(root: Path) -> None:
    every, some = rows(root), rows("--skip-noop", root)
    dropped = [row for row in every if row not in some]
    assert {row.get("type", "batch") for row in dropped} == {"NoOpRecord", "batch"}
    assert all(row.get("type") != "NoOpRecord" for row in some)
    assert len(some) > 20


def test_what_cannot_be_read_is_named(root: Path) -> None:
    path = root / "__cluster_metadata-0" / SEGMENT
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data[:-5])
    done = tool(path)
    assert done.exit_code == 1
    assert 'error="the CRC does not match"' in done.output
    assert "no_batch_at=" in done.output.splitlines()[-1]
    assert tool(root / "quorum-state").exit_code == 2
    nothing = root / "nothing"
    nothing.mkdir()
    assert "has no metadata log" in tool(nothing).output


def test_an_unknown_record_is_shown_as_bytes(root: Path) -> None:
    path = root / "__cluster_metadata-0" / SEGMENT
    data = bytearray(path.read_bytes())
    start = read_header(data).size
    from protocol.records.build import Record, build_batch

    batch = build_batch([Record(0, 5, None, b"\x01\x63\x00rest")])
    path.write_bytes(bytes(data[:start] + batch))
    done = tool(path)
    assert done.exit_code == 1
    assert 'error="metadata record type 99 is not known" value=hex:01630072657374' in done.output

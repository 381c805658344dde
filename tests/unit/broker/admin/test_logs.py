"""`odradek log dump|verify|repair` on real files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from broker.admin.logs import main
from protocol.coordinator_records.consumer_group_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from protocol.coordinator_records.group_records import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from protocol.coordinator_records.record_schema import MemberKey
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from storage.log.unified_log import UnifiedLog
from tests.unit.storage.cleaner.cleaning import clean, end_txn, keyed, put
from tests.unit.storage.support import NOW, Rig, append, batch, contents

BASE = "00000000000000000000"
ROOT = Path(__file__).parents[4]


def tool(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def rig_in(folder: Path, topic: str = "t") -> tuple[Rig, UnifiedLog]:
    rig = Rig(OsFileSystem(), LogConfig(segment_bytes=800, index_interval_bytes=1), root=str(folder / "data"))
    return rig, rig.log(topic)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder, closed cleanly, with every kind of file and three segments."""
    rig, log = rig_in(tmp_path)
    for number in range(20):
        append(log, batch(b"value %d" % number, timestamp=NOW + number, producer_id=7, sequence=number))
    put(log, (b"k", b"v"), producer_id=8, transactional=True)
    end_txn(log, 8, commit=False)
    rig.manager.close()
    return tmp_path / "data"


def contents_of(data: Path) -> dict[str, bytes]:
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def flip(path: Path, position: int) -> None:
    changed = bytearray(path.read_bytes())
    changed[position] ^= 0x40
    path.write_bytes(changed)


# -- verify


def test_a_sound_folder_is_found_so_and_left_as_it_was(data: Path) -> None:
    before = contents_of(data)
    for folder in (data, data / "t-0"):
        done = tool("verify", folder)
        assert (done.exit_code, "0 damaged, 0 notes" in done.output) == (0, True), done.output
    assert contents_of(data) == before


@pytest.mark.parametrize("command", [("verify",), ("repair",), ("repair", "--yes")])
def test_a_folder_of_something_else_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "project-2").mkdir()
    (tmp_path / "project-2" / "notes.tmp").write_text("mine")
    done = tool(*command, tmp_path)
    assert (done.exit_code, "is no folder of log.dirs" in done.output) == (2, True), done.output
    assert contents_of(tmp_path) == {"project-2/notes.tmp": b"mine"}


def test_a_compacted_log_is_sound_too(tmp_path: Path) -> None:
    rig, log = rig_in(tmp_path)
    for number in range(40):
        put(log, (b"%d" % (number % 3), b"v" * 40), producer_id=3, sequence=number)
    log.roll()
    put(log, (b"last", b"record"))
    log.config = LogConfig(compact=True, min_cleanable_dirty_ratio=0.0)
    assert clean(rig)
    rig.clock.advance(60_000)
    rig.workers.run_all()
    rig.manager.close()
    done = tool("verify", tmp_path / "data")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("name", "position", "says"),
    [
        (f"t-0/{BASE}.log", 100, "wrong CRC"),
        (f"t-0/{BASE}.index", 15, "the batch at position"),
        (f"t-0/{BASE}.timeindex", 3, "has timestamp"),
        ("t-0/00000000000000000022.snapshot", 8, "checksum"),
        ("t-0/leader-epoch-checkpoint", 0, "leader-epoch-checkpoint"),
        ("t-0/partition.metadata", 9, "partition.metadata"),
        ("meta.properties", -36, "version is"),
        ("recovery-point-offset-checkpoint", 0, "recovery-point"),
    ],
)
def test_damage_is_named_and_nothing_changed(data: Path, name: str, position: int, says: str) -> None:
    flip(data / name, position)
    before = contents_of(data)
    done = tool("verify", data)
    assert done.exit_code == 1
    assert "DAMAGE" in done.output
    assert says in done.output
    assert contents_of(data) == before


def test_a_torn_end_is_damage_and_a_leftover_is_not(data: Path) -> None:
    (data / "t-0" / f"{BASE}.log.deleted").write_bytes(b"x")
    done = tool("verify", data)
    assert (done.exit_code, "0 damaged, 1 notes" in done.output) == (0, True)
    last = max((data / "t-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-3])
    done = tool("verify", data)
    assert done.exit_code == 1
    assert "no whole batch" in done.output


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    rig_in(tmp_path)
    for command in ("verify", "repair"):
        done = tool(command, tmp_path / "data")
        assert done.exit_code == 1
        assert "a broker is using" in done.output


# -- repair


def test_repair_changes_nothing_unless_told(data: Path) -> None:
    flip(data / "t-0" / f"{BASE}.log", 100)
    before = contents_of(data)
    done = tool("repair", data)
    assert done.exit_code == 1
    assert "--yes" in done.output
    assert contents_of(data) == before


def test_a_bad_batch_is_cut_off_and_what_goes_is_kept(data: Path) -> None:
    size = (data / "t-0" / f"{BASE}.log").stat().st_size
    second = sorted((data / "t-0").glob("*.log"))[1]
    first = (data / "t-0" / f"{BASE}.log").read_bytes()
    moved = second.read_bytes()
    flip(data / "t-0" / f"{BASE}.log", size - 10)
    damaged = (data / "t-0" / f"{BASE}.log").read_bytes()
    done = tool("repair", data, "--yes")
    assert done.exit_code == 0, done.output
    (aside,) = data.parent.glob("data.removed-*")
    assert (aside / "t-0" / second.name).read_bytes() == moved
    (tail,) = (aside / "t-0").glob(f"{BASE}.log.from-*")
    kept = (data / "t-0" / f"{BASE}.log").read_bytes()
    assert kept + tail.read_bytes() == damaged
    assert first.startswith(kept)
    assert tool("verify", data).exit_code == 0
    rig = Rig(OsFileSystem(), root=str(data))
    assert b"".join(contents(rig.log())) == kept


@pytest.mark.parametrize(
    "name",
    [
        f"t-0/{BASE}.index",
        f"t-0/{BASE}.timeindex",
        "t-0/00000000000000000022.snapshot",
        "t-0/leader-epoch-checkpoint",
        "log-start-offset-checkpoint",
    ],
)
def test_what_is_beside_the_log_is_made_anew_from_it(data: Path, name: str) -> None:
    expected = (data / "t-0" / f"{BASE}.log").read_bytes()
    (data / name).write_bytes(b"\x01\x02\x03")
    assert tool("repair", data, "--yes").exit_code == 0
    assert (data / "t-0" / f"{BASE}.log").read_bytes() == expected
    assert tool("verify", data).exit_code == 0


def test_a_sound_folder_has_nothing_to_repair(data: Path) -> None:
    done = tool("repair", data, "--yes")
    assert (done.exit_code, "nothing to repair" in done.output) == (0, True)
    assert not list(data.parent.glob("data.removed-*"))


# -- dump


def rows(*arguments: object) -> list[dict[str, object]]:
    done = tool("dump", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def test_every_file_of_a_folder_is_dumped(data: Path) -> None:
    found = rows(data)
    files = {str(row["file"]).rpartition(".")[2] for row in found}
    assert {"log", "index", "timeindex", "txnindex", "snapshot", "properties"} <= files
    values = [row["value"] for row in found if "value" in row]
    assert values == [*(f"value {number}" for number in range(20)), "v"]
    assert [row["marker"] for row in found if "marker" in row] == ["ABORT"]
    assert all(row["crc_ok"] for row in found if "crc_ok" in row)
    text = tool("dump", data / "t-0")
    assert text.exit_code == 0
    assert 'value="value 3"' in text.output
    assert "value=" not in tool("dump", "--no-records", data / "t-0").output


def test_internal_topics_are_put_in_words(tmp_path: Path) -> None:
    rig, log = rig_in(tmp_path, "__consumer_offsets")
    key = OFFSET_COMMIT.encode_key(OffsetCommitKey("group", "topic", 3))
    value = OFFSET_COMMIT.encode_value(OffsetCommitValue(42, -1, "note", NOW, -1))
    append(log, keyed((key, value), (key, None)))
    rig.manager.close()
    first, second = rows(tmp_path / "data" / "__consumer_offsets-0" / f"{BASE}.log")[1:]
    assert first["type"] == "OffsetCommit"
    assert {"group", "topic", 3} <= set(first["key"].values())  # type: ignore[attr-defined]
    assert 42 in first["value"].values()  # type: ignore[attr-defined]
    assert second["value"] is None


def test_assignments_are_put_in_words(tmp_path: Path) -> None:
    rig, log = rig_in(tmp_path, "__consumer_offsets")
    schema, topic_id = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, UUID(int=5)
    value = ConsumerGroupCurrentMemberAssignmentValue(3, 2, 1, {topic_id: frozenset({9, 1, 4})}, {})
    key = MemberKey("group", "member")
    append(log, keyed((schema.encode_key(key), schema.encode_value(value))))
    rig.manager.close()
    (row,) = rows(tmp_path / "data" / "__consumer_offsets-0" / f"{BASE}.log")[1:]
    assert (row["type"], row["key"]) == (schema.name, {"group": "group", "member_id": "member"})
    assert row["value"] == value._asdict() | {"assigned": {str(topic_id): [1, 4, 9]}}


def test_a_file_that_cannot_be_read_fails_the_dump(data: Path) -> None:
    snapshot = next((data / "t-0").glob("*.snapshot"))
    snapshot.write_bytes(b"nonsense")
    shutil.rmtree(data / "nothing", ignore_errors=True)
    done = tool("dump", snapshot)
    assert done.exit_code == 1
    assert str(snapshot) in done.output


def test_a_reader_that_has_enough_ends_the_dump_without_a_word(data: Path) -> None:
    dump = [sys.executable, "-m", "broker", "log", "dump", "--json", str(data)]
    told = subprocess.run(["sh", "-c", '"$@" | :', "sh", *dump], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stderr == ""

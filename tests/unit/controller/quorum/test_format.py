"""Formatting: the files that `kafka-storage format` of Kafka 4.4 writes, byte for byte but for times."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.quorum.features import FeatureError, chosen_levels, default_levels, level_of_release, version_name
from controller.quorum.format import FormatError, Formatting, bootstrap_records, format_folders, voters_record
from controller.quorum.survey import survey
from protocol import uuids
from protocol.metadata.brokers import VoterEndpoint
from protocol.metadata.serde import decode_control
from protocol.records.batch import read_header
from protocol.records.build import iter_records
from storage.files import read_file
from storage.folders import meta_properties
from storage.folders.meta_properties import MetaPropertiesError
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.controller.quorum.support import FOLDER, ROOT, made_root
from tests.unit.storage.support import NOW, MachineStopped, stop_after

KAFKA = Path(__file__).parent / "kafka"
STATIC = Path(__file__).parents[2] / "protocol" / "metadata" / "kafka" / "kafka-4.4.checkpoint"
BOOTSTRAP = f"{FOLDER}/{0:020d}-{0:010d}.checkpoint"
WANTED = Formatting(
    "k2hLyQu2SZu2ZLwXKgnjPw", 1, (ROOT,), ROOT, bootstrap_records(chosen_levels(None, {}, dynamic=False))
)
ENDPOINT = VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=19511)


@pytest.fixture
def fs() -> MemoryFileSystem:
    return made_root(MemoryFileSystem())


def formatted(fs: MemoryFileSystem, **changes: Any) -> list[str]:
    return format_folders(fs, lambda: NOW, random.Random(7), replace(WANTED, **changes))


def without_times(snapshot: bytes) -> bytes:
    """The snapshot's batches with their times set to 0, and so with no CRCs."""
    out = bytearray(snapshot)
    at = 0
    while at < len(out):
        size = read_header(out, at).size
        out[at + 17 : at + 21] = bytes(4)
        out[at + 27 : at + 43] = bytes(16)
        at += size
    out[61 + 12 : 61 + 20] = bytes(8)  # last_contained_log_timestamp, in the header's record
    return bytes(out)


def test_the_snapshot_of_a_static_voter(fs: MemoryFileSystem) -> None:
    assert formatted(fs) == [ROOT]
    ours, kafkas = read_file(fs, BOOTSTRAP), STATIC.read_bytes()
    assert without_times(ours) == without_times(kafkas)
    header = next(iter_records(kafkas, read_header(kafkas)))
    assert decode_control(header.key, header.value).last_contained_log_timestamp != 0
    properties = meta_properties.read(fs, ROOT)
    assert (properties.cluster_id, properties.node_id) == ("k2hLyQu2SZu2ZLwXKgnjPw", 1)


def test_the_snapshot_of_a_dynamic_voter(fs: MemoryFileSystem) -> None:
    formatted(fs, voter=ENDPOINT)
    ours, kafkas = read_file(fs, BOOTSTRAP), (KAFKA / "standalone.checkpoint").read_bytes()
    directory_id = uuids.from_text(meta_properties.read(fs, ROOT).directory_id or "")
    theirs = uuids.from_text("0uar37j8TaGy8LXmU9kBvQ")
    assert without_times(ours).replace(directory_id.bytes, theirs.bytes) == without_times(kafkas)
    found = survey(fs, ROOT, 1, directory_id)
    assert found.facts.kraft_version == 1
    assert found.facts.voters == voters_record(1, directory_id, ENDPOINT)


def test_only_the_folder_of_the_metadata_gets_a_snapshot(fs: MemoryFileSystem) -> None:
    assert formatted(fs, folders=("/other", ROOT)) == ["/other", ROOT]
    assert fs.listdir("/other") == ["meta.properties"]
    first, second = (meta_properties.read(fs, folder) for folder in ("/other", ROOT))
    assert first.directory_id != second.directory_id


def test_what_is_formatted_is_left_alone(fs: MemoryFileSystem) -> None:
    formatted(fs)
    before = read_file(fs, f"{ROOT}/meta.properties")
    with pytest.raises(FormatError, match="/data is already formatted"):
        formatted(fs, folders=(ROOT, "/other"))
    assert not fs.exists("/other")
    assert formatted(fs, folders=(ROOT, "/other"), ignore_formatted=True) == ["/other"]
    assert formatted(fs, ignore_formatted=True) == []
    assert read_file(fs, f"{ROOT}/meta.properties") == before


@pytest.mark.parametrize("change", [{"cluster_id": "another"}, {"node_id": 2}])
def test_the_folder_of_another_is_refused(fs: MemoryFileSystem, change: dict[str, Any]) -> None:
    formatted(fs)
    with pytest.raises(MetaPropertiesError, match="Invalid"):
        formatted(fs, ignore_formatted=True, **change)


@pytest.mark.parametrize("unsynced", list(Unsynced))
def test_the_power_may_fail_in_between(unsynced: Unsynced) -> None:
    """A folder counts as formatted only when all is there."""
    number, whole = 0, False
    while not whole:
        fs = made_root(MemoryFileSystem())
        fs.hook = stop_after(number)
        try:
            formatted(fs)
            whole = True
        except MachineStopped:
            pass
        fs.hook = None
        fs.crash(unsynced, number)
        if whole or meta_properties.read(fs, ROOT) is not None:
            assert survey(fs, ROOT, 1, None).bootstrap == WANTED.records
        else:
            formatted(fs)
        number += 1
    assert number > 10


# -- levels


def mapping() -> list[str]:
    return (KAFKA / "version-mapping.txt").read_text().splitlines()


@pytest.mark.parametrize("line", mapping())
def test_the_levels_of_every_release(line: str) -> None:
    """As `kafka-storage version-mapping` prints them."""
    first, name, *others = line.split()
    level = int(first.removeprefix("metadata.version="))
    assert level_of_release(name.strip("()")) == level
    expected = {feature: int(value) for feature, value in (each.split("=") for each in others)}
    assert default_levels(level) == {"metadata.version": level, **expected}


def test_names_of_levels() -> None:
    assert [version_name(level) for level in (7, 33, 34, 3)] == ["3.3-IV3", "4.4-IV2", "34", "3"]


def test_chosen_levels() -> None:
    levels = chosen_levels("3.9", {"group.version": 1}, dynamic=True)
    assert levels["metadata.version"] == 21
    names = [record.name for record in bootstrap_records(levels)]
    assert names == ["metadata.version", "group.version"]
    assert chosen_levels(None, {"metadata.version": 30}, dynamic=False)["share.version"] == 1
    assert chosen_levels(None, {"share.version": 0}, dynamic=False)["share.version"] == 0


@pytest.mark.parametrize(
    ("release", "given", "dynamic", "said"),
    [
        ("4.5", {}, False, "Unknown metadata.version '4.5'"),
        ("2.8", {}, False, "Unknown metadata.version '2.8'"),
        ("4.1", {"metadata.version": 30}, False, "to avoid ambiguity"),
        (None, {"metadata.version": 34}, False, "from 7 to 33"),
        (None, {"nix": 1}, False, "Unsupported feature: nix"),
        (None, {"share.version": 7}, False, "No feature:share.version with feature level 7"),
        ("3.9", {"eligible.leader.replicas.version": 1}, False, "depends on metadata.version level 23"),
        (None, {"kraft.version": 1}, False, "needs --standalone"),
        (None, {"kraft.version": 0}, True, "leave out --standalone"),
    ],
)
def test_levels_that_cannot_be(release: str | None, given: dict[str, int], dynamic: bool, said: str) -> None:
    with pytest.raises(FeatureError, match=said):
        chosen_levels(release, given, dynamic=dynamic)

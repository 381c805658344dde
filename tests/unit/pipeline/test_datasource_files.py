"""What a reader makes of folders that a broker, a crash or a copy has left in the middle of something."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from tests.unit.storage.truncating import truncate_to

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource import DataLossError, DataSourceError
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.reader import OdradekReader
from protocol.records.batch import BatchHeader, read_header
from protocol.records.build import Record, build_batch, iter_records
from storage.files import OsFileSystem
from storage.producers.producer_state import ProducerStateManager
from storage.segments.txn_index import TxnIndex
from tests.unit.pipeline.source_files import CONFIG, fill, folder, read, reader_of, segments
from tests.unit.storage.cleaner.cleaning import clean
from tests.unit.storage.support import NOW, Rig, append, create_log


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(OsFileSystem(), CONFIG, str(tmp_path / "data"))


# -- listings


def test_only_folders_with_a_partitions_name_are_read(rig: Rig) -> None:
    fill(rig, 3)
    for name in (
        "t-0.0123456789abcdef0123456789abcdef-delete",
        "t-0.0123456789abcdef0123456789abcdef-future",
        "t-0-stray",
    ):
        shutil.copytree(folder(rig), Path(rig.root) / name)
    assert read(reader_of(rig.root)) == [0, 1, 2]


def test_a_finished_copy_takes_the_place_of_the_folder(rig: Rig, tmp_path: Path) -> None:
    fill(rig, 3)
    other = tmp_path / "other"
    shutil.copytree(folder(rig), other / "t-0.0123456789abcdef0123456789abcdef-moved")
    shutil.copytree(folder(rig), other / "t-1.0123456789abcdef0123456789abcdef-moved")
    assert read(reader_of(f"{rig.root},{other}")) == [0, 1, 2, 0, 1, 2]
    both = SourceOptions.parse({"paths": json.dumps([rig.root, str(other)])})
    assert read(OdradekReader(both, ("value",))) == [0, 1, 2, 0, 1, 2]


def test_two_folders_of_one_partition_are_an_error(rig: Rig, tmp_path: Path) -> None:
    fill(rig, 3)
    shutil.copytree(rig.root, tmp_path / "other")
    with pytest.raises(DataSourceError, match="two folders"):
        read(reader_of(f"{rig.root},{tmp_path / 'other'}"))


def compacted(rig: Rig) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a log before and after a compaction that made one segment out of several."""
    fill(rig, 17, keys=6)
    rig.config = rig.log().config = replace(CONFIG, compact=True, segment_bytes=1200)
    rig.log().segments.active.write_indexes()
    before = {path.name: path.read_bytes() for path in folder(rig).iterdir()}
    clean(rig)
    after = {path.name: path.read_bytes() for path in folder(rig).iterdir() if not path.name.endswith(".deleted")}
    assert len([one for one in after if one.endswith(".log")]) < len([one for one in before if one.endswith(".log")])
    return before, after


def batches_in(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    while data:
        header = read_header(data)
        yield header, data[: header.size]
        data = data[header.size :]


def lay(rig: Rig, files: dict[str, bytes]) -> None:
    for path in folder(rig).iterdir():
        path.unlink()
    for name, content in files.items():
        (folder(rig) / name).write_bytes(content)


@pytest.mark.parametrize("split_bytes", ["1", "1000000"])
def test_every_moment_of_a_swap_reads_as_before_or_after(rig: Rig, split_bytes: str) -> None:
    before, after = compacted(rig)
    kept_after = read(reader_of(rig.root))
    assert kept_after != list(range(17))
    old = [name for name in before if name not in after or before[name] != after[name]]
    new = [name for name in after if name not in before or before[name] != after[name]]
    new.sort(key=lambda name: not name.endswith(".log"))
    old.sort(key=lambda name: (int(name[:20]), not name.endswith(".log")))

    def moment(cleaned: int, swapped: int, deleted: int, named: int) -> dict[str, bytes]:
        """How many of the new files have come how far, and how many of the old ones are gone."""
        files = {name: content for name, content in before.items() if name not in old}
        files |= {f"{name}.deleted" if at < deleted else name: before[name] for at, name in enumerate(old)}
        for at, name in enumerate(new[:cleaned]):
            suffix = "" if at < named else ".swap" if at < swapped else ".cleaned"
            files[name + suffix] = after[name]
        return files

    every, last = len(new), len(old)
    for at in range(every + 1):
        lay(rig, moment(at, 0, 0, 0))
        assert read(reader_of(rig.root, splitBytes=split_bytes)) == list(range(17))
    for at in range(1, every + 1):
        lay(rig, moment(every, at, 0, 0))
        assert read(reader_of(rig.root, splitBytes=split_bytes)) in (list(range(17)), kept_after)
    for at in range(last + 1):
        lay(rig, moment(every, every, at, 0))
        assert read(reader_of(rig.root, splitBytes=split_bytes)) == kept_after
    for at in range(every + 1):
        lay(rig, moment(every, every, last, at))
        assert read(reader_of(rig.root, splitBytes=split_bytes)) == kept_after


def test_a_log_of_kafkas_own(tmp_path: Path) -> None:
    """Written by Apache Kafka 4.1, with aborted transactions."""
    files = Path(__file__).parents[1] / "storage" / "kafka_log"
    shutil.copytree(files, tmp_path / "t-0")
    producers = ProducerStateManager(OsFileSystem(), str(files), "t-0")
    index = [TxnIndex(OsFileSystem(), str(files), base) for base in (0, 43)]
    expected = []
    for base in (0, 43):
        for header, batch in batches_in((files / f"{base:020d}.log").read_bytes()):
            producers.replay(header, batch)
            producers.on_high_watermark(header.next_offset)
            aborted = any(
                txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
                for one in index
                for txn in one.entries
            )
            if not header.is_control and not (header.is_transactional and aborted):
                expected += [(record.offset, record.key, record.value) for record in iter_records(batch, header)]
    assert producers.first_unstable_offset is not None
    expected = [one for one in expected if one[0] < producers.first_unstable_offset]
    for split_bytes in ("1", "1000000"):
        reader = reader_of(str(tmp_path), splitBytes=split_bytes)
        found = [
            (row["offset"], row["key"], row["value"])
            for split in reader.partitions()
            for one in reader.read(split)
            for row in one.to_pylist()
        ]
        assert found == expected
    assert len(expected) > 10


# -- between planning and reading


def test_a_log_that_is_compacted_after_the_plan_is_read_on(rig: Rig) -> None:
    fill(rig, 17, keys=6)
    rig.config = rig.log().config = replace(CONFIG, compact=True, segment_bytes=1200)
    reader = reader_of(rig.root, splitBytes="1")
    splits = reader.partitions()
    clean(rig)
    found = read(reader, splits)
    assert found == read(reader_of(rig.root))
    assert found[-6:] == list(range(11, 17))


def test_a_file_is_read_to_its_end_though_it_is_compacted_meanwhile(rig: Rig) -> None:
    fill(rig, 17, keys=6)
    rig.config = rig.log().config = replace(CONFIG, compact=True, segment_bytes=1200)
    reader = reader_of(rig.root, batchBytes="1")
    (split,) = reader.partitions()
    batches = reader.read(split)
    first = next(batches)["value"].to_pylist()
    clean(rig)
    numbers = [int(value) for value in first + [value for batch in batches for value in batch["value"].to_pylist()]]
    assert numbers[0] == 0
    assert numbers == sorted(set(numbers))
    assert set(numbers) >= set(range(11, 17))


def delete_first(rig: Rig, path: Path) -> None:
    for file in folder(rig).glob(f"{path.stem}.*"):
        file.unlink()


def test_records_that_retention_took_after_the_plan_are_missed_or_left_out(rig: Rig) -> None:
    fill(rig, 17)
    strict, lenient = reader_of(rig.root), reader_of(rig.root, failOnDataLoss="false")
    splits = strict.partitions()
    delete_first(rig, segments(rig)[0])
    with pytest.raises(DataLossError, match="the log starts at offset 3 now"):
        read(strict, splits)
    assert read(lenient, splits) == list(range(3, 17))


def test_a_topic_that_was_made_anew_after_the_plan_is_not_taken_for_the_old_one(rig: Rig) -> None:
    fill(rig, 17)
    reader = reader_of(rig.root)
    splits = reader.partitions()
    metadata = folder(rig) / "partition.metadata"
    metadata.write_text(metadata.read_text().replace("topic_id: A", "topic_id: B"))
    with pytest.raises(DataLossError, match="its folder is gone"):
        read(reader, splits)


def test_a_log_that_lies_elsewhere_after_the_plan_is_found(rig: Rig, tmp_path: Path) -> None:
    fill(rig, 17)
    other = tmp_path / "other"
    other.mkdir()
    reader = reader_of(f"{rig.root},{other}")
    splits = reader.partitions()
    folder(rig).rename(other / "t-0")
    assert read(reader, splits) == list(range(17))


def test_a_log_that_was_cut_after_the_plan_is_a_loss(rig: Rig) -> None:
    fill(rig, 17)
    reader = reader_of(rig.root)
    splits = reader.partitions()
    truncate_to(rig.log(), 15)
    with pytest.raises(DataLossError, match="ends at offset 15"):
        read(reader, splits)


# -- what is asked for


def test_starts_and_ends(rig: Rig) -> None:
    fill(rig, 17)

    def numbers(**options: str) -> list[int]:
        return read(reader_of(rig.root, splitBytes="150", **options))

    assert numbers(startingOffsets='{"t":{"0":4}}', endingOffsets='{"t":{"0":9}}') == list(range(4, 9))
    assert numbers(startingOffsets='{"t":{"0":-2}}', endingOffsets='{"t":{"0":-1}}') == list(range(17))
    assert numbers(startingOffsets="latest") == []
    assert numbers(startingTimestamp=str(NOW + 6000), endingTimestamp=str(NOW + 8001)) == [6, 7, 8]
    assert numbers(startingTimestamp=str(NOW + 1_000_000)) == []
    assert numbers(endingTimestamp=str(NOW - 1)) == []
    assert numbers(partitions="1,2") == []
    assert numbers(topicsPattern="[a-z]") == list(range(17))
    with pytest.raises(DataLossError, match="Offset 18 of t-0 is asked for, and there are 0 up to 17"):
        numbers(endingOffsets='{"t":{"0":18}}')
    assert numbers(endingOffsets='{"t":{"0":18}}', failOnDataLoss="false") == list(range(17))
    with pytest.raises(DataSourceError, match="Offsets are given for t-1, u-0, which is not there"):
        numbers(startingOffsets='{"t":{"0":1,"1":2},"u":{"0":0}}')
    with pytest.raises(DataSourceError, match="No partition of absent"):
        numbers(topics="absent,t")


def test_records_before_the_logs_start_are_deleted(rig: Rig) -> None:
    fill(rig, 17)
    rig.log().increment_log_start_offset(5)
    rig.manager.checkpoint_log_start_offsets()
    assert read(reader_of(rig.root)) == list(range(5, 17))
    with pytest.raises(DataLossError, match="there are 5 up to 17"):
        read(reader_of(rig.root, startingOffsets='{"t":{"0":4}}'))


def test_the_brokers_checkpoint_may_count_as_the_end(rig: Rig) -> None:
    fill(rig, 10)
    rig.log().high_watermark = 10
    rig.manager.checkpoint_high_watermarks()
    fill(rig, 7)
    assert len(read(reader_of(rig.root))) == 17
    for isolation in ("read_committed", "read_uncommitted"):
        found = read(reader_of(rig.root, highWatermark="checkpointed", isolationLevel=isolation))
        assert found == list(range(10))


def test_internal_topics_are_read_when_they_are_named(rig: Rig) -> None:
    log = create_log(rig.manager, "__internal", 0, UUID(int=5), CONFIG)
    append(log, memoryview(build_batch([Record(0, NOW, b"k", b"7")])))
    assert read(reader_of(rig.root)) == []
    assert read(reader_of(rig.root, topics="__internal")) == [7]
    assert read(reader_of(rig.root, topicsPattern="__.*")) == [7]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "path is missing"),
        ({"path": "/x", "topic": "t"}, "Unknown option topic;"),
        ({"path": "/x", "topics": "t", "topicsPattern": "t"}, "either topics or topicsPattern"),
        ({"path": "/x", "splitBytes": "0"}, "splitbytes cannot be '0'"),
        ({"path": "/x", "isolationLevel": "serializable"}, "isolationlevel"),
        ({"path": "/x", "topicsPattern": "("}, "topicspattern"),
        ({"path": "/x", "columns": "key,kye"}, "no column kye"),
        ({"path": "/x", "startingOffsets": "[1]"}, "startingoffsets"),
        ({"path": "/x", "startingOffsets": '{"t":{"0":null}}'}, "startingoffsets"),
        ({"path": "/x", "failOnDataLoss": "yes"}, "failondataloss"),
    ],
)
def test_options_that_make_no_sense_are_named(given: dict[str, str], why: str) -> None:
    with pytest.raises(DataSourceError, match=why.replace("(", r"\(")):
        SourceOptions.parse(given)


def test_a_missing_data_folder_is_named() -> None:
    with pytest.raises(DataSourceError, match="data folder /nowhere cannot be read"):
        reader_of("/nowhere").partitions()

"""Where a log ends: a torn batch is its end, and damage is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource import CorruptLogError, walk
from odradek_pipeline.datasource.errors import DataSourceError
from odradek_pipeline.datasource.log_view import Planner
from odradek_pipeline.datasource.options import SourceOptions
from odradek_pipeline.datasource.places import LocalLog, open_log
from protocol.records.batch import LOG_OVERHEAD, MAGIC_AT
from storage.append_types import LogConfig
from storage.files import OsFileSystem
from tests.unit.pipeline.source_files import CONFIG, fill, folder, read, reader_of, segments
from tests.unit.storage.support import NOW, Rig

COUNT = 17
LAST_OFFSET_DELTA = range(23, 27)
CHECKPOINT = "replication-offset-checkpoint"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(OsFileSystem(), CONFIG, str(tmp_path / "data"))
    fill(made, COUNT)
    return made


def checkpoint(rig: Rig, offset: int, name: str = CHECKPOINT) -> None:
    (Path(rig.root) / name).write_text(f"0\n1\nt 0 {offset}\n")


def flips(path: Path, places: Iterator[int] | range) -> Iterator[int]:
    """The positions of the bits, each for as long as it is flipped."""
    good = path.read_bytes()
    for place in places:
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        yield place
    path.write_bytes(good)


def important_bits(path: Path) -> Iterator[int]:
    """Every bit of what a header says of the batch's place and offsets, and one of every tenth other byte."""
    with open_log(str(path)) as log:
        starts = [position for position, _ in walk.headers(log, 0)]
    fields = {start + byte for start in starts for byte in (*range(LOG_OVERHEAD), MAGIC_AT, *LAST_OFFSET_DELTA)}
    for byte in range(path.stat().st_size):
        if byte in fields:
            yield from range(8 * byte, 8 * byte + 8)
        elif byte % 10 == 0:
            yield 8 * byte + byte % 8


CHECKPOINTED = {"highWatermark": "checkpointed", "splitBytes": "1"}


@pytest.mark.parametrize(("number", "options"), [(0, {}), (1, CHECKPOINTED), (-1, {}), (-1, CHECKPOINTED)])
def test_no_flipped_bit_loses_a_record_silently(tmp_path: Path, number: int, options: dict[str, str]) -> None:
    rig = Rig(OsFileSystem(), CONFIG, str(tmp_path / "small"))
    fill(rig, 8)
    checkpoint(rig, 8)
    path = segments(rig)[number]
    silent = []
    refused = 0
    for bit in flips(path, important_bits(path)):
        try:
            if read(reader_of(rig.root, **options)) != list(range(8)):
                silent.append(bit)
        except DataSourceError:
            refused += 1
    assert silent == []
    assert refused > 100


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_flipped_bit_behind_the_last_index_entry_is_damage(
    rig: Rig, isolation: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without an index everything is behind its last entry, and without checkpoints only what follows can tell."""
    (Path(rig.root) / CHECKPOINT).unlink(missing_ok=True)
    path = segments(rig)[0]
    for other in (*folder(rig).glob("*.index"), *folder(rig).glob("*.snapshot"), *segments(rig)[1:]):
        other.unlink()
    kept = read(reader_of(rig.root, isolationLevel=isolation))
    assert len(kept) > 2
    for _ in flips(path, range(8 * 100, 8 * 101)):
        with pytest.raises(CorruptLogError, match=r"no whole batch at 0, after offset -1: .* And the log goes on"):
            read(reader_of(rig.root, isolationLevel=isolation))
        assert read(reader_of(rig.root, isolationLevel=isolation, failOnCorruption="false")) == kept[1:]
        assert " bytes, 1 offsets, are left out; resumed at position" in caplog.text


@pytest.mark.parametrize("spoil", [lambda data: data[:-7], lambda data: data[:-1] + b"?"], ids=["cut", "spoilt"])
def test_an_end_below_the_checkpointed_high_watermark_is_damage(
    rig: Rig, spoil: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    path = segments(rig)[-1]
    path.write_bytes(spoil(path.read_bytes()))
    for watermark in ("written", "checkpointed"):
        checkpoint(rig, COUNT - 1)
        assert read(reader_of(rig.root, highWatermark=watermark)) == list(range(COUNT - 1)), "torn by a crash"
        checkpoint(rig, COUNT)
        with pytest.raises(CorruptLogError, match=r"ends at offset 16, and the checkpoints .* up to 17: 1 offsets are"):
            read(reader_of(rig.root, highWatermark=watermark))
        lenient = {"highWatermark": watermark, "failOnCorruption": "false"}
        assert read(reader_of(rig.root, **lenient)) == list(range(COUNT - 1))
        assert "up to 17: 1 offsets are missing" in caplog.text


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_high_watermark_anywhere_in_the_log_is_its_end(tmp_path: Path, isolation: str) -> None:
    rig = Rig(OsFileSystem(), LogConfig(segment_bytes=1200, index_interval_bytes=300), str(tmp_path / "sparse"))
    fill(rig, COUNT + 2)
    rig.restart()
    assert segments(rig)[-1].with_suffix(".index").stat().st_size
    for offset in range(COUNT + 3):
        checkpoint(rig, offset)
        options = {"highWatermark": "checkpointed", "isolationLevel": isolation}
        assert read(reader_of(rig.root, **options)) == list(range(offset))


def test_a_segment_that_is_gone_is_damage(rig: Rig) -> None:
    checkpoint(rig, COUNT)
    last = segments(rig)[-1]
    last.rename(last.with_suffix(".away"))
    with pytest.raises(CorruptLogError, match=f"ends at offset {int(last.stem)}, and"):
        read(reader_of(rig.root))
    for path in segments(rig):
        path.unlink()
    with pytest.raises(
        CorruptLogError, match="ends at offset 0, and the checkpoints beside it say that it went up to 17"
    ):
        read(reader_of(rig.root))
    assert read(reader_of(rig.root, failOnCorruption="false")) == []


def test_an_end_below_the_log_start_offset_is_damage(rig: Rig) -> None:
    checkpoint(rig, COUNT, "log-start-offset-checkpoint")
    assert read(reader_of(rig.root)) == []
    checkpoint(rig, COUNT + 1, "log-start-offset-checkpoint")
    with pytest.raises(CorruptLogError, match="up to 18: 1 offsets are missing"):
        read(reader_of(rig.root))


def test_a_torn_end_after_a_clean_shutdown_is_damage(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    (Path(rig.root) / CHECKPOINT).unlink(missing_ok=True)
    path = segments(rig)[-1]
    path.write_bytes(path.read_bytes()[:-7])
    assert read(reader_of(rig.root)) == list(range(COUNT - 1))
    (Path(rig.root) / ".kafka_cleanshutdown").touch()
    with pytest.raises(CorruptLogError, match="after offset 15, though the broker was stopped in good order"):
        read(reader_of(rig.root))
    assert read(reader_of(rig.root, failOnCorruption="false")) == list(range(COUNT - 1))
    assert "bytes are damaged" in caplog.text


def test_no_flipped_bit_of_an_offset_index_hides_records(tmp_path: Path) -> None:
    sparse = LogConfig(segment_bytes=1200, index_interval_bytes=300)
    rig = Rig(OsFileSystem(), sparse, str(tmp_path / "sparse"))
    fill(rig, COUNT)
    path = segments(rig)[1].with_suffix(".index")
    start = int(path.stem) + 1
    for _ in flips(path, range(8 * path.stat().st_size)):
        options = {"startingOffsets": f'{{"t":{{"0":{start}}}}}', "splitBytes": "1"}
        assert read(reader_of(rig.root, **options)) == list(range(start, COUNT))


def test_no_flipped_bit_of_a_time_index_hides_records(rig: Rig) -> None:
    options = {"startingTimestamp": str(NOW + 4000), "endingTimestamp": str(NOW + 15000)}
    path = segments(rig)[1].with_suffix(".timeindex")
    for _ in flips(path, range(8 * path.stat().st_size)):
        assert read(reader_of(rig.root, **options)) == list(range(4, 15))


def test_what_a_broker_is_still_writing_is_no_damage(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record's value may itself be a batch, which in half of a batch looks like a whole one behind damage."""
    (Path(rig.root) / CHECKPOINT).unlink(missing_ok=True)
    path = segments(rig)[-1]
    good = path.read_bytes()
    path.write_bytes(good[:-7])

    def finished(log: LocalLog, position: int, least_offset: int) -> int:
        path.write_bytes(good)
        return position + 1

    monkeypatch.setattr(walk, "next_whole", finished)
    planner = Planner(SourceOptions.parse({"path": rig.root, "isolationLevel": "read_uncommitted"}))
    (state,) = planner.look().values()
    assert state.end == COUNT - 1
    (state,) = planner.look().values()
    assert state.end == COUNT


def test_a_recreated_topic_is_not_measured_by_the_old_ones_checkpoint(rig: Rig) -> None:
    """A broker writes its checkpoints every few seconds, so the old topic's are there for a moment."""
    checkpoint(rig, COUNT)
    planner = Planner(SourceOptions.parse({"path": rig.root}))
    planner.look()
    for path in segments(rig)[1:]:
        path.unlink()
    metadata = folder(rig) / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBQ\n")
    (state,) = planner.look().values()
    assert state.end < COUNT
    checkpoint(rig, COUNT - 1)
    with pytest.raises(CorruptLogError):
        planner.look()


def test_allocated_space_behind_the_end_is_passed_over_quickly(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segments(rig)[-1]
    os.truncate(path, 1 << 30)
    read_bytes = []
    real = LocalLog.read

    def counted(log: LocalLog, size: int, position: int) -> bytes:
        data = real(log, size, position)
        read_bytes.append(len(data))
        return data

    monkeypatch.setattr(LocalLog, "read", counted)
    assert read(reader_of(rig.root)) == list(range(COUNT))
    assert sum(read_bytes) < 16 << 20

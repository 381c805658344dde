"""What a reader makes of torn, damaged or missing files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource import CorruptLogError
from protocol.records.batch import HEADER_SIZE, read_header, set_offsets_and_epoch, write_crc
from protocol.records.build import Record, build_batch
from storage.files import OsFileSystem
from tests.unit.pipeline.source_files import CONFIG, fill, folder, read, reader_of, segments
from tests.unit.storage.log.validator_cases import EXCESS_BITS, with_section
from tests.unit.storage.support import NOW, Rig, append


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(OsFileSystem(), CONFIG, str(tmp_path / "data"))


Spoil = Callable[[Path], object]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def add_zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(300))


def batch_at(offset: int, count: int = 1) -> bytes:
    """A batch of records with their offsets as values."""
    batch = build_batch([Record(delta, NOW, b"k", b"%d" % (offset + delta)) for delta in range(count)])
    set_offsets_and_epoch(batch, read_header(batch), offset, -1)
    return bytes(batch)


def add_half_a_header(path: Path) -> None:
    path.write_bytes(path.read_bytes() + batch_at(17)[:30])


@pytest.mark.parametrize(
    ("spoil", "last"),
    [(cut, 15), (flip_last_byte, 15), (add_zeros, 16), (add_half_a_header, 16)],
)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_torn_end_is_the_end(rig: Rig, spoil: Spoil, last: int, isolation: str) -> None:
    fill(rig, 17)
    spoil(segments(rig)[-1])
    assert read(reader_of(rig.root, isolationLevel=isolation)) == list(range(last + 1))


def spoil_value(path: Path, number: int) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(str(number).encode().ljust(100)) + 50] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("split_bytes", ["1", "1000000"])
def test_damage_in_the_middle_is_an_error_or_left_out(rig: Rig, split_bytes: str) -> None:
    fill(rig, 17)
    spoil_value(segments(rig)[1], 4)
    with pytest.raises(CorruptLogError, match=r"after offset 3: its checksum is wrong"):
        read(reader_of(rig.root, splitBytes=split_bytes))
    lenient = reader_of(rig.root, splitBytes=split_bytes, failOnCorruption="false")
    assert read(lenient) == [number for number in range(17) if number != 4]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_length_that_makes_no_sense_is_an_error_or_left_out(rig: Rig, isolation: str) -> None:
    fill(rig, 17)
    path = segments(rig)[1]
    data = bytearray(path.read_bytes())
    second = read_header(data).size
    data[second + 8 : second + 12] = (1 << 20).to_bytes(4, "big")
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match="there is no whole batch"):
        read(reader_of(rig.root, isolationLevel=isolation))
    lenient = reader_of(rig.root, isolationLevel=isolation, failOnCorruption="false")
    assert read(lenient) == [number for number in range(17) if number != 4]


def test_records_that_do_not_fill_their_batch_are_an_error_or_left_out(rig: Rig) -> None:
    fill(rig, 3)
    path = segments(rig)[0]
    good = batch_at(3, 2)
    section = good[HEADER_SIZE:] + b"\x00"
    header = read_header(good)
    bad = bytearray(good[:8] + (header.batch_length + 1).to_bytes(4, "big") + good[12:HEADER_SIZE] + section)
    write_crc(bad, 0, len(bad))
    path.write_bytes(path.read_bytes() + bytes(bad) + batch_at(5))
    with pytest.raises(CorruptLogError, match="do not fill it"):
        read(reader_of(rig.root))
    assert read(reader_of(rig.root, failOnCorruption="false")) == [0, 1, 2, 5]


@pytest.mark.parametrize("record", EXCESS_BITS.values(), ids=EXCESS_BITS)
def test_excess_bits_of_a_number_are_lost_as_in_kafka(rig: Rig, record: bytes) -> None:
    append(rig.log(), memoryview(with_section(NOW, record, 1)))
    (split,) = (reader := reader_of(rig.root)).partitions()
    (row,) = [row for batch in reader.read(split) for row in batch.to_pylist()]
    assert row == {"offset": 0, "key": b"k", "value": b"v"}


def test_a_gap_that_no_compaction_explains_is_an_error_or_passed_over(rig: Rig) -> None:
    """As in a copy for which a segment was taken before it was whole."""
    fill(rig, 17)
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        (Path(rig.root) / name).unlink(missing_ok=True)
    path = segments(rig)[1]
    path.write_bytes(path.read_bytes()[: 2 * read_header(path.read_bytes()).size])
    with pytest.raises(
        CorruptLogError, match="are missing before segment 6; its indexes know offset 5: the log was cut"
    ):
        read(reader_of(rig.root))
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()
    assert read(reader_of(rig.root)) == [0, 1, 2, 3, 4, *range(6, 17)], "without a checkpoint nothing can be said"
    (Path(rig.root) / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 5\n")
    with pytest.raises(CorruptLogError, match="offsets 5 to 5 are missing before segment 6"):
        read(reader_of(rig.root))
    assert read(reader_of(rig.root, failOnCorruption="false")) == [0, 1, 2, 3, 4, *range(6, 17)]
    (Path(rig.root) / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 6\n")
    assert read(reader_of(rig.root)) == [0, 1, 2, 3, 4, *range(6, 17)]


def test_a_snapshot_behind_the_end_is_not_believed(rig: Rig) -> None:
    fill(rig, 17)
    (folder(rig) / f"{15:020d}.snapshot").rename(folder(rig) / f"{30:020d}.snapshot")
    assert read(reader_of(rig.root)) == list(range(17))


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
def test_missing_or_wrong_indexes_cost_time_alone(rig: Rig, suffix: str) -> None:
    fill(rig, 17)
    for path in folder(rig).glob(f"*{suffix}"):
        path.unlink()
    options = {"splitBytes": "200", "startingTimestamp": str(NOW + 5000)}
    assert read(reader_of(rig.root, **options)) == list(range(5, 17))
    for path in segments(rig):
        path.with_suffix(suffix).write_bytes(bytes(range(1, 121)))
    assert read(reader_of(rig.root, **options)) == list(range(5, 17))


def test_indexes_are_read_as_far_as_they_are_written(rig: Rig) -> None:
    """Kafka allocates those of an active segment at their full size; a terabyte of zeros could not be read at all."""
    fill(rig, 17)
    for suffix in (".index", ".timeindex"):
        for path in folder(rig).glob(f"*{suffix}"):
            os.truncate(path, 1 << 40)
    assert read(reader_of(rig.root, splitBytes="200", startingTimestamp=str(NOW + 5000))) == list(range(5, 17))


def test_a_wrong_transaction_index_is_an_error(rig: Rig) -> None:
    fill(rig, 17)
    segments(rig)[0].with_suffix(".txnindex").write_bytes(b"\x01" * 34)
    with pytest.raises(CorruptLogError, match="no transaction index"):
        read(reader_of(rig.root))
    assert read(reader_of(rig.root, isolationLevel="read_uncommitted")) == list(range(17))

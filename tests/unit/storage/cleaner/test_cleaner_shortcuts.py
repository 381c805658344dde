"""What is decided for whole batches, or for many keys at once, is what a look at each record alone decides."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from protocol.records.build import Record, build_batch
from protocol.records.compression import Compression
from storage.append_types import LogConfig
from storage.cleaner import copying, offset_map
from storage.cleaner.log_cleaner import CleanerConfig
from storage.cleaner.offset_map import BYTES_PER_KEY, Kept, OffsetMap
from storage.cleaner.slices import Steps
from tests.doubles.files import MemoryFileSystem
from tests.unit.storage.cleaner.cleaning import cleaner, end_txn, put, run
from tests.unit.storage.support import NOW, Rig, append

CONFIG = LogConfig(
    segment_bytes=4000,
    index_interval_bytes=200,
    compact=True,
    delete=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=1,
)
COMPRESSIONS = (Compression.NONE, Compression.NONE, Compression.GZIP)


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Steps[bool]:
        yield 0
        return False

    monkeypatch.setattr(copying, "_keeps_all", never)
    monkeypatch.setattr(offset_map, "_MOST_FLAGS", 0)
    monkeypatch.setattr(offset_map, "_ONE_TABLE", 0)


def history(seed: int) -> Iterator[dict[str, bytes]]:
    """The log's files after each of some cleanings of a log that `seed` alone decides on."""
    rng = random.Random(seed)
    fs = MemoryFileSystem()
    rig = Rig(fs, CONFIG)
    fs.now_ms = rig.clock.wall_ms
    log = rig.log()
    keys = [b"%d" % number * rng.choice([1, 1, 30]) for number in range(rng.choice([3, 40, 400]))]
    sequences = dict.fromkeys(range(1, 4), 0)
    for _ in range(4):
        for _ in range(rng.randrange(5, 40)):
            _append_something(rig, rng, keys, sequences)
        log.roll()
        append(log, memoryview(build_batch([Record(0, NOW, b"active", b"")])))
        rig.workers.run_all()
        rig.clock.advance(rng.choice([10, 2000]))
        capacity = rng.choice([20, 10_000])
        run(rig, cleaner(rig, CleanerConfig(dedupe_buffer_size=capacity * BYTES_PER_KEY, load_factor=1.0)).run_once())
        rig.clock.advance(10)
        rig.workers.run_all()
        yield {name: _content(fs, name) for name in sorted(fs.listdir("/data/t-0"))}


def _append_something(rig: Rig, rng: random.Random, keys: list[bytes], sequences: dict[int, int]) -> None:
    log = rig.log()
    count = rng.choice([1, 2, 5, 60])
    distinct = rng.random() < 0.3 and count <= len(keys)
    chosen = rng.sample(keys, count) if distinct else rng.choices(keys, k=count)
    tombstones = rng.choice([0, 0, 0, 0.3])
    pairs = [(key, None if rng.random() < tombstones else b"%d" % rng.randrange(1000)) for key in chosen]
    producer_id = rng.randrange(-2, 4)
    if producer_id < 1:
        records = [Record(number, NOW + number, key, value) for number, (key, value) in enumerate(pairs)]
        append(log, memoryview(build_batch(records, compression=rng.choice(COMPRESSIONS))))
        return
    put(log, *pairs, producer_id=producer_id, sequence=sequences[producer_id], transactional=True)
    sequences[producer_id] += count
    if rng.random() < 0.8:
        end_txn(log, producer_id, commit=rng.random() < 0.5)


def _content(fs: MemoryFileSystem, name: str) -> bytes:
    file = fs.open(f"/data/t-0/{name}")
    try:
        return file.pread(1 << 30, 0)
    finally:
        file.close()


@pytest.mark.parametrize("seed", range(20))
def test_the_files_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = list(history(seed))
    one_by_one(monkeypatch)
    assert list(history(seed)) == quick


def test_the_shortcuts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the comparison above would compare nothing."""
    answers: set[Kept] = set()
    of_batch = OffsetMap.of_batch

    def noted(*arguments: object) -> Kept:
        answers.add(kept := of_batch(*arguments))  # type: ignore[arg-type]
        return kept

    monkeypatch.setattr(OffsetMap, "of_batch", noted)
    for seed in range(10):
        list(history(seed))
    assert answers == set(Kept)


def test_a_full_map_takes_what_fits_and_no_more() -> None:
    offsets = OffsetMap(5 * BYTES_PER_KEY, 1.0)
    assert offsets.put_all([b"a", b"b", b"a"], [1, 2, 3])
    assert not offsets.put_all([b"c", b"a", b"d", b"e", b"f"], [4, 5, 6, 7, 8])
    assert len(offsets) == 5
    assert [offsets.get(key) for key in (b"a", b"b", b"c", b"d", b"e", b"f")] == [5, 2, 4, 6, 7, -1]


def test_a_map_that_grows_into_many_tables_forgets_nothing() -> None:
    offsets = OffsetMap(1 << 30, 1.0)
    for start in range(0, 100_000, 500):
        keys = [b"key %d" % (number % 50_000) for number in range(start, start + 500)]
        assert offsets.put_all(keys, range(start, start + 500))
    assert len(offsets) == 50_000
    assert all(offsets.get(b"key %d" % number) == number + 50_000 for number in range(0, 50_000, 7))

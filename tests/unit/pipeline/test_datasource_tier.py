"""The data source over a log whose older segments are in remote storage: it reads what it reads of the whole log."""

from __future__ import annotations

import pickle
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

pytest.importorskip("pyspark", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.datasource.errors import CorruptLogError, DataLossError, DataSourceError
from odradek_pipeline.datasource.log_view import Planner
from odradek_pipeline.datasource.offsets import offset_for_timestamp
from odradek_pipeline.datasource.options import Isolation, SourceOptions, TierMetadata
from odradek_pipeline.datasource.remote_files import CHUNK_BYTES
from odradek_pipeline.datasource.tiers import FolderTier, tier_of
from protocol.remote_storage.s3 import S3Settings, open_s3
from protocol.remote_storage.store import RemoteStore
from storage.files import OsFileSystem
from storage.tier.folder import FolderStore
from tests.doubles.s3_server import S3Server, s3_server
from tests.unit.pipeline.source_files import CONFIG as SMALL
from tests.unit.pipeline.source_files import fill, read, reader_of
from tests.unit.pipeline.test_datasource_reading import CONFIG, Workload, rows_of
from tests.unit.pipeline.tiering import TieredCopy
from tests.unit.storage.cleaner.cleaning import put
from tests.unit.storage.support import NOW, Rig

COUNT = 40


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[S3Server, str]]:
    with s3_server() as found:
        yield found


@contextmanager
def stores(kind: str, server: tuple[S3Server, str]) -> Iterator[tuple[RemoteStore, dict[str, str]]]:
    """A store as the broker has it, and the options by which the data source finds it."""
    if kind == "folder":
        with tempfile.TemporaryDirectory() as directory:
            store = FolderStore(OsFileSystem(), directory)
            store.check()
            yield store, {"tier": directory}
        return
    double, address = server
    double.objects.clear()
    told = {"s3Endpoint": address, "s3Region": "us-east-1", "s3AccessKey": "key", "s3SecretKey": "secret"}
    settings = S3Settings("archive", "tier/", address, "us-east-1", access_key="key", secret_key="secret")
    yield open_s3(settings), {"tier": "s3://archive/tier/", **told}


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, server: tuple[S3Server, str]) -> Iterator[tuple[RemoteStore, dict[str, str]]]:
    with stores(request.param, server) as found:
        yield found


def whole(tmp_path: Path) -> Rig:
    """A log of small segments that is all on the disk."""
    rig = Rig(OsFileSystem(), SMALL, str(tmp_path / "whole"))
    fill(rig, COUNT)
    return rig


def tiered(rig: Rig, store: RemoteStore, root: Path, local: int = 2) -> TieredCopy:
    copy = TieredCopy(rig.log(), store, root)
    copy.tier(local)
    copy.write_metadata()
    return copy


STEPS = st.lists(
    st.sampled_from(
        ("plain",) * 4 + ("transactional",) * 6 + ("commit",) * 3 + ("abort",) * 3 + ("delete", "restart", "elect")
    ),
    min_size=20,
    max_size=60,
)


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_tiered_log_has_the_rows_of_the_untiered_one(
    kind: str, server: tuple[S3Server, str], steps: list[str], seed: int
) -> None:
    """Committed or not, by the metadata topic or a listing, split anywhere, with what kills have left in the store."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory, stores(kind, server) as (store, found):
        root = f"{directory}/whole"
        work = Workload(Rig(OsFileSystem(), CONFIG, root), draw)
        for step in steps:
            work.step(step)
        work.rig.manager.checkpoint_log_start_offsets()
        copy = TieredCopy(work.log, store, Path(directory) / "tiered")
        copy.tier(draw.randrange(3))
        if copy.sealed() and draw.random() < 0.5:
            copy.copy(*draw.choice(copy.sealed()), finish=False)
        if copy.copied and draw.random() < 0.5:
            copy.delete(copy.copy(*draw.choice(copy.sealed()), finish=False))
        copy.write_metadata()
        for isolation in Isolation:
            plain = SourceOptions((root,), isolation=isolation, split_bytes=draw.choice((1, 400, 1 << 20)))
            for mode in (TierMetadata.AUTO, TierMetadata.LISTING):
                options = replace(
                    SourceOptions.parse({"path": str(copy.root), **found}),
                    isolation=isolation,
                    split_bytes=draw.choice((1, 400, 1 << 20)),
                    tier_metadata=mode,
                )
                assert rows_of(Planner(options), options) == rows_of(Planner(plain), plain)


def test_the_tier_alone_has_what_was_copied(store: tuple[RemoteStore, dict[str, str]], tmp_path: Path) -> None:
    """Without a data folder: what a lost disk has left."""
    rig = whole(tmp_path)
    copy = tiered(rig, store[0], tmp_path / "tiered")
    end = copy.copied[-1].end_offset + 1
    options = SourceOptions.parse(store[1])
    assert [row.offset for row in rows_of(Planner(options), options)] == list(range(end))
    assert 0 < end < COUNT


def test_a_transaction_that_is_open_where_the_tier_ends_is_not_read(tmp_path: Path) -> None:
    """Its marker is in no remote segment, so nobody can tell how it ended."""
    store = FolderStore(OsFileSystem(), str(tmp_path / "store"))
    store.check()
    draw = random.Random(5)
    work = Workload(Rig(OsFileSystem(), CONFIG, str(tmp_path / "whole")), draw)
    for _ in range(10):
        work.step("plain")
    work.append(7)
    opened = work.written[7][0]
    while list(work.log.segments)[-1].base_offset <= opened:
        work.step("plain")
    work.end(7, False)
    copy = TieredCopy(work.log, store, tmp_path / "tiered")
    copy.tier(0)
    options = SourceOptions.parse({"tier": str(tmp_path / "store")})
    every = replace(options, isolation=Isolation.READ_UNCOMMITTED)
    rows = rows_of(Planner(options), options)
    assert rows == [row for row in rows_of(Planner(every), every) if row.offset < opened]
    assert rows != rows_of(Planner(every), every)


def test_lookups_by_time_go_through_the_tier(store: tuple[RemoteStore, dict[str, str]], tmp_path: Path) -> None:
    copy = tiered(whole(tmp_path), store[0], tmp_path / "tiered")
    options = SourceOptions.parse({"path": str(copy.root), **store[1]})
    (state,) = Planner(options).look().values()
    assert [offset_for_timestamp(state, NOW + 1000 * n) for n in range(COUNT)] == list(range(COUNT))


def test_a_task_goes_on_in_the_tier_when_local_segments_went_there(
    store: tuple[RemoteStore, dict[str, str]], tmp_path: Path
) -> None:
    """What was planned as local is copied and removed before the task begins; options and splits are pickled."""
    rig = whole(tmp_path)
    copy = TieredCopy(rig.log(), store[0], tmp_path / "tiered")
    copy.tier(3)
    copy.write_metadata()
    reader = reader_of(str(copy.root), **store[1])
    splits = reader.partitions()
    for segment in copy.copied[-3:-1]:
        copy._remove(segment.start_offset)
    reader, splits = pickle.loads(pickle.dumps((reader, splits)))
    assert read(reader, splits) == list(range(COUNT))


def test_records_that_are_nowhere_are_told(store: tuple[RemoteStore, dict[str, str]], tmp_path: Path) -> None:
    copy = tiered(whole(tmp_path), store[0], tmp_path / "tiered")
    hole = copy.copied[2]
    copy.delete(hole)
    copy.write_metadata()
    with pytest.raises(DataLossError, match=f"Offsets {hole.start_offset} to {hole.end_offset} of .* are neither in a"):
        read(reader_of(str(copy.root), **store[1]))
    left = read(reader_of(str(copy.root), failOnDataLoss="false", **store[1]))
    assert left == [n for n in range(COUNT) if not hole.start_offset <= n <= hole.end_offset]


def test_an_object_that_is_lost_is_named(store: tuple[RemoteStore, dict[str, str]], tmp_path: Path) -> None:
    """The metadata topic has it, and the store has it not."""
    copy = tiered(whole(tmp_path), store[0], tmp_path / "tiered")
    lost = copy.copied[1]
    store[0].delete(lost)
    name = store[0].names(lost)[0]
    with pytest.raises(DataLossError, match=name):
        read(reader_of(str(copy.root), **store[1]))


def test_a_damaged_remote_segment_is_an_error_with_its_place(tmp_path: Path) -> None:
    store = FolderStore(OsFileSystem(), str(tmp_path / "store"))
    store.check()
    copy = tiered(whole(tmp_path), store, tmp_path / "tiered")
    (log,) = (tmp_path / "store").glob(f"*/*/{copy.copied[1].start_offset:020d}-*.log")
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptLogError, match=f"{log.name}: the batch at position 0"):
        read(reader_of(str(copy.root), tier=str(tmp_path / "store")))
    log.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptLogError, match=log.name):
        read(reader_of(str(copy.root), tier=str(tmp_path / "store")))


def test_the_wrong_tier_does_not_pass_for_an_empty_one(tmp_path: Path) -> None:
    """Else only the local records would be read, and nobody would know."""
    store = FolderStore(OsFileSystem(), str(tmp_path / "store"))
    store.check()
    copy = tiered(whole(tmp_path), store, tmp_path / "tiered")
    FolderStore(OsFileSystem(), str(tmp_path / "other")).check()
    with pytest.raises(DataLossError, match="neither in a data folder nor in"):
        read(reader_of(str(copy.root), tier=str(tmp_path / "other"), tierMetadata="listing"))
    with pytest.raises(DataSourceError, match="cannot be read"):
        read(reader_of(str(copy.root), tier=str(tmp_path / "nothing"), tierMetadata="listing"))


def test_a_log_on_s3_is_read_by_ranges_one_chunk_ahead(server: tuple[S3Server, str], tmp_path: Path) -> None:
    """A large log is never in memory: no answer of the store is longer than a chunk."""
    config = replace(SMALL, segment_bytes=64 << 20)
    rig = Rig(OsFileSystem(), config, str(tmp_path / "whole"))
    values = [random.Random(n).randbytes(1_000_000) for n in range(11)]
    for value in values:
        put(rig.log(), (b"k", value))
    rig.log().roll()
    put(rig.log(), (b"k", b"last"))
    with stores("s3", server) as (store, found):
        copy = tiered(rig, store, tmp_path / "tiered", local=0)
        server[0].ranges.clear()
        reader = reader_of(str(copy.root), **found)
        rows = [row for split in reader.partitions() for batch in reader.read(split) for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [*values, b"last"]
    sizes = [
        end - start + 1 for start, end in (map(int, one.removeprefix("bytes=").split("-")) for one in server[0].ranges)
    ]
    assert max(sizes) == CHUNK_BYTES
    assert sum(sizes) < 1.2 * sum(map(len, values))


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"tier": "ftp://somewhere"}, "it is a folder or s3://BUCKET/PREFIX"),
        ({"tier": "s3://"}, "it is a folder or s3://BUCKET/PREFIX"),
        ({"tier": "/t", "tierMetadata": "guess"}, "cannot be 'guess'"),
        ({"path": "/d", "s3Endpoint": "http://127.0.0.1:1"}, "are for a tier on S3"),
        ({}, "Option path is missing"),
    ],
)
def test_options_of_a_tier_that_make_no_sense_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(DataSourceError, match=wrong):
        SourceOptions.parse(options)


def test_a_tier_is_a_folder_or_a_bucket_with_a_prefix() -> None:
    assert tier_of("/mnt/archive/") == FolderTier("/mnt/archive")
    assert str(tier_of("s3a://bucket/a/b-")) == "s3://bucket/a/b-"
    without_metadata = SourceOptions.parse({"tier": "/t", "tierMetadata": "topic"})
    with pytest.raises(DataSourceError, match="__remote_log_metadata is not in any folder"):
        Planner(without_metadata).look()

"""`odradek-pipeline restore --from-tier`: logs whose older records are in remote storage, and what is lost there."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("deltalake", reason="requirements-pipeline.txt is not installed")

from odradek_pipeline.restore import told
from odradek_pipeline.restore.folders import Folders
from odradek_pipeline.restore.into_data import IntoData
from protocol.records.batch import BatchHeader
from storage.files import OsFileSystem
from storage.tier.folder import FolderStore
from tests.doubles.s3_server import S3Server, s3_server
from tests.unit.pipeline.audited import audit
from tests.unit.pipeline.restored import batches, lost, other_cluster, restore
from tests.unit.pipeline.source_files import CONFIG as SMALL
from tests.unit.pipeline.test_datasource_reading import CONFIG, Workload
from tests.unit.pipeline.test_datasource_tier import STEPS, stores, whole
from tests.unit.pipeline.tiering import FOREIGN, METADATA, TieredCopy
from tests.unit.storage.cleaner.cleaning import put
from tests.unit.storage.support import Rig

TOPIC, EPOCHS = "t", "leader-epoch-checkpoint"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[S3Server, str]]:
    with s3_server() as found:
        yield found


@dataclass
class Tiered:
    """A log that is whole in one folder; in another its older segments are only in the tier, which `asked` names."""

    whole: Path
    copy: TieredCopy
    asked: list[str]

    def save(self) -> None:
        """Write what the folder of a broker has beside the log."""
        self.copy.write_metadata()
        cluster = self.copy.root / "__cluster_metadata-0"
        cluster.mkdir(exist_ok=True)
        (cluster / "quorum-state").write_text("{}")

    def headers(self) -> list[BatchHeader]:
        """The batches from the log's start on."""
        start = self.copy.log.log_start_offset
        return [header for _, _, header in batches(self.whole, topic=TOPIC) if header.next_offset > start]

    def local_headers(self) -> list[BatchHeader]:
        start = self.copy.log.log_start_offset
        return [header for header in headers_in(self.copy.root) if header.next_offset > start]


def asking(found: dict[str, str]) -> list[str]:
    """The command's options for a tier, from those of the data source."""
    rest = [word for key, value in found.items() if key != "tier" for word in ("--tier-config", f"{key}={value}")]
    return ["--from-tier", found["tier"], *rest]


@pytest.fixture(params=["folder", "s3"])
def tiered(request: pytest.FixtureRequest, server: tuple[S3Server, str], tmp_path: Path) -> Iterator[Tiered]:
    rig = whole(tmp_path)
    with stores(request.param, server) as (store, found):
        copy = TieredCopy(rig.log(), store, tmp_path / "tiered")
        copy.tier(local=1)
        made = Tiered(tmp_path / "whole", copy, asking(found))
        made.save()
        yield made


def headers_in(folder: Path) -> list[BatchHeader]:
    return [header for _, _, header in batches(folder, topic=TOPIC)]


def is_like(tmp_path: Path, folder: Path, other: Path) -> bool:
    """Whether an audit finds the same records in both."""
    return audit("--topic", TOPIC, "--data", other, "--against-data", folder)[0] == 0


@settings(max_examples=10, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_local_segments_and_the_tier_together_are_the_whole_log(
    kind: str, server: tuple[S3Server, str], steps: list[str], seed: int
) -> None:
    """By the metadata topic or a listing, with what kills, other leaders and an unclean election have left."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as directory, stores(kind, server) as (store, found):
        work = Workload(Rig(OsFileSystem(), CONFIG, f"{directory}/whole"), draw)
        for step in steps:
            work.step(step)
        work.rig.manager.checkpoint_log_start_offsets()
        copy = TieredCopy(work.log, store, Path(directory) / "tiered")
        copy.tier(draw.randrange(3))
        _left_over(copy, draw)
        made = Tiered(Path(directory) / "whole", copy, asking(found))
        made.save()
        new = Path(directory) / "new"
        for mode in ("auto", "listing"):
            status, result = restore(
                "--from-data", copy.root, *made.asked, "--tier-config", f"tierMetadata={mode}", "--into-data", new
            )
            assert (status, lost(result), [one["damage"] for one in result["partitions"]]) == (0, {}, [[]])
            assert headers_in(new) == made.headers()
            assert not (new / f"{METADATA}-0").exists()
            shutil.rmtree(new)
        status, _ = restore("--from-data", copy.root, "--into-data", new)
        folder = f"{TOPIC}-0"
        assert (status, headers_in(new)) == (0, made.local_headers())
        if made.local_headers() != made.headers():
            assert (new / folder / EPOCHS).read_text() == (copy.root / folder / EPOCHS).read_text()


def _left_over(copy: TieredCopy, draw: random.Random) -> None:
    """What is in the store besides one copy of each segment."""
    sealed = [one for one in copy.sealed() if one[1] > copy.log.log_start_offset]
    if sealed and draw.random() < 0.5:
        copy.copy(*draw.choice(sealed), finish=False)
    if sealed and draw.random() < 0.5:
        copy.delete(copy.copy(*draw.choice(sealed), finish=False))
    if sealed and copy.log.leader_epochs.entries[-1].epoch > FOREIGN and draw.random() < 0.5:
        copy.copy_foreign(*draw.choice(sealed))
    if len(sealed) > 1 and draw.random() < 0.5:
        at = draw.randrange(len(sealed) - 1)
        copy.copy_both(sealed[at], sealed[at + 1])
        if draw.random() < 0.5:
            copy.delete(next(one for one in copy.copied if one.start_offset == sealed[at][0].base_offset))


def test_a_new_folder_gets_all_that_was_in_the_tier(tiered: Tiered, tmp_path: Path) -> None:
    new = tmp_path / "new"
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, "--into-data", new)
    assert (status, lost(result)) == (0, {})
    assert headers_in(new) == tiered.headers()
    assert not any("stays there" in line for line in told.lines(result))
    assert (new / f"{TOPIC}-0/partition.metadata").read_text().split() == (
        (tiered.whole / f"{TOPIC}-0/partition.metadata").read_text().split()
    )
    assert is_like(tmp_path, new, tiered.whole)


@pytest.mark.parametrize("mode", ["auto", "listing"])
def test_the_tier_alone_becomes_a_topic_of_another_cluster(tiered: Tiered, tmp_path: Path, mode: str) -> None:
    other = other_cluster(tmp_path / "other", TOPIC, partitions=1)
    mode = f"tierMetadata={mode}"
    status, result = restore(*tiered.asked, "--tier-config", mode, "--topic", TOPIC, "--into-data", other)
    assert (status, lost(result)) == (0, {})
    end = tiered.copy.copied[-1].end_offset + 1
    assert [one["end"] for one in result["partitions"]] == [end]
    table = ["--against-data", tiered.whole, "--up-to", "end"]
    assert audit("--topic", TOPIC, "--data", other, *table)[0] == 1  # the whole log goes on
    assert [one.base_offset for one in headers_in(other)] == [one.base_offset for one in tiered.headers()][:end]


def test_a_lost_object_costs_its_own_offsets_and_is_named(tiered: Tiered, tmp_path: Path) -> None:
    gone = tiered.copy.copied[2]
    name = tiered.copy.store.names(gone)[0]
    tiered.copy.store.delete(gone)
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (1, {0: [[gone.start_offset, gone.end_offset]]})
    assert any(name.rpartition("/")[2] in text and "missing" in text for text in result["partitions"][0]["damage"])
    left = [one for one in tiered.headers() if not gone.start_offset <= one.base_offset <= gone.end_offset]
    assert headers_in(tmp_path / "new") == left


def test_a_damaged_object_costs_one_batch(tiered: Tiered, server: tuple[S3Server, str], tmp_path: Path) -> None:
    _change(tiered, server, ".log", lambda data: data[:100] + bytes((data[100] ^ 1,)) + data[101:])
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, "--into-data", tmp_path / "new")
    first = tiered.copy.copied[1].start_offset
    assert (status, lost(result)) == (1, {0: [[first, first]]})
    assert any("its CRC is wrong" in text for text in result["partitions"][0]["damage"])


def test_an_object_that_was_cut_costs_what_was_cut(
    tiered: Tiered, server: tuple[S3Server, str], tmp_path: Path
) -> None:
    _change(tiered, server, ".log", lambda data: data[: len(data) - 10])
    for mode in ("auto", "listing"):
        new = tmp_path / mode
        asked = ("--tier-config", f"tierMetadata={mode}")
        status, result = restore("--from-data", tiered.copy.root, *tiered.asked, *asked, "--into-data", new)
        last = tiered.copy.copied[1].end_offset
        assert (status, lost(result)) == (1, {0: [[last, last]]})


def test_what_lies_beside_a_log_may_be_lost(tiered: Tiered, server: tuple[S3Server, str], tmp_path: Path) -> None:
    """Nothing is lost by it, neither by the metadata topic nor by a listing."""
    for suffix in (".leader_epoch_checkpoint", ".index", ".rsm-manifest"):
        _change(tiered, server, suffix, lambda _: None)
    for mode in ("auto", "listing"):
        new = tmp_path / mode
        asked = ("--tier-config", f"tierMetadata={mode}")
        status, result = restore("--from-data", tiered.copy.root, *tiered.asked, *asked, "--into-data", new)
        assert (status, lost(result)) == (0, {})
        assert headers_in(new) == tiered.headers()


def _change(tiered: Tiered, server: tuple[S3Server, str], suffix: str, change: Any) -> None:
    """Change a file of the second remote segment, if it has one with that suffix; None removes it."""
    start = f"{tiered.copy.copied[1].start_offset:020d}-"
    if isinstance(tiered.copy.store, FolderStore):
        for path in Path(tiered.asked[1]).glob(f"*/*/{start}*{suffix}"):
            data = change(path.read_bytes())
            path.unlink() if data is None else path.write_bytes(data)
        return
    for key in [key for key in server[0].objects if start in key and key.endswith(suffix)]:
        data = change(server[0].objects.pop(key))
        if data is not None:
            server[0].objects[key] = data


def test_damage_of_either_side_is_mended_from_the_other(tiered: Tiered, tmp_path: Path) -> None:
    """The newest remote segment is local, too; and another replica has all that the tier has lost."""
    local, both = tiered.copy.copied[0], tiered.copy.copied[-1]
    (log,) = (tiered.copy.root / f"{TOPIC}-0").glob(f"{both.start_offset:020d}.log")
    log.write_bytes(b"\0" * log.stat().st_size)
    tiered.copy.store.delete(local)
    replica = tmp_path / "replica"
    shutil.copytree(tiered.whole, replica)
    asked = ("--from-data", tiered.copy.root, "--from-data", replica, *tiered.asked)
    status, result = restore(*asked, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    assert headers_in(tmp_path / "new") == tiered.headers()


def test_the_tier_may_be_further_than_what_is_left_of_the_disk(tiered: Tiered, tmp_path: Path) -> None:
    for log in sorted((tiered.copy.root / f"{TOPIC}-0").glob("*.log")):
        log.write_bytes(b"")
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, "--into-data", tmp_path / "new")
    end = tiered.copy.copied[-1].end_offset + 1
    assert [one["end"] for one in result["partitions"]] == [end]
    assert headers_in(tmp_path / "new") == [one for one in tiered.headers() if one.base_offset < end]
    assert status == 0


@pytest.mark.parametrize("mode", ["auto", "listing"])
def test_a_log_whose_folder_is_lost_has_its_leader_epochs_and_its_id(tiered: Tiered, tmp_path: Path, mode: str) -> None:
    """The disk with the metadata of the cluster is another one."""
    log, new = f"{TOPIC}-0", tmp_path / "new"
    identity = (tiered.copy.root / log / "partition.metadata").read_text().split()
    shutil.rmtree(tiered.copy.root / log)
    asked = ("--tier-config", f"tierMetadata={mode}")
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, *asked, "--into-data", new)
    end = tiered.copy.copied[-1].end_offset + 1
    assert (status, lost(result)) == (0, {})
    assert headers_in(new) == [one for one in tiered.headers() if one.base_offset < end]
    assert (new / log / "partition.metadata").read_text().split() == identity


def test_what_a_damaged_metadata_topic_has_lost_is_listed(tiered: Tiered, tmp_path: Path) -> None:
    (log,) = (tiered.copy.root / f"{METADATA}-0").glob("*.log")
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    status, result = restore("--from-data", tiered.copy.root, *tiered.asked, "--into-data", tmp_path / "new")
    assert (status, lost(result)) == (0, {})
    assert headers_in(tmp_path / "new") == tiered.headers()


def test_a_log_on_s3_is_read_three_times_in_chunks(server: tuple[S3Server, str], tmp_path: Path) -> None:
    """To be looked at, to be written and to be compared; and what is local, too, not at all."""
    rig = Rig(OsFileSystem(), replace(SMALL, segment_bytes=3_000_000), str(tmp_path / "whole"))
    for number in range(120):
        put(rig.log(), (b"k", random.Random(number).randbytes(100_000)))
    with stores("s3", server) as (store, found):
        copy = TieredCopy(rig.log(), store, tmp_path / "tiered")
        copy.tier(local=1)
        made = Tiered(tmp_path / "whole", copy, asking(found))
        made.save()
        server[0].ranges.clear()
        assert restore("--from-data", copy.root, *made.asked, "--into-data", tmp_path / "new")[0] == 0
        cold = [one for one in copy.copied if one.start_offset < copy.copied[-1].start_offset]
    asked = [tuple(map(int, one.removeprefix("bytes=").split("-"))) for one in server[0].ranges]
    logs = [one for one in asked if one[1] - one[0] > 10_000]
    assert len(logs) == 3 * len(cold)
    assert len(asked) < len(logs) + 10


def test_without_the_tier_a_broker_s_folder_still_knows_of_it(tiered: Tiered, tmp_path: Path) -> None:
    """Else the broker would take the older records for deleted ones, and remove them."""
    new, log = tmp_path / "new", f"{TOPIC}-0"
    status, result = restore("--from-data", tiered.copy.root, "--into-data", new)
    assert (status, lost(result)) == (0, {})
    assert (new / f"{METADATA}-0").exists()
    assert f"{TOPIC} 0 0" in (new / "log-start-offset-checkpoint").read_text()
    assert (new / log / EPOCHS).read_text() == (tiered.copy.root / log / EPOCHS).read_text()
    assert headers_in(new) == tiered.local_headers()
    assert any("in remote storage stays there, and is not counted" in line for line in told.lines(result))


def test_elsewhere_what_is_in_the_tier_is_lost_without_it(tiered: Tiered, tmp_path: Path) -> None:
    other = other_cluster(tmp_path / "other", TOPIC, partitions=1)
    status, result = restore("--from-data", tiered.copy.root, "--topic", TOPIC, "--into-data", other)
    first = headers_in(tiered.copy.root)[0].base_offset
    assert (status, lost(result)) == (1, {0: [[0, first - 1]]})
    assert any("--from-tier" in text for text in result["partitions"][0]["damage"])


def test_a_store_that_does_not_answer_ends_a_restore_which_can_be_repeated(
    server: tuple[S3Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek_pipeline.protocol.remote_storage.s3.RETRIES", 0)
    rig = whole(tmp_path)
    with stores("s3", server) as (store, found):
        copy = TieredCopy(rig.log(), store, tmp_path / "tiered")
        copy.tier(local=1)
        made = Tiered(tmp_path / "whole", copy, asking(found))
        made.save()
        asked = ("--from-data", copy.root, *made.asked, "--into-data", tmp_path / "new")
        source = Folders((str(copy.root),), (), found)

        def fails(_: int) -> None:
            server[0].failing = True

        try:
            with pytest.raises(Exception, match="Repeat the restore"):
                IntoData(tmp_path / "new", progress=fails).whole(source, ())
        finally:
            server[0].failing = False
        assert restore(*asked)[0] == 0
        assert headers_in(tmp_path / "new") == made.headers()


def test_a_tier_that_is_not_there_is_refused(tmp_path: Path, tiered: Tiered) -> None:
    status, result = restore("--from-tier", tmp_path / "nothing", "--topic", TOPIC, "--into-data", tmp_path / "new")
    assert (status, "cannot be read" in result["text"]) == (2, True)
    status, result = restore(*tiered.asked, "--topic", "nothing", "--into-data", tmp_path / "new")
    assert (status, "No partition of nothing" in result["text"]) == (2, True)
    status, result = restore("--from-data", tiered.copy.root, "--topic-id", "x", "--into-data", tmp_path / "new")
    assert (status, "go with --from-tier" in result["text"]) == (2, True)


def test_of_several_topics_of_a_name_one_is_named(tmp_path: Path) -> None:
    store = FolderStore(OsFileSystem(), str(tmp_path / "store"))
    store.check()
    copy = TieredCopy(whole(tmp_path).log(), store, tmp_path / "tiered")
    copy.tier(local=1)
    (folder,) = (tmp_path / "store/kafka-tiered-storage").iterdir()
    shutil.copytree(folder, folder.with_name(f"{TOPIC}-0-MWJ6FHTfRYy67jzwZdeqSQ"))
    other = other_cluster(tmp_path / "other", TOPIC, partitions=1)
    asked = ("--from-tier", tmp_path / "store", "--topic", TOPIC, "--into-data", other)
    status, result = restore(*asked)
    assert (status, "say which with --topic-id" in " ".join(result["text"].split())) == (2, True)
    assert restore(*asked, "--topic-id", "MWJ6FHTfRYy67jzwZdeqSQ")[0] == 0

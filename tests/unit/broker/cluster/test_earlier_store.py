"""The metadata of a folder that a release before 0.2 wrote is imported, once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.earlier_entries import CorruptMetadataError, decode_entries
from broker.cluster.earlier_store import ASIDE, LOG_NAME, SNAPSHOT_NAME, read_records
from controller.brokers import bootstrap
from controller.quorum.opening import MetadataLogConfig
from metadata.configs import CLUSTER_DEFAULT, ResourceType
from metadata.image import MetadataImage
from protocol.metadata.topics import ConfigRecord, FeatureLevelRecord
from protocol.topic_partition import TopicPartition
from storage.folders.strays import FolderState
from tests.doubles.clock import ManualClock
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.doubles.flaky import FlakyFileSystem, Trouble
from tests.unit.broker.cluster import requests
from tests.unit.broker.cluster.earlier_folders import entry, unpacked, write
from tests.unit.broker.cluster.standalone_process import Process, started
from tests.unit.broker.crash_run import committed_offset
from tests.unit.broker.rig import Rig
from tests.unit.controller.images import directory
from tests.unit.storage.cleaner.cleaning import records
from tests.unit.storage.crashing import READING
from tests.unit.storage.support import NOW

KAFKAS = MetadataLogConfig()
COUNTS = {"__consumer_offsets": 1, "__transaction_state": 1, "a.b": 3, "lines": 2, "t": 1}


def check(image: MetadataImage) -> None:
    """It says what the recorded folder says."""
    assert {topic.name: topic.partition_count for topic in image.topics} == COUNTS
    assert str(image.topics.by_name["lines"].id) == "35bf992d-c9e9-4616-a12e-7696a6cecc1b"
    configs = {
        (int(kind), name): dict(values)
        for (kind, name), values in image.configs.by_resource.items()
        if not name.startswith("__")
    }
    assert configs == {
        (ResourceType.TOPIC, "lines"): {"retention.ms": "-1", "flush.messages": "1"},
        (ResourceType.BROKER, "1"): {"log.retention.ms": "86400000"},
        (ResourceType.BROKER, CLUSTER_DEFAULT): {"min.insync.replicas": "1", "log.segment.bytes": "2000000"},
        (ResourceType.GROUP, "a/b"): {"consumer.session.timeout.ms": "50000"},
        (ResourceType.GROUP, "<default>"): {"consumer.session.timeout.ms": "51000"},
        (ResourceType.CLIENT_METRICS, "m"): {"metrics": "a,b"},
    }
    assert {key: dict(values) for key, values in image.quotas.items()} == {
        (("user", "a/b %"),): {"producer_byte_rate": 1e9},
        (("client-id", None), ("user", "u")): {"producer_byte_rate": 2e9},
        (("client-id", "c"),): {"producer_byte_rate": 3e9},
        (("user", None),): {"producer_byte_rate": 4e9},
        (("ip", "192.0.2.9"),): {"connection_creation_rate": 1000.0},
        (("ip", None),): {"connection_creation_rate": 2000.0},
    }
    credentials = {key: (each.iterations, each.salt, len(each.stored_key)) for key, each in image.scram.items()}
    assert credentials == {("a/b \N{SNOWMAN}", 1): (4096, b"salt", 32), ("u", 2): (8192, b"salt", 64)}
    assert (image.features["metadata.version"], image.features["share.version"]) == (27, 1)
    assert image.next_producer_id == 1000


@pytest.fixture
def fs() -> FlakyFileSystem:
    made = FlakyFileSystem()
    unpacked(made)
    return made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def test_everything_is_imported_and_led_with_higher_epochs(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = Process(fs, clock, config=KAFKAS)
    process.open()
    assert not process.metadata.is_new
    process.lead()
    image = process.cache.image
    check(image)
    for topic in image.topics:
        for _, found in topic.in_order():
            assert (found.leader, found.leader_epoch, found.isr) == (1, 2, (1,))  # as after any other start
            assert found.directories == (directory(1),)
    process.done(requests.create(("new",), 1, None))
    process.stop()


def test_a_later_start_reads_the_metadata_log_alone(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = started(fs, clock, KAFKAS)
    process.done(requests.delete(("a.b",)))
    before = process.shown
    process.stop()
    names = fs.listdir("/data")
    assert {LOG_NAME + ASIDE, SNAPSHOT_NAME + ASIDE} <= set(names)
    assert not {LOG_NAME, SNAPSHOT_NAME} & set(names)
    again = started(fs, clock, KAFKAS)
    assert again.shown == before
    again.end()


def test_files_that_cannot_be_renamed_are_never_read_again(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = Process(fs, clock, config=KAFKAS)
    process.open()

    def before(operation: str, path: str) -> None:
        if operation == "rename" and LOG_NAME in path:
            raise OSError("no")

    fs.hook = before
    process.lead()
    process.done(requests.delete(("a.b",)))
    process.end()
    assert LOG_NAME in fs.listdir("/data")
    again = started(fs, clock, KAFKAS)
    assert "a.b" not in again.shown.topics
    again.end()


def test_without_room_it_is_served_and_imported_later(fs: FlakyFileSystem, clock: ManualClock) -> None:
    process = Process(fs, clock, config=KAFKAS)
    process.open()
    fs.get_into(Trouble.ROOM, 1.0, 0)
    process.lead()
    check(process.cache.image)
    assert not process.cache.image.cluster.brokers[1].fenced
    fs.get_into(Trouble.NONE, 0.0, 0)
    process.finish(process.metadata.retry())
    check(process.metadata.controller.image)
    process.end()
    again = started(fs, clock, KAFKAS)
    check(again.cache.image)
    again.end()


@pytest.mark.parametrize("unsynced", list(Unsynced))
def test_whenever_the_power_fails_nothing_is_lost(fs: FlakyFileSystem, clock: ManualClock, unsynced: Unsynced) -> None:
    points: list[MemoryFileSystem] = []

    def before(operation: str, _path: str) -> None:
        if operation not in READING:
            points.append(fs.copy())

    fs.hook = before
    started(fs, clock, KAFKAS).stop()
    assert len(points) > 20
    for seed, point in enumerate(points):
        point.crash(unsynced, seed)
        process = started(point, clock, KAFKAS)
        check(process.cache.image)
        process.end()


def test_leftover_folders_of_deleted_topics_are_known(fs: FlakyFileSystem, clock: ManualClock) -> None:
    _, deleted = read_records(fs, "/data")
    (gone,) = deleted
    process = started(fs, clock, KAFKAS)
    assert process.metadata.folder_state(TopicPartition("gone", 0), gone) is FolderState.DELETED
    assert process.metadata.folder_state(TopicPartition("gone", 0), directory(1)) is FolderState.STRAY
    process.end()


def test_features_come_before_all_that_depends_on_them(fs: FlakyFileSystem) -> None:
    found, _ = read_records(fs, "/data")
    kinds = [type(record) for record in found]
    assert kinds[0] is FeatureLevelRecord
    assert found[0].name == "metadata.version"
    assert kinds == sorted(kinds, key=lambda kind: kind is not FeatureLevelRecord)


def test_what_an_old_store_lacks_is_added(clock: ManualClock) -> None:
    fs = FlakyFileSystem()
    fs.mkdir("/data")
    fs.fsync_dir("/")
    write(fs, f"/data/{LOG_NAME}", entry((1, {"/producer-ids/next-block": '{"first": 2000}'}, [])))
    process = started(fs, clock, KAFKAS)
    image = process.cache.image
    assert image.next_producer_id == 2000
    wanted = {record.name for record in bootstrap(MetadataImage(), 1).records if isinstance(record, FeatureLevelRecord)}
    assert set(image.features) == wanted
    assert dict(image.configs.of(ResourceType.BROKER, CLUSTER_DEFAULT)) == {"min.insync.replicas": "1"}
    process.end()


async def test_a_node_goes_on_with_the_folder() -> None:
    rig = Rig()
    unpacked(rig.fs)
    async with rig:
        check(rig.node.cluster.cache.image)
        lines = rig.node.replicas.get("lines", 0)
        assert [one.value for one in records(lines.log)] == [b"line 0", b"line 1", b"line 2"]
        assert lines.leader_epoch == 2
        assert "gone-0" not in rig.fs.listdir("/data")
        client = rig.connect()
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        assert await committed_offset(client) == 2
        assert rig.node.local.config.integer("log.segment.bytes") == 2_000_000
        await rig.node.coordinators.producer_ids.ready()
        assert rig.node.coordinators.producer_ids.take() == 1000
    again = await rig.crash(Unsynced.KEPT)
    assert again.node.replicas.get("lines", 0).leader_epoch == 4
    assert len(again.node.cluster.cache.image.topics) == len(COUNTS)
    await again.stop()


# -- the format

Put = tuple[int, dict[str, str], list[str]]


def config(number: int, value: str, deletes: list[str] | None = None) -> Put:
    """A commit that sets the group g's config `k`."""
    return number, {"/configs/groups/g": f'{{"k": "{value}"}}'}, deletes or []


def values(log: bytes, snapshot: bytes | None = None) -> list[str | None]:
    """The values of the records in a folder with these files. Raises CorruptMetadataError."""
    fs = MemoryFileSystem()
    fs.mkdir("/data")
    write(fs, f"/data/{LOG_NAME}", log)
    if snapshot is not None:
        write(fs, f"/data/{SNAPSHOT_NAME}", snapshot)
    found: list[Any] = read_records(fs, "/data")[0]
    return [record.value for record in found if isinstance(record, ConfigRecord)]


def test_the_newest_commit_counts() -> None:
    log = entry(config(1, "1")) + entry(config(2, "2"), config(3, "3"))
    assert values(log) == ["3"]
    assert values(log + entry((4, {}, ["/configs/groups/g"]))) == []


@given(numbers=st.integers(1, 5), data=st.data())
def test_a_log_cut_anywhere_keeps_the_whole_entries_before_the_cut(numbers: int, data: st.DataObject) -> None:
    entries = [entry(config(number + 1, str(number))) for number in range(numbers)]
    log = b"".join(entries)
    cut = data.draw(st.integers(0, len(log)))
    whole = sum(1 for number in range(numbers) if len(b"".join(entries[: number + 1])) <= cut)
    assert values(log[:cut]) == [str(whole - 1)] * (whole > 0)


@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_a_flipped_byte_is_never_read_as_data(position: int, flip: int) -> None:
    entries = [entry(config(number, "value")) for number in (1, 2, 3)]
    log = bytearray(b"".join(entries))
    position %= len(log)
    log[position] ^= flip
    if position < len(entries[0]) + len(entries[1]):
        with pytest.raises(CorruptMetadataError, match="damaged"):
            list(decode_entries(bytes(log), "log"))
    else:
        assert [commits[0].revision for _, commits in decode_entries(bytes(log), "log")] == [1, 2]


def test_damage_among_what_the_snapshot_has_is_passed_over() -> None:
    """A crash while the log is emptied may leave any part of it."""
    snapshot = entry(config(2, "2"))
    entries = [entry(config(number, str(number))) for number in (1, 2, 3)]
    assert values(b"".join(entries), snapshot) == ["3"]
    assert values(bytes(len(entries[0])) + entries[1] + entries[2], snapshot) == ["3"]
    assert values(bytes(len(entries[0])) + bytes(len(entries[1])) + entries[2], snapshot) == ["3"]
    with pytest.raises(CorruptMetadataError, match="at byte 0 is damaged"):
        values(bytes(len(entries[2])) + entry(config(4, "4")), snapshot)


def test_missing_commits_and_a_damaged_snapshot_stop_the_start() -> None:
    with pytest.raises(CorruptMetadataError, match="commit 3 follows 1"):
        values(entry(config(1, "1")) + entry(config(3, "3")))
    with pytest.raises(CorruptMetadataError, match=f"{SNAPSHOT_NAME} is damaged"):
        values(b"", entry(config(1, "1"))[:-1])


def test_a_start_that_is_refused_changes_nothing(fs: FlakyFileSystem, clock: ManualClock) -> None:
    damaged = bytearray(entry(config(1, "1")))
    damaged[20] ^= 1
    write(fs, f"/data/{SNAPSHOT_NAME}", bytes(damaged))
    process = Process(fs, clock, config=KAFKAS)
    with pytest.raises(CorruptMetadataError):
        process.open()
    process.end()
    assert {LOG_NAME, SNAPSHOT_NAME} <= set(fs.listdir("/data"))
    with pytest.raises(CorruptMetadataError):
        started(fs, clock, KAFKAS)

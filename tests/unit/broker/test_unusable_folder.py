"""A node that starts without one of its log folders: what clients are told of the partitions in there."""

from __future__ import annotations

import errno

import pytest
from kio.schema.describe_topic_partitions.v0.request import TopicRequest
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsTopic
from kio.schema.metadata.v12.request import MetadataRequestTopic
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition, OffsetForLeaderTopic

from broker.node import RETRY_MS
from controller.quorum.metadata_batches import MetadataLogError
from storage.folders.log_dirs import LogDirError
from tests.doubles.clock import settle
from tests.doubles.files import Fault
from tests.unit.broker.asking import append, create, log_dirs
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import fetch

METADATA_LOG = "/one/__cluster_metadata-0/00000000000000000000.log"
FOLDERS = {"log.dirs": "/one,/two", "offsets.topic.num.partitions": "2"}
LATEST = -1


async def read(client: Client, topic: str, index: int) -> str:
    done = await client.ask("fetch", 12, **fetch([(topic, index, 0)], max_wait_ms=0))
    return str(done.responses[0].partitions[0].error_code.name)


async def end_of(client: Client, topic: str, index: int) -> tuple[str, int]:
    wanted = ListOffsetsTopic(
        name=topic, partitions=(ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=LATEST),)
    )
    done = await client.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=(wanted,))
    (one,) = done.topics[0].partitions
    return one.error_code.name, one.offset


async def end_of_epoch(client: Client, topic: str, index: int) -> tuple[str, int]:
    wanted = OffsetForLeaderPartition(partition=index, current_leader_epoch=-1, leader_epoch=0)
    topics = (OffsetForLeaderTopic(topic=topic, partitions=(wanted,)),)
    done = await client.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    (one,) = done.topics[0].partitions
    return one.error_code.name, one.end_offset


@pytest.mark.long
async def test_partitions_of_a_folder_that_is_gone_are_offline_until_it_is_back() -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        assert [await append(client, "t", index) for index in (0, 1)] == ["none", "none"]

    def gone(operation: str, path: str) -> None:
        if path.startswith("/two"):
            raise OSError(errno.EIO, "gone", path)

    rig.fs.hook = gone
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as crippled:
        client = crippled.connect()
        assert [await append(client, "t", index) for index in (0, 1)] == ["none", "kafka_storage_error"]
        assert [await read(client, "t", index) for index in (0, 1)] == ["none", "kafka_storage_error"]
        assert await end_of(client, "t", 0) == ("none", 2)
        assert (await end_of(client, "t", 1))[0] == "kafka_storage_error"
        assert await end_of_epoch(client, "t", 0) == ("none", 1)  # then the node was started once more
        assert (await end_of_epoch(client, "t", 1))[0] == "kafka_storage_error"
        told = await log_dirs(client)
        assert told["/one"][0::2] == ("none", {("t", 0)})
        assert told["/two"] == ("kafka_storage_error", -1, set())
        await crippled.create("new", 2)
        assert [await append(client, "new", index) for index in (0, 1)] == ["none", "none"]
        assert (await log_dirs(client))["/one"][2] == {("t", 0), ("new", 0), ("new", 1)}

    rig.fs.hook = None
    async with Rig(fs=rig.fs, clock=rig.clock, seed=3, config=FOLDERS) as whole:
        client = whole.connect()
        assert [await end_of(client, "t", index) for index in (0, 1)] == [("none", 2), ("none", 1)]
        assert (await log_dirs(client))["/two"][0::2] == ("none", {("t", 1)})


async def test_a_topic_deleted_while_its_folder_is_gone_stays_deleted() -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        await append(rig.connect(), "t", 1)

    def gone(operation: str, path: str) -> None:
        if path.startswith("/two"):
            raise OSError(errno.EIO, "gone", path)

    rig.fs.hook = gone
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as crippled:
        await crippled.delete("t")
        await crippled.create("t", 2)
        assert await append(crippled.connect(), "t", 1) == "none"
        assert await append(crippled.connect(), "t", 1) == "none"

    rig.fs.hook = None
    async with Rig(fs=rig.fs, clock=rig.clock, seed=3, config=FOLDERS) as whole:
        assert await end_of(whole.connect(), "t", 1) == ("none", 2)
        assert not [name for name in whole.fs.listdir("/two") if name.startswith("t-")]


async def test_groups_of_an_offline_partition_are_not_taken_for_empty() -> None:
    async with Rig(config=FOLDERS) as rig:
        rig.connect().send("find_coordinator", 4, key_type=0, coordinator_keys=("g",))
        await rig.clock.run(1000)
        assert len(rig.node.replicas) == 2

    def gone(operation: str, path: str) -> None:
        if path.startswith("/two"):
            raise OSError(errno.EIO, "gone", path)

    rig.fs.hook = gone
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as crippled:
        await settle()
        told = set()
        for group in "abcd":
            done = await crippled.connect().ask(
                "describe_groups", 5, groups=(group,), include_authorized_operations=False
            )
            told.add(done.groups[0].error_code.name)
        assert told == {"none", "not_coordinator"}


async def leaders(client: Client, topic: str) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    """What Metadata answers for each partition, by its number: error, leader, ISR, offline replicas.

    DescribeTopicPartitions tells the same, but for the errors.
    """
    named = (MetadataRequestTopic(topic_id=None, name=topic),)
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    told = (await client.ask("metadata", 12, topics=named, **fields)).topics[0]
    asked = (TopicRequest(name=topic),)
    other = await client.ask("describe_topic_partitions", 0, topics=asked, response_partition_limit=100, cursor=None)
    found, again = (
        [
            (one.error_code.name, one.leader_id, one.isr_nodes, one.offline_replicas)
            for one in sorted(topic.partitions, key=lambda one: int(one.partition_index))
        ]
        for topic in (told, other.topics[0])
    )
    assert told.error_code.name == "none"
    assert again == [("none", *rest) for _, *rest in found]
    return found


async def test_partitions_whose_log_is_offline_have_no_leader_as_in_kafka() -> None:
    led, leaderless = ("none", 1, (1,), ()), ("leader_not_available", -1, (), (1,))
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        assert await leaders(client, "t") == [led, led]
        rig.fs.inject(Fault("pwrite", 1, errno.EIO, path_part="/two/"))
        assert sorted([await append(client, "t", index) for index in range(2)]) == ["kafka_storage_error", "none"]
        assert sorted(await leaders(client, "t")) == [leaderless, led]
        offline = [index for index, one in enumerate(await leaders(client, "t")) if one == leaderless]
        assert await append(client, "t", offline[0]) == "kafka_storage_error"

    def refuse(_: str, path: str) -> None:
        if path.startswith("/two/"):
            raise OSError(errno.EIO, "refused")

    rig.fs.hook = refuse
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS) as again:
        found = await leaders(again.connect(), "t")
        assert [index for index, one in enumerate(found) if one == leaderless] == offline
        rig.fs.hook = None
    async with Rig(fs=rig.fs, clock=rig.clock, seed=3, config=FOLDERS) as whole:
        assert await leaders(whole.connect(), "t") == [led, led]


@pytest.mark.parametrize("name", ["replication-offset", "recovery-point-offset"])
async def test_a_device_that_takes_no_checkpoint_takes_its_folder_offline(name: str) -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        assert [await append(client, "t", index) for index in (0, 1)] == ["none", "none"]

        def gone(_operation: str, path: str) -> None:
            if path.startswith(f"/two/{name}"):
                raise OSError(errno.EIO, "gone", path)

        rig.fs.hook = gone
        await rig.clock.run(61_000)
        assert [await append(client, "t", index) for index in (0, 1)] == ["none", "kafka_storage_error"]


@pytest.mark.parametrize("operation", ["mkdir", "fsync_dir"])
async def test_a_device_that_fails_under_new_logs_takes_its_folder_offline(operation: str) -> None:
    """It may hold no log: then no checkpoint finds out, and each new log would be tried there first."""
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 1)
        await rig.clock.run(61_000)

        def gone(called: str, path: str) -> None:
            if called == operation and path.startswith("/two"):
                raise OSError(errno.EIO, "gone", path)

        rig.fs.hook = gone
        client = rig.connect()
        assert await create(client, "u", 2) == "none"
        assert "kafka_storage_error" in [await append(client, "u", index) for index in (0, 1)]
        assert {path: told[0] for path, told in (await log_dirs(client)).items()} == {
            "/one": "none",
            "/two": "kafka_storage_error",
        }
        await rig.clock.run(RETRY_MS)
        assert [await append(client, "u", index) for index in (0, 1)] == ["none", "none"]


@pytest.mark.parametrize("folder, ends", [("/one", True), ("/two", False)])
async def test_a_node_ends_when_the_folder_with_the_metadata_fails(folder: str, ends: bool) -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        client = rig.connect()
        rig.fs.inject(Fault("pwrite", 1, errno.EIO, path_part=f"{folder}/t-"))
        assert sorted([await append(client, "t", index) for index in range(2)]) == ["kafka_storage_error", "none"]
        assert rig.node.state.unusable.is_set() is ends
        assert rig.node.state.not_ready == ("/one, the log directory with the metadata, has failed" if ends else None)


@pytest.mark.parametrize("error, ends", [(errno.EIO, True), (errno.EFBIG, True), (errno.ENOSPC, False)])
async def test_a_node_ends_when_no_metadata_can_be_written_any_more(error: int, ends: bool) -> None:
    async with Rig(config=FOLDERS) as rig:
        rig.fs.inject(Fault("pwrite", 1, error, path_part=METADATA_LOG))
        assert await create(rig.connect(), "t", 1) == "kafka_storage_error"
        assert rig.node.cluster.cache.topic("t") is None
        assert rig.node.state.unusable.is_set() is ends


@pytest.mark.parametrize("error, starts", [(errno.EIO, False), (errno.ENOSPC, True)])
async def test_a_node_does_not_start_that_could_only_end(error: int, starts: bool) -> None:
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 1)
    rig.fs.inject(Fault("pwrite", 1, error, path_part=METADATA_LOG))
    again = Rig(fs=rig.fs, clock=rig.clock, seed=2, config=FOLDERS)
    if starts:
        await again.start()
        assert await append(again.connect(), "t", 0) == "none"
        await again.stop()
    else:
        with pytest.raises(MetadataLogError):
            await again.start()
    async with Rig(fs=rig.fs, clock=rig.clock, seed=3, config=FOLDERS) as third:
        assert await append(third.connect(), "t", 0) == "none"


@pytest.mark.parametrize("folders", ["/two,/one", "/new,/one,/two"])
async def test_partitions_are_not_removed_for_lack_of_metadata(folders: str) -> None:
    """As after a change of the order of `log.dirs`, or when the first folder's disk is not mounted."""
    async with Rig(config=FOLDERS) as rig:
        await rig.create("t", 2)
        assert [await append(rig.connect(), "t", index) for index in (0, 1)] == ["none", "none"]
    for _ in range(2):
        with pytest.raises(LogDirError, match=r"has the partition t-[01], but there is no metadata in"):
            await Rig(fs=rig.fs, clock=rig.clock, config={**FOLDERS, "log.dirs": folders}).start()
    assert rig.fs.open_files == 0
    async with Rig(fs=rig.fs, clock=rig.clock, config=FOLDERS) as again:
        assert [await end_of(again.connect(), "t", index) for index in (0, 1)] == [("none", 1), ("none", 1)]

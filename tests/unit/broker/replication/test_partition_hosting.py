"""The logs of new partitions are made before anyone sees them; one that cannot be made comes later."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicState

from broker.node import RETRY_MS
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem, Unsynced
from tests.unit.broker.asking import SECOND, append, create, creation
from tests.unit.broker.crash_run import Run, committed_offset
from tests.unit.broker.members import commit
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer
from tests.unit.storage.support import copied_before_each_change


def refuse(rig: Rig, operation: str, ending: str) -> None:
    def hook(asked: str, path: str) -> None:
        if asked == operation and path.endswith(ending):
            raise OSError(28, "no space left")

    rig.fs.hook = hook


def growth(name: str, count: int) -> dict[str, Any]:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return {"topics": (topic,), "timeout": SECOND, "validate_only": False}


async def grow(client: Client, name: str, count: int) -> str:
    (topic,) = (await client.ask("create_partitions", 3, **growth(name, count))).results
    return str(topic.error_code.name)


def folders(rig: Rig, topic: str) -> list[str]:
    return sorted(name for name in rig.fs.listdir("/data") if name.startswith(f"{topic}-"))


def folder_names(fs: MemoryFileSystem) -> list[str]:
    return [name for name in fs.listdir("/data") if fs.is_dir(f"/data/{name}") and not name.startswith("__")]


@pytest.mark.parametrize(("operation", "ending"), [("mkdir", "t-1"), ("open", "t-1/partition.metadata.tmp")])
async def test_a_partition_whose_log_cannot_be_made_is_offline_until_it_can(operation: str, ending: str) -> None:
    async with Rig() as rig:
        client = rig.connect()
        refuse(rig, operation, ending)
        assert await create(client, "t", 3) == "none"
        codes = ["none", "kafka_storage_error", "none"]
        assert [await append(client, "t", index) for index in range(3)] == codes
        await rig.clock.run(RETRY_MS)
        assert [await append(client, "t", index) for index in range(3)] == codes
        assert folders(rig, "t") == ["t-0", "t-2"]
        rig.fs.hook = None
        await rig.clock.run(RETRY_MS)
        assert [await append(client, "t", index) for index in range(3)] == ["none"] * 3
        assert [rig.node.replicas.get("t", index).log_end_offset for index in range(3)] == [3, 1, 3]


async def test_added_partitions_whose_logs_cannot_be_made_are_offline_until_they_can() -> None:
    async with Rig() as rig:
        await rig.create("t")
        client = rig.connect()
        refuse(rig, "mkdir", "t-2")
        assert await grow(client, "t", 3) == "none"
        rig.fs.hook = None
        assert folders(rig, "t") == ["t-0", "t-1"]
        assert [await append(client, "t", index) for index in range(3)] == ["none", "none", "kafka_storage_error"]
        await rig.clock.run(RETRY_MS)
        assert await append(client, "t", 2) == "none"


async def test_without_a_descriptor_left_a_topic_is_made_when_there_are_some_again() -> None:
    async with Rig() as rig:
        client = rig.connect()

        def none_left(operation: str, path: str) -> None:
            if operation in ("open", "listdir") and "__cluster_metadata" not in path:
                raise OSError(errno.EMFILE, "too many open files")

        rig.fs.hook = none_left
        assert await create(client, "t", 3) == "none"
        rig.fs.hook = None
        assert [await append(client, "t", index) for index in range(3)] == ["kafka_storage_error"] * 3
        await rig.clock.run(RETRY_MS)
        assert [await append(client, "t", index) for index in range(3)] == ["none"] * 3


async def test_a_node_starts_without_the_logs_that_cannot_be_made() -> None:
    rig = Rig()
    await rig.start()
    refuse(rig, "mkdir", "t-1")
    await rig.create("t", 3)
    await rig.stop()
    async with Rig(fs=rig.fs, clock=rig.clock, seed=2) as after:
        codes = [await append(after.connect(), "t", index) for index in range(3)]
        assert codes == ["none", "kafka_storage_error", "none"]
        rig.fs.hook = None
        await rig.clock.run(RETRY_MS)
        assert await append(after.connect(), "t", 1) == "none"
        assert after.node.replicas.get("t", 1).leader_epoch == 2


async def test_a_log_made_late_has_the_newest_configuration() -> None:
    async with Rig() as rig:
        refuse(rig, "mkdir", "t-0")
        await rig.create("t", max_message_bytes="1000")
        await rig.configure("t", max_message_bytes="2000", segment_index_bytes="8000")
        rig.fs.hook = None
        await rig.clock.run(RETRY_MS)
        config = rig.node.replicas.get("t", 0).log.config
        assert (config.max_message_bytes, config.segment_index_bytes) == (2000, 8000)


@pytest.mark.long
@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_a_topic_cut_short_by_a_power_failure_is_there_with_its_logs_or_not_at_all(unsynced: Unsynced) -> None:
    outcomes = set()
    async with Rig() as rig:
        await rig.create("kept")
        copies = copied_before_each_change(rig.fs)
        assert await create(rig.connect(), "t", 2) == "none"
    for fs in copies:
        fs.crash(unsynced)
        async with Rig(fs=fs, clock=rig.clock, seed=2) as after:
            there = [one.index for one in after.node.replicas if one.topic == "t"]
            assert there in ([], [0, 1])
            assert sorted(folder_names(fs)) == ["kept-0", *(f"t-{index}" for index in there)]
            if not there:
                await after.create("t", 2)
            assert [await append(after.connect(), "t", index) for index in (0, 1)] == ["none"] * 2
            outcomes.add(bool(there))
    assert outcomes == {True, False}


async def test_what_a_failed_deletion_left_is_no_part_of_the_topic_made_anew() -> None:
    async with Rig() as rig:
        await rig.create("t")
        client = rig.connect()
        assert await append(client, "t", 0) == "none"
        refuse(rig, "rename", "/data/t-0")
        await rig.delete("t")
        assert folders(rig, "t") == ["t-0"]
        rig.fs.hook = None
        await rig.create("t")
        assert rig.node.replicas.get("t", 0).log_end_offset == 0


async def test_of_two_that_create_one_topic_at_once_one_wins_with_its_logs() -> None:
    async with Rig() as rig:
        clients = rig.connect(), rig.connect()
        for count, client in enumerate(clients, 2):
            client.send("create_topics", 7, **creation("t", count))
        await settle()
        told = [answer(client.replies()[0], "create_topics", 7).topics[0].error_code.name for client in clients]
        assert told == ["none", "topic_already_exists"]
        assert folders(rig, "t") == ["t-0", "t-1"]
        assert [await append(clients[0], "t", index) for index in (0, 1)] == ["none"] * 2


async def test_a_topic_deleted_while_partitions_are_added_is_gone_with_them() -> None:
    async with Rig() as rig:
        await rig.create("t")
        growing, deleting = rig.connect(), rig.connect()
        growing.send("create_partitions", 3, **growth("t", 3))
        await asyncio.sleep(0)
        await rig.delete("t")
        await settle()
        assert answer(growing.replies()[0], "create_partitions", 3).results[0].error_code.name in (
            "none",
            "unknown_topic_or_partition",
        )
        deleting.transport.reset()
        assert len(rig.node.replicas) == 0
        assert [name for name in folders(rig, "t") if not name.endswith("-delete")] == []
        await rig.create("t", 4)
        assert [await append(growing, "t", index) for index in range(4)] == ["none"] * 4


async def test_what_is_in_the_way_of_one_folder_keeps_no_other_topic_of_the_request_waiting() -> None:
    async with Rig() as rig:
        client = rig.connect()
        rig.fs.open("/data/bad-0", create=True).close()  # no folder, and in the way of one
        names = "one", "bad", "other"
        topics = tuple(creation(name, 1)["topics"][0] for name in names)
        answered = await client.ask("create_topics", 7, **creation("", 1) | {"topics": topics})
        assert [topic.error_code.name for topic in answered.topics] == ["none"] * 3
        assert [await append(client, name, 0) for name in names] == ["none", "kafka_storage_error", "none"]
        rig.fs.unlink("/data/bad-0")
        await rig.clock.run(RETRY_MS)
        assert await append(client, "bad", 0) == "none"


# -- a topic deleted and created anew in one write of the metadata log


def send_anew(rig: Rig, partitions: int = 1) -> tuple[Client, Client]:
    """Ask for the deletion of `t` and for a new `t`, both in the same turn of the loop."""
    deleting, creating = rig.connect(), rig.connect()
    named = (DeleteTopicState(name="t", topic_id=None),)
    deleting.send("delete_topics", 6, topics=named, timeout=SECOND)
    creating.send("create_topics", 7, **creation("t", partitions))
    return deleting, creating


async def test_a_topic_made_anew_in_the_same_write_has_nothing_of_the_old_one() -> None:
    async with Rig() as rig:
        await rig.create("t", 3, max_message_bytes="1000")
        old = rig.node.cluster.cache.topic("t").id
        client = rig.connect()
        assert [await append(client, "t", index) for index in range(3)] == ["none"] * 3
        batches = rig.node.cluster.metadata_log.log.log_end_offset
        deleting, creating = send_anew(rig, 2)
        await settle()
        assert answer(deleting.replies()[0], "delete_topics", 6).responses[0].error_code.name == "none"
        assert answer(creating.replies()[0], "create_topics", 7).topics[0].error_code.name == "none"
        assert rig.node.cluster.metadata_log.log.log_end_offset == batches + 4
        assert rig.node.cluster.cache.topic("t").id != old
        assert [one.key for one in rig.node.replicas] == [("t", 0), ("t", 1)]
        for partition in rig.node.replicas:
            assert (partition.log_end_offset, partition.log.config.max_message_bytes) == (0, 1_048_588)
            assert partition.topic_id == partition.log.topic_id == rig.node.cluster.cache.topic("t").id
        assert [await append(client, "t", index) for index in range(3)] == ["none"] * 2 + ["unknown_topic_or_partition"]
        assert [name for name in folders(rig, "t") if not name.endswith("-delete")] == ["t-0", "t-1"]
        assert len([name for name in folders(rig, "t") if name.endswith("-delete")]) == 3


@pytest.mark.long
@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_a_topic_made_anew_survives_a_power_failure_as_the_old_or_the_new_one(unsynced: Unsynced) -> None:
    outcomes = set()
    async with Rig() as rig:
        await rig.create("t", 2, flush_messages="1")
        old = rig.node.cluster.cache.topic("t").id
        assert [await append(rig.connect(), "t", index) for index in (0, 1)] == ["none"] * 2
        copies = copied_before_each_change(rig.fs)
        _, creating = send_anew(rig, 2)
        await settle()
        assert answer(creating.replies()[0], "create_topics", 7).topics[0].error_code.name == "none"
        new = rig.node.cluster.cache.topic("t").id
    for fs in copies:
        fs.crash(unsynced)
        async with Rig(fs=fs, clock=rig.clock, seed=2) as after:
            await settle()
            found = after.node.cluster.cache.topic("t").id
            assert found in (old, new)
            assert sorted(folder_names(fs)) == ["t-0", "t-1"]
            for partition in after.node.replicas:
                assert partition.topic_id == partition.log.topic_id == found
                assert partition.log_end_offset == (1 if found == old else 0)
            outcomes.add(found == old)
    assert outcomes == {True, False}


async def test_a_group_topic_made_anew_in_the_same_write_is_loaded_anew() -> None:
    """Whoever deletes `__consumer_offsets` deletes the groups; the coordinator must not go on with the old log."""
    async with Rig(config={"offsets.topic.num.partitions": "1"}) as rig:
        client = rig.connect()
        await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        await rig.create("t")
        run = Run(set())
        await run.commit_offset(client, 5)
        assert await committed_offset(client) == 5
        deleting, asking = rig.connect(), rig.connect()
        named = (DeleteTopicState(name="__consumer_offsets", topic_id=None),)
        deleting.send("delete_topics", 6, topics=named, timeout=SECOND)
        asking.send("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        creating = rig.connect()
        creating.send("create_topics", 7, **creation("__consumer_offsets", 1))
        await rig.clock.run(100)
        assert answer(creating.replies()[0], "create_topics", 7).topics[0].error_code.name == "none"
        assert await committed_offset(client) == -1
        await run.commit_offset(client, 7)
        assert await committed_offset(client) == 7
        assert rig.node.replicas.get("__consumer_offsets", 0).log_end_offset == 1


# -- internal topics


async def test_groups_are_served_once_the_log_of_their_topic_can_be_made() -> None:
    async with Rig(config={"offsets.topic.num.partitions": "1"}) as rig:
        await rig.create("t")
        refuse(rig, "mkdir", "__consumer_offsets-0")
        client = rig.connect()
        client.send("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))
        await rig.clock.run(RETRY_MS)
        (found,) = answer(client.replies()[0], "find_coordinator", 4).coordinators
        assert found.error_code.name == "coordinator_not_available"
        assert await commit(client, "readers", "t", {0: 5}) == ["not_coordinator"]
        rig.fs.hook = None
        await rig.clock.run(RETRY_MS)
        (found,) = (await client.ask("find_coordinator", 4, key_type=0, coordinator_keys=("readers",))).coordinators
        assert (found.error_code.name, found.node_id) == ("none", 1)
        assert await commit(client, "readers", "t", {0: 5}) == ["none"]
        assert await committed_offset(client) == 5


# -- a folder fails


@pytest.mark.parametrize("operation", ["mkdir", "open", "fsync_dir", "fdatasync"])
async def test_a_topic_created_while_a_folder_fails_is_made_in_the_others(operation: str) -> None:
    """Neither the records that lie in the other folder nor the new topic's wait for the failed device."""
    async with Rig(config={"log.dirs": "/one,/two"}) as rig:
        await rig.create("before", 2)

        def gone(called: str, path: str) -> None:
            if called == operation and path.startswith("/two"):
                raise OSError(errno.EIO, "gone", path)

        rig.fs.hook = gone
        client = rig.connect()
        assert await create(client, "t", 4) == "none"
        assert "kafka_storage_error" in [await append(client, "t", index) for index in range(4)]
        await rig.clock.run(RETRY_MS)
        assert [await append(client, "t", index) for index in range(4)] == ["none"] * 4
        assert sorted(rig.node.replicas.logs.failed_folders) == ["/two"]
        assert {one.log.folder.rpartition("/")[0] for one in rig.node.replicas if one.topic == "t"} == {"/one"}

"""The logs of new partitions are made before anyone sees them, and a failure on the way leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kio.schema.create_partitions.v3.request import CreatePartitionsTopic

from tests.doubles.clock import settle
from tests.doubles.files import Unsynced
from tests.unit.broker.asking import SECOND, append, create, creation
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer


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


@pytest.mark.parametrize(("operation", "ending"), [("mkdir", "t-1"), ("open", "t-1/partition.metadata.tmp")])
async def test_a_topic_whose_log_cannot_be_made_is_not_created(operation: str, ending: str) -> None:
    async with Rig() as rig:
        client = rig.connect()
        refuse(rig, operation, ending)
        assert await create(client, "t", 3) == "kafka_storage_error"
        rig.fs.hook = None
        assert rig.node.cache.topic("t") is None
        assert folders(rig, "t") == []
        assert len(rig.node.replicas) == 0
        assert await create(client, "t", 3) == "none"
        assert [await append(client, "t", index) for index in range(3)] == ["none"] * 3


async def test_partitions_whose_logs_cannot_be_made_leave_the_topic_as_it_was() -> None:
    async with Rig() as rig:
        await rig.create("t")
        client = rig.connect()
        refuse(rig, "mkdir", "t-2")
        assert await grow(client, "t", 3) == "kafka_storage_error"
        rig.fs.hook = None
        assert folders(rig, "t") == ["t-0"]
        assert await append(client, "t", 1) == "unknown_topic_or_partition"
        assert await grow(client, "t", 2) == "none"
        assert await append(client, "t", 1) == "none"


@pytest.mark.parametrize("unsynced", list(Unsynced))
async def test_logs_made_for_a_topic_that_a_crash_kept_from_being_are_removed_at_the_start(unsynced: Unsynced) -> None:
    rig = Rig()
    await rig.start()
    await rig.create("kept")

    failed = False

    def lose_power(operation: str, path: str) -> None:
        nonlocal failed
        failed = failed or (operation == "fdatasync" and path.endswith("metadata.log"))
        if failed:
            raise OSError(5, "the machine fails here")

    rig.fs.hook = lose_power
    assert await create(rig.connect(), "t", 2) == "kafka_storage_error"
    rig.fs.hook = None
    after = await rig.crash(unsynced)
    assert sorted(one.key for one in after.node.replicas) in ([("kept", 0)], [("kept", 0), ("t", 0), ("t", 1)])
    assert folders(after, "t") == [f"t-{one.index}" for one in after.node.replicas if one.topic == "t"]
    await after.stop()


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


async def test_a_folder_that_cannot_be_removed_keeps_no_other_of_the_creation() -> None:
    async with Rig() as rig:
        rig.fs.open("/data/bad-0", create=True).close()  # no folder, and in the way of one
        topics = tuple(creation(name, 1)["topics"][0] for name in ("one", "bad", "other"))
        answered = await rig.connect().ask("create_topics", 7, **creation("", 1) | {"topics": topics})
        assert "none" not in [topic.error_code.name for topic in answered.topics]
        assert [name for name in rig.fs.listdir("/data") if name.endswith("-0")] == ["bad-0"]

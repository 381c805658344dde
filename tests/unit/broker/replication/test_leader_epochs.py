"""Each start of a node raises the leader epochs by two, as KRaft does: readers find out what a crash took away."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from kio.schema.offset_for_leader_epoch.v4.request import OffsetForLeaderPartition, OffsetForLeaderTopic

from broker.node import RETRY_MS
from protocol.records.batch import read_header
from tests.doubles.clock import settle
from tests.doubles.files import Fault, Unsynced
from tests.unit.broker.asking import create
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import batch, fetch, produce

STARTS = 3


async def append(client: Client) -> str:
    done = await client.ask("produce", 9, **produce("t", {0: batch(b"a")}))
    return str(done.responses[0].partition_responses[0].error_code.name)


async def end_of_epoch(client: Client, epoch: int, current: int = -1) -> tuple[str, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    topics = (OffsetForLeaderTopic(topic="t", partitions=(wanted,)),)
    done = await client.ask("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
    (one,) = done.topics[0].partitions
    return one.error_code.name, one.leader_epoch, one.end_offset


async def epochs_of_batches(client: Client) -> list[int]:
    done = await client.ask("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=0))
    data, found, at = bytes(done.responses[0].partitions[0].records or b""), [], 0
    while at < len(data):
        header = read_header(data, at)
        found.append(header.leader_epoch)
        at += header.size
    return found


def leader_epoch(rig: Rig) -> int:
    topic = rig.node.cluster.cache.topic("t")
    assert topic is not None
    return topic.partitions[0].leader_epoch


async def restarted(rig: Rig, clean: bool) -> Rig:
    if not clean:
        return await rig.crash(Unsynced.LOST)
    await rig.stop()
    following = Rig(fs=rig.fs, clock=rig.clock, seed=rig.seed + 1, config=rig.config)
    await following.start()
    return following


@pytest.mark.parametrize("clean", [True, False])
async def test_every_start_is_two_leader_epochs_later(clean: bool) -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t", flush_messages="1")
    for start in range(STARTS):
        client = rig.connect()
        assert leader_epoch(rig) == 2 * start
        assert await append(client) == "none"
        await settle()
        assert await epochs_of_batches(client) == [0, 2, 4][: start + 1]
        assert await end_of_epoch(client, 0) == ("none", 0, 1)
        assert await end_of_epoch(client, 2 * start) == ("none", 2 * start, start + 1)
        assert (await end_of_epoch(client, 0, 2 * start + 1))[0] == "unknown_leader_epoch"
        if start:
            assert (await end_of_epoch(client, 0, 2 * start - 1))[0] == "fenced_leader_epoch"
        rig = await restarted(rig, clean)
    await rig.stop()


async def test_a_leader_epoch_whose_records_a_crash_took_ends_where_the_log_does() -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t")
    await append(rig.connect())
    rig = await restarted(rig, clean=True)
    for _ in range(3):
        await append(rig.connect())
    assert await end_of_epoch(rig.connect(), 2) == ("none", 2, 4)
    rig = await restarted(rig, clean=False)
    assert await append(rig.connect()) == "none"
    assert await end_of_epoch(rig.connect(), 2) == ("none", 0, 1)  # no record of epoch 2 is left
    assert await end_of_epoch(rig.connect(), 4) == ("none", 4, 2)
    await rig.stop()


async def test_a_full_disk_keeps_no_node_from_its_start() -> None:
    rig = Rig()
    await rig.start()
    await rig.create("t")
    await append(rig.connect())
    await rig.stop()

    def full(operation: str, path: str) -> None:
        if operation == "pwrite" and "metadata" in path:
            raise OSError(28, "no space left")

    rig.fs.hook = full
    following: Any = Rig(fs=rig.fs, clock=rig.clock, seed=2)
    await following.start()
    client = following.connect()
    assert leader_epoch(following) == 1  # that of the stop; the next one will not come twice
    assert await append(client) == "none"
    assert await create(client, "u", 1) == "kafka_storage_error"
    following.fs.hook = None
    await following.clock.run(RETRY_MS)
    assert leader_epoch(following) == 2
    assert await append(client) == "none"
    assert await epochs_of_batches(client) == [0, 1, 2]
    assert await create(client, "u", 1) == "none"
    await following.stop()


async def test_no_leader_epoch_comes_twice_though_a_start_found_no_room_to_write_it_down() -> None:
    """Else a consumer could not find out that records of the first are gone."""
    rig = Rig()
    await rig.start()
    await rig.create("t")
    await append(rig.connect())
    await rig.stop()
    rig.fs.inject(Fault("pwrite", 1, 28, path_part="quorum-state"))
    poor = Rig(fs=rig.fs, clock=rig.clock, seed=2)
    await poor.start()
    assert [await append(poor.connect()) for _ in range(2)] == ["none"] * 2
    following = await poor.crash()
    client = following.connect()
    assert leader_epoch(following) == 2
    assert await append(client) == "none"
    assert await epochs_of_batches(client) == [0, 2]
    assert await end_of_epoch(client, 1) == ("none", 0, 1)
    await following.stop()


@pytest.mark.parametrize("version, names_leader", [(12, False), (16, True), (18, True)])
async def test_a_consumer_of_an_older_leader_epoch_gets_to_know_the_leader(version: int, names_leader: bool) -> None:
    """KIP-951; as a Kafka 4.1 that was started once more answered."""
    rig = Rig()
    await rig.start()
    await rig.create("t")
    rig = await restarted(rig, clean=True)
    topic = rig.node.cluster.cache.topic("t")
    assert topic is not None
    module = importlib.import_module(f"kio.schema.fetch.v{version}.request")
    asked = module.FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=100)
    place = {"topic": "t"} if version < 13 else {"topic_id": topic.id}
    fields = fetch([], max_wait_ms=0) | {"topics": (module.FetchTopic(partitions=(asked,), **place),)}
    done = await rig.connect().ask("fetch", version, **fields)
    (one,) = done.responses[0].partitions
    assert one.error_code.name == "fenced_leader_epoch"
    assert (one.current_leader.leader_id, one.current_leader.leader_epoch) == ((1, 2) if names_leader else (-1, -1))
    if version >= 16:
        (endpoint,) = done.node_endpoints
        assert (endpoint.node_id, endpoint.host, endpoint.port) == (1, "broker.example", 9092)
    await rig.stop()

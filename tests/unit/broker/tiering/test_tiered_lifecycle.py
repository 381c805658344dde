"""What becomes of remote segments: total retention, DeleteRecords, switching off, deletion of the topic, failures."""

from __future__ import annotations

from errno import ENOSPC
from typing import Any

import pytest

from broker.testkit.explain import explain_topic
from broker.tiering.inspection import tier_status, tier_verify
from protocol.errors import KafkaError
from protocol.remote_storage.segment import RemoteSegment, State
from protocol.remote_storage.store import RemoteStoreError, SegmentData
from storage.folders.log_dirs import LogDirError
from tests.doubles.clock import settle
from tests.doubles.files import Fault
from tests.unit.broker.rig import Rig
from tests.unit.broker.tiering.tiered_rig import (
    CONFIG,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST_TIERED,
    TOPIC_CONFIG,
    FetchFailedError,
    append,
    create_tiered,
    delete_records,
    offset_of,
    read_all,
    read_once,
    records_in,
    stored,
    stray_objects,
    tier_of,
    tiered_rig,
)
from tests.unit.broker.wire import NOW, answer, fetch

VALUES = [b"%03d" % number * 10 for number in range(40)]


def log_of(rig: Rig, topic: str = "t") -> Any:
    return rig.node.replicas.find(topic, 0).log


async def filled(rig: Rig, **configs: str) -> None:
    await create_tiered(rig, **configs)
    await append(rig.connect(), "t", *VALUES)
    await rig.clock.run(5000)


async def test_retention_bytes_counts_what_is_remote_and_what_is_local() -> None:
    async with tiered_rig() as rig:
        await filled(rig, retention_bytes="1000")
        log = log_of(rig)
        kept = sum(one.size for one in log.tier.segments) + sum(one.size for one in log.segments)
        assert 1000 <= kept < 1300
        assert 0 < log.log_start_offset < log.local_log_start_offset
        found = await read_all(rig, rig.connect(), "t", log.log_start_offset)
        assert [value for _, value in found] == VALUES[log.log_start_offset :]
        assert stray_objects(rig) == []
        with pytest.raises(FetchFailedError, match="offset_out_of_range"):
            await read_all(rig, rig.connect(), "t", 0)


async def test_retention_ms_removes_all_but_the_active_segment() -> None:
    async with tiered_rig() as rig:
        await filled(rig, retention_ms="-1")
        await rig.configure("t", **{**TOPIC_CONFIG, "retention.ms": "100000"})
        assert len(stored(rig)) > 0
        await rig.clock.run(200_000)
        assert stored(rig) == []
        assert log_of(rig).log_start_offset == len(VALUES)
        assert len(log_of(rig).segments) == 1


async def test_deleted_records_go_from_remote_storage() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        before = len(stored(rig))
        assert await delete_records(rig.connect(), "t", 20) == "none"
        await rig.clock.run(2000)
        assert 0 < len(stored(rig)) < before
        assert [value for _, value in await read_all(rig, rig.connect(), "t", 20)] == VALUES[20:]


async def test_a_deleted_topic_leaves_nothing_in_remote_storage() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        await rig.delete("t")
        await rig.clock.run(2000)
        assert stored(rig) == []
        await create_tiered(rig)
        await append(rig.connect(), "t", b"new")
        assert await read_all(rig, rig.connect(), "t") == [(0, b"new")]


async def test_a_topic_that_a_kill_left_half_deleted_is_removed_at_the_next_start() -> None:
    rig = tiered_rig()
    await rig.start()
    await filled(rig)
    tier_of(rig).store.delete = _fail
    await rig.delete("t")
    await rig.clock.run(2000)
    assert stored(rig)
    following = await rig.crash()
    try:
        await following.clock.run(2000)
        assert stored(following) == []
    finally:
        await following.stop()


def _fail(segment: RemoteSegment) -> None:
    raise RemoteStoreError("the store says no")


async def test_tiering_that_is_switched_off_with_deletion_leaves_the_local_records() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        local = log_of(rig).local_log_start_offset
        configs = {**TOPIC_CONFIG, "remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        del configs["local.retention.bytes"]
        await rig.configure("t", **configs)
        await rig.clock.run(2000)
        assert stored(rig) == []
        assert log_of(rig).log_start_offset == local
        assert [value for _, value in await read_all(rig, rig.connect(), "t", local)] == VALUES[local:]
        assert (await offset_of(rig.connect(), "t", LATEST_TIERED))[2] == -1


async def test_a_topic_without_further_copies_is_read_only_and_expires_as_a_whole() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        before = stored(rig)
        configs = {**TOPIC_CONFIG, "remote.log.copy.disable": "true", "local.retention.bytes": "-2"}
        await rig.configure("t", **configs)
        await append(rig.connect(), "t", *VALUES)
        await rig.clock.run(3000)
        assert stored(rig) == before
        assert [value for _, value in await read_all(rig, rig.connect(), "t")] == VALUES * 2


async def test_list_offsets_of_a_tiered_topic() -> None:
    async with tiered_rig() as rig:
        await create_tiered(rig)
        client = rig.connect()
        assert await offset_of(client, "t", LATEST_TIERED) == ("none", -1, -1, -1)
        assert (await offset_of(client, "t", EARLIEST_PENDING_UPLOAD))[2] == -1  # there is nothing to be copied
        await append(client, "t", VALUES[0])
        assert (await offset_of(client, "t", EARLIEST_PENDING_UPLOAD))[2] == 0
        await append(client, "t", *VALUES[1:])
        await rig.clock.run(5000)
        log = log_of(rig)
        epoch = log.leader_epochs.latest
        assert await offset_of(client, "t", -2) == ("none", -1, 0, epoch)
        assert await offset_of(client, "t", EARLIEST_LOCAL) == ("none", -1, log.local_log_start_offset, epoch)
        assert await offset_of(client, "t", LATEST_TIERED) == ("none", -1, log.tier.highest_offset, epoch)
        assert await offset_of(client, "t", EARLIEST_PENDING_UPLOAD) == ("none", -1, log.tier.highest_offset + 1, epoch)
        assert (await offset_of(client, "t", NOW))[2] == 0
        assert await delete_records(client, "t", -1) == "none"
        assert (await offset_of(client, "t", LATEST_TIERED))[2:] == (38, -1)
        assert (await offset_of(client, "t", EARLIEST_PENDING_UPLOAD))[2] == -1


async def test_a_copy_waits_for_remote_copy_lag_ms() -> None:
    async with tiered_rig() as rig:
        await create_tiered(
            rig,
            remote_copy_lag_ms="60000",
            remote_copy_lag_bytes="-1",
            local_retention_bytes="-2",
            retention_bytes="-1",
        )
        await append(rig.connect(), "t", *VALUES)
        await rig.clock.run(5000)
        assert stored(rig) == []
        await rig.clock.run(60_000)
        assert stored(rig)


class SlowStore:
    """A store that answers no read before `open` is called."""

    def __init__(self, rig: Rig) -> None:
        self.store = tier_of(rig).store
        self.reads = 0
        self.fails = False
        self.store_read = self.store.read
        self.store.read = self.read

    def read(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        self.reads += 1
        if self.fails:
            raise RemoteStoreError("the store does not answer")
        return self.store_read(segment, position, size)


async def test_a_store_that_fails_costs_only_the_partitions_that_are_read_from_it() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        await rig.create("local")
        await append(rig.connect(), "local", b"here")
        store = SlowStore(rig)
        store.fails = True
        client = rig.connect()
        client.send("fetch", 12, **fetch([("t", 0, 0), ("local", 0, 0)], max_wait_ms=500))
        await settle()
        (reply,) = client.replies()  # without any time passing
        found = {topic.topic: topic.partitions[0] for topic in answer(reply, "fetch", 12).responses}
        assert found["local"].error_code.name == "none"
        assert found["local"].records
        assert not found["t"].records
        told = await read_once(rig, client, "t", 0)
        assert told.error_code.name == "unknown_server_error"
        store.fails = False
        assert [value for _, value in await read_all(rig, client, "t")] == VALUES


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\x00"])
async def test_a_damaged_chunk_is_an_error_and_no_records_until_the_store_gives_another_one(length: bytes) -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        store, client = SlowStore(rig), rig.connect()
        read = store.store_read
        store.store_read = lambda *asked: (content := read(*asked))[:8] + length + content[12:]
        told = await read_once(rig, client, "t", 0)
        assert told.error_code.name == "corrupt_message"
        assert not told.records
        store.store_read = read
        assert [value for _, value in await read_all(rig, client, "t")] == VALUES


async def test_a_copy_that_fails_in_the_middle_is_removed_and_made_again() -> None:
    async with tiered_rig() as rig:
        await create_tiered(rig)
        await append(rig.connect(), "t", *VALUES)
        tier = tier_of(rig)
        copy = tier.store.copy
        failed: list[RemoteSegment] = []

        def flaky(segment: RemoteSegment, data: SegmentData) -> bytes | None:
            copy(segment, data)
            if len(failed) < 3:
                failed.append(segment)
                raise RemoteStoreError("the answer was lost")
            return None

        tier.store.copy = flaky
        await rig.clock.run(10_000)
        assert len(failed) == 3
        assert stray_objects(rig) == []
        assert not {one.segment_id for one in stored(rig)} & {one.id for one in failed}
        assert all(one.state is State.COPY_FINISHED for one in log_of(rig).tier.segments)


async def test_a_start_without_its_store_says_why() -> None:
    rig = tiered_rig()
    rig.fs.open("/store", create=True).close()
    with pytest.raises(LogDirError, match=r"remote storage cannot be used: /store cannot be used as remote storage"):
        await rig.start()


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "0", 1),
        ("rlmm.config.remote.log.metadata.topic.min.isr", "two", 1),
        ("rsm.config.chunk.size", "0", 1),
        ("rsm.config.fetch.chunk.cache.size", "-1", 0),
    ],
)
async def test_a_start_with_a_wrong_number_says_which(name: str, value: str, least: int) -> None:
    setting = name.split(".config.")[1]
    with pytest.raises(LogDirError, match=f"{setting} = '{value}': expected a whole number from {least} on"):
        await Rig(config={**CONFIG, name: value}).start()


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"cleanup.policy": "compact"}, "Compacted topics cannot be tiered"),
        ({"retention.bytes": "5", "local.retention.bytes": "6"}, "local.retention.bytes = 6: expected at most"),
        ({"retention.ms": "5", "local.retention.ms": "-1"}, "local.retention.ms = -1: expected at most"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "5"}, "remote.log.copy.disable = true: expected"),
        ({"local.retention.ms": "5", "remote.copy.lag.ms": "6"}, "remote.copy.lag.ms = 6: expected at most"),
    ],
)
async def test_a_tiered_topic_cannot_have(configs: dict[str, str], message: str) -> None:
    async with tiered_rig() as rig:
        around = rig.node.controller.around
        with pytest.raises(KafkaError, match=message):
            around.schema.check(2, "t", {"remote.storage.enable": "true", **configs})


async def test_a_topic_whose_remote_storage_enable_is_written_otherwise_is_tiered_all_the_same() -> None:
    async with tiered_rig() as rig:
        await filled(rig, remote_storage_enable=" TRUE ")
        await rig.clock.run(5000)
        assert len(stored(rig)) > 0
        assert [value for _, value in await read_all(rig, rig.connect(), "t")] == VALUES
        with pytest.raises(KafkaError, match="what is in remote storage would be lost"):
            rig.node.controller.around.schema.check(
                2, "t", {"remote.storage.enable": "false"}, {"remote.storage.enable": "TRUE"}
            )


async def test_tiering_is_not_switched_off_without_saying_what_becomes_of_the_records() -> None:
    async with tiered_rig() as rig:
        around = rig.node.controller.around
        with pytest.raises(KafkaError, match=r"remote.storage.enable = false: what is in remote storage would be lost"):
            around.schema.check(2, "t", {"remote.storage.enable": "false"}, {"remote.storage.enable": "true"})


async def test_tier_status_says_how_far_each_partition_is() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        (found,) = tier_status(tier_of(rig), "")
        log = log_of(rig)
        assert found.text.startswith(f"t-0: offsets 0 to {log.tier.highest_offset} in remote storage")
        assert (
            f"here from offset {log.local_log_start_offset}; 0 closed segments (0 bytes) are to be copied" in found.text
        )
        store = SlowStore(rig)
        store.fails = True
        assert (await read_once(rig, rig.connect(), "t", 0)).error_code.name == "unknown_server_error"
        await rig.clock.run(30_000)
        found, _ = tier_status(tier_of(rig), "t")
        assert (found.severity, found.rule) == ("problem", "tier_not_read")
        assert found.text == "remote storage cannot be read since 30 s: the store does not answer"


async def test_tier_verify_finds_lost_and_stray_objects() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        (found,) = await tier_verify(tier_of(rig), "")
        assert found.rule == "tier_verified"
        (first, *_) = stored(rig)
        rig.fs.rename(f"/store/kafka-tiered-storage/{first.name}", "/store/kafka-tiered-storage/else.where")
        lost, stray, _ = await tier_verify(tier_of(rig), "")
        assert (lost.severity, lost.rule) == ("problem", "tier_object_lost")
        assert first.name in lost.text
        assert (stray.severity, stray.rule) == ("warning", "tier_stray_object")
        assert "else.where" in stray.text


async def test_explain_topic_says_that_the_store_is_not_read() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        SlowStore(rig).fails = True
        await read_once(rig, rig.connect(), "t", 0)
        found = await explain_topic(rig.node, "t")
        assert found[0].rule == "tier_not_read"


async def test_many_consumers_read_one_partition_from_remote_storage_at_once() -> None:
    async with tiered_rig() as rig:
        await filled(rig)
        clients = [rig.connect() for _ in range(30)]
        for offset, client in enumerate(clients):
            client.send("fetch", 12, **fetch([("t", 0, offset)]))
        await rig.clock.run(1000)
        for offset, client in enumerate(clients):
            (reply,) = client.replies()
            (topic,) = answer(reply, "fetch", 12).responses
            assert records_in(bytes(topic.partitions[0].records), offset)[0] == (offset, VALUES[offset])


async def test_a_partition_whose_log_was_made_late_is_tiered() -> None:
    async with tiered_rig() as rig:
        rig.fs.inject(Fault("mkdir", 1, error=ENOSPC, path_part="/data/t-0"))
        await create_tiered(rig)
        assert ("t", 0) not in tier_of(rig).partitions
        await rig.clock.run(5000)
        await append(rig.connect(), "t", *VALUES)
        await rig.clock.run(5000)
        assert stored(rig)
        assert [value for _, value in await read_all(rig, rig.connect(), "t")] == VALUES

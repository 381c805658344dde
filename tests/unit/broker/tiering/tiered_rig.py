"""A node in memory with tiered storage in a folder, and the questions that tests of it ask."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsTopic
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsTopic

from broker.tiering.tier_manager import TierManager
from protocol.records.batch import read_header
from protocol.records.build import iter_records
from protocol.remote_storage.segment import State
from protocol.remote_storage.store import StoredObject
from tests.doubles.clock import settle
from tests.doubles.files import MemoryFileSystem
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.wire import answer, batch, fetch, produce

CONFIG = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "folder",
    "rsm.config.dir": "/store",
    "rsm.config.chunk.size": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "remote.log.manager.task.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "300",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "500",
    "message.timestamp.after.max.ms": str(2**62),
}
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


def tiered_rig(fs: MemoryFileSystem | None = None, **config: str) -> Rig:
    return Rig(fs=fs, config={**CONFIG, **{name.replace("_", "."): value for name, value in config.items()}})


async def create_tiered(rig: Rig, topic: str = "t", **configs: str) -> None:
    """A topic that is copied to remote storage segment by segment, each of three batches or so."""
    wanted = {**TOPIC_CONFIG, **{name.replace("_", "."): value for name, value in configs.items()}}
    await rig.create(topic, 1, **wanted)


def tier_of(rig: Rig) -> TierManager:
    assert rig.node.tier is not None
    return rig.node.tier


async def append(client: Client, topic: str, *values: bytes, partition: int = 0) -> None:
    """One batch for each value."""
    for value in values:
        told = await client.ask("produce", 9, **produce(topic, {partition: batch(value)}))
        (result,) = told.responses[0].partition_responses
        assert result.error_code.name == "none"


async def read_once(rig: Rig, client: Client, topic: str, offset: int, **fields: Any) -> Any:
    """The partition's answer to one Fetch 12."""
    client.send("fetch", 12, **fetch([(topic, 0, offset)], **fields))
    for _ in range(200):
        await settle()
        replies = client.replies()
        if replies:
            (topics,) = answer(replies[0], "fetch", 12).responses
            return topics.partitions[0]
        await rig.clock.run(10)
    raise AssertionError("no answer")


async def read_all(
    rig: Rig, client: Client, topic: str, offset: int = 0, **fields: Any
) -> list[tuple[int, bytes | None]]:
    """The records (offset, value) from an offset on to the high watermark, control batches left out."""
    found: list[tuple[int, bytes | None]] = []
    idle = 0
    while True:
        told = await read_once(rig, client, topic, offset, **fields)
        if told.error_code.name != "none":
            raise FetchFailedError(told.error_code.name)
        committed = fields.get("isolation_level") == 1
        end = told.last_stable_offset if committed else told.high_watermark
        data = bytes(told.records or b"")
        before = offset
        found += records_in(data, offset, told.aborted_transactions or () if committed else ())
        for header in headers_in(data):
            offset = max(offset, header.next_offset)
        if offset >= end:
            return found
        assert offset > before or not data, "no progress"
        idle = idle + 1 if offset == before else 0
        assert idle < 100, f"nothing comes at {offset}"


class FetchFailedError(Exception):
    """A partition was answered with this error."""


def headers_in(data: bytes) -> list[Any]:
    """The headers of the whole batches."""
    headers, at = [], 0
    while at + 61 <= len(data):
        header = read_header(data, at)
        if at + header.size > len(data):
            break
        headers.append(header)
        at += header.size
    return headers


def records_in(data: bytes, start: int, aborted: Iterable[Any] = ()) -> list[tuple[int, bytes | None]]:
    """The records from `start` on, without those of aborted transactions, which clients leave out."""
    found, at = [], 0
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    out: set[int] = set()
    for header in headers_in(data):
        while waiting and waiting[0].first_offset <= header.last_offset:
            out.add(waiting.pop(0).producer_id)
        if header.is_control:
            (marker,) = iter_records(data, header, at)
            if (marker.key or b"")[3] == 0:  # an abort marker
                out.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in out):
            found += [(one.offset, one.value) for one in iter_records(data, header, at) if one.offset >= start]
        at += header.size
    return found


async def offset_of(client: Client, topic: str, timestamp: int) -> tuple[str, int, int, int]:
    """(error, timestamp, offset, leader epoch) of a ListOffsets 11."""
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    told = await client.ask(
        "list_offsets",
        11,
        replica_id=-1,
        isolation_level=0,
        topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),),
        timeout=timedelta(seconds=30),
    )
    (one,) = told.topics[0].partitions
    return one.error_code.name, one.timestamp, one.offset, one.leader_epoch


def records_before(topic: str, offset: int) -> dict[str, Any]:
    """What DeleteRecords 2 is asked for."""
    wanted = DeleteRecordsTopic(name=topic, partitions=(DeleteRecordsPartition(partition_index=0, offset=offset),))
    return {"topics": (wanted,), "timeout": timedelta(seconds=30)}


async def delete_records(client: Client, topic: str, offset: int) -> str:
    told = await client.ask("delete_records", 2, **records_before(topic, offset))
    return str(told.topics[0].partitions[0].error_code.name)


def stored(rig: Rig) -> list[StoredObject]:
    return list(tier_of(rig).store.objects())


def stray_objects(rig: Rig) -> list[str]:
    """The objects in the store that no finished copy refers to."""
    tier = tier_of(rig)
    known = {
        one.id for segments in tier.metadata.segments.values() for one in segments if one.state is State.COPY_FINISHED
    }
    return [one.name for one in stored(rig) if one.segment_id not in known]

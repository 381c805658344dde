"""A fetcher and what it makes of its leader's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.membership.metadata_cache import MetadataCache
from broker.peers.call import Call, PeerDisconnectedError
from broker.replication.cluster_access import ClusterAccess, ReplicationQuota, ReplicationSettings
from broker.replication.following.fetcher import Fetcher
from broker.replication.following.followed import FetcherContext
from broker.replication.following.leaders_offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from broker.replication.partition import Partition
from metadata.configs import ConfigsImage, ResourceType
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol.produce_fetch.fetch_request import FetchPartition, FetchRequest, decode_request
from protocol.produce_fetch.fetch_response import EpochEndOffset, FetchPartitionResponse, FetchResponse
from protocol.records.batch import read_header, set_offsets_and_epoch
from protocol.records.build import Record, build_batch
from storage.append_types import LogConfig
from storage.log.unified_log import UnifiedLog
from tests.doubles.clock import settle
from tests.unit.broker.partitions import alone, state
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, append, headers_in, read

T = TypeVar("T")

SETTINGS = ReplicationSettings(fetch_backoff_ms=1_000, fetch_wait_max_ms=500, fetch_max_bytes=77)
LEADER = 2
OTHER_ID = UUID(int=77)


def batch(base_offset: int, epoch: int, count: int = 1) -> bytes:
    """A batch as the leader stores it."""
    data = build_batch([Record(n, NOW, None, b"v") for n in range(count)])
    set_offsets_and_epoch(data, read_header(data), base_offset, epoch)
    return bytes(data)


class Leader:
    """The leader, as its peer: each request waits in `asked` until the test answers it."""

    def __init__(self) -> None:
        self.asked: list[tuple[FetchRequest, asyncio.Future[FetchResponse]]] = []
        self.offsets: dict[int, int] = {}
        self.asked_offsets: list[Any] = []
        self.connections = 0
        self.closed = 0
        self.is_reachable = True
        self.tells = asyncio.Event()
        self.tells.set()

    def connect(self, node_id: int) -> Leader | None:
        assert node_id == LEADER
        self.connections += self.is_reachable
        return self if self.is_reachable else None

    def close(self) -> None:
        self.closed += 1

    async def send(self, call: Call[T], timeout_ms: float | None = None) -> T:
        assert timeout_ms == SETTINGS.socket_timeout_ms
        if call.api_key != 1:
            await self.tells.wait()
            return self._list_offsets(call)
        out = bytearray()
        call.encode(out, 17)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.asked.append((decode_request(17, bytes(out), 0), answer))
        return await answer  # type: ignore[no-any-return]

    def _list_offsets(self, call: Call[T]) -> T:
        from kio.schema.list_offsets.v9 import ListOffsetsRequest

        from protocol.reader import entity_reader

        out = bytearray()
        call.encode(out, 9)
        request, _ = entity_reader(ListOffsetsRequest, ListOffsetsRequest)(bytes(out), 0)
        (asked,) = request.topics[0].partitions
        self.asked_offsets.append((request.replica_id, asked.current_leader_epoch, asked.timestamp))
        answer = SimpleNamespace(error_code=ErrorCode.none, offset=self.offsets[asked.timestamp], leader_epoch=0)
        return SimpleNamespace(topics=(SimpleNamespace(partitions=(answer,)),))  # type: ignore[return-value]


class Guard:
    def __init__(self) -> None:
        self.moves_to: str | None = None
        self.cleans = False
        self.moved_again: list[str] = []

    async def stop_moving(self, _log: UnifiedLog) -> str | None:
        return self.moves_to

    def move_again(self, _log: UnifiedLog, folder: str) -> None:
        self.moved_again.append(folder)

    def is_cleaning(self, _log: UnifiedLog) -> bool:
        return self.cleans


class Following:
    """A follower of node 2 in leader epoch 5."""

    def __init__(self, prepare: Callable[[UnifiedLog], None] = lambda _: None, **config: Any) -> None:
        self.rig = Rig(config=LogConfig(**config))
        self.log = self.rig.log()
        prepare(self.log)
        self.partition = Partition("t", TOPIC_ID, 0, self.log, lambda _: None, alone(self.rig.clock))
        self.partition.follow(state(5, leader=LEADER, replicas=(1, 2)))
        self.leader, self.guard = Leader(), Guard()
        self.cache = MetadataCache()
        self.quota = ReplicationQuota("follower", 1, self.cache, self.rig.clock.monotonic_ms, SETTINGS.quota_windows)
        access = ClusterAccess(lambda: 33, _no_controller, self.leader.connect, lambda: SETTINGS)
        self.fetcher = Fetcher(FetcherContext(1, self.rig.clock, access, self.guard, self.quota), LEADER, 0)
        self.fetcher.add(self.partition)

    async def request(self) -> FetchRequest:
        """The request that is out."""
        await settle()
        return self.leader.asked[-1][0]

    async def asked(self) -> FetchPartition:
        """What the request that is out asks of the partition."""
        ((topic_id, (one,)),) = (await self.request()).topics
        assert topic_id == TOPIC_ID
        return one

    async def answer(self, *, session_id: int = 9, error: int = 0, **fields: Any) -> None:
        await settle()
        results = [(TOPIC_ID, [FetchPartitionResponse(0, **fields)])] if fields else []
        self.leader.asked[-1][1].set_result(FetchResponse(results, error, session_id))  # type: ignore[arg-type]
        await self.rig.clock.run(0)

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return [tuple(entry) for entry in self.log.leader_epochs.entries]  # type: ignore[misc]


async def _no_controller(_request: Any) -> Any:
    raise AssertionError("followers ask no controller")


def three_of_epoch_0(log: UnifiedLog) -> None:
    for _ in range(3):
        append(log)


async def test_records_and_offsets_of_the_leader_are_taken_over() -> None:
    following = Following(lambda log: log.leader_epochs.clear())
    request, asked = await following.request(), await following.asked()
    assert (request.replica_id, request.replica_epoch, request.session_epoch) == (1, 33, 0)
    assert (request.max_wait_ms, request.min_bytes) == (500, 1)
    assert asked == FetchPartition(0, 0, 77, 0, 5, -1)
    records = batch(0, 3, 2) + batch(2, 5) + batch(3, 5)[:-1]
    await following.answer(records=records, high_watermark=2, log_start_offset=1)
    assert following.partition.bounds == (1, 2, 2, 3)
    assert bytes(read(following.log, 0 + 1)) == batch(0, 3, 2) + batch(2, 5)
    assert following.epochs == [(3, 1), (5, 2)]
    assert await following.asked() == FetchPartition(0, 3, 77, 1, 5, 5)
    assert (await following.request()).session_epoch == 1
    await following.answer(records=b"", high_watermark=9, log_start_offset=1)
    assert following.partition.high_watermark == 3  # as far as its own log reaches
    await following.fetcher.stop()


async def test_kip_227_a_fetch_session_is_told_what_has_changed_alone() -> None:
    following = Following()
    await following.answer(records=b"", high_watermark=0, log_start_offset=0)
    request = await following.request()
    assert (request.session_id, request.session_epoch, request.topics) == (9, 1, [])
    await following.answer()
    following.fetcher.remove(following.partition)
    other = Partition("t", TOPIC_ID, 1, following.rig.log("u"), lambda _: None, alone(following.rig.clock))
    other.follow(state(5, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(other)
    await following.answer()
    request = await following.request()
    assert [index for _, ones in request.topics for index in [one.partition for one in ones]] == [1]
    assert request.forgotten_topics == [(TOPIC_ID, (0,))]
    await following.answer(error=ErrorCode.fetch_session_id_not_found)
    assert ((await following.request()).session_id, (await following.request()).session_epoch) == (0, 0)
    await following.fetcher.stop()


async def test_a_diverging_leader_epoch_truncates_step_by_step() -> None:
    def prepare(log: UnifiedLog) -> None:
        three_of_epoch_0(log)
        for epoch in (2, 2, 4):
            append(log, epoch=epoch)

    following = Following(prepare)
    assert (await following.asked()).last_fetched_epoch == 4
    await following.answer(diverging_epoch=EpochEndOffset(3, 7))  # an epoch that is not known here
    assert following.log.log_end_offset == 5
    assert (await following.request()).session_epoch == 0  # the high watermark was not taken over: ask again
    assert await following.asked() == FetchPartition(0, 5, 77, 0, 5, 2)
    await following.answer(diverging_epoch=EpochEndOffset(2, 4))
    assert (await following.asked()).fetch_offset == 4
    assert following.epochs == [(0, 0), (2, 3)]
    await following.fetcher.stop()


async def test_a_leader_epoch_without_records_is_dropped_when_the_leader_does_not_know_it() -> None:
    following = Following(three_of_epoch_0)
    following.partition.lead(state(6))
    following.partition.follow(state(7, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(following.partition)
    assert (await following.asked()).last_fetched_epoch == 6
    await following.answer(diverging_epoch=EpochEndOffset(0, 5))
    assert await following.asked() == FetchPartition(0, 3, 77, 0, 7, 0)
    await following.fetcher.stop()


async def test_a_leader_that_ends_before_is_followed_there() -> None:
    following = Following(three_of_epoch_0)
    following.leader.offsets = {LATEST: 2}
    await following.answer(error_code=int(ErrorCode.offset_out_of_range))
    assert following.leader.asked_offsets == [(1, 5, LATEST)]
    assert (await following.asked()).fetch_offset == 2
    await following.fetcher.stop()


async def test_a_leader_that_starts_behind_the_end_is_followed_from_there_even_within_a_batch() -> None:
    following = Following(three_of_epoch_0)
    following.leader.offsets = {LATEST: 20, EARLIEST: 11}
    await following.answer(error_code=int(ErrorCode.offset_out_of_range))
    assert following.partition.bounds == (11, 11, 11, 11)
    assert await following.asked() == FetchPartition(0, 11, 77, 11, 5, -1)
    await following.answer(records=batch(10, 5, 3), high_watermark=12, log_start_offset=11)
    assert following.partition.bounds == (11, 12, 12, 13)
    assert bytes(read(following.log, 11)) == batch(10, 5, 3)
    await following.fetcher.stop()


async def test_no_fetch_is_held_back_for_long_while_a_replica_is_begun_behind_remote_storage() -> None:
    """What the leader is asked meanwhile waits behind that fetch, and its files begin elsewhere by then."""
    following = Following(remote_storage=True)
    other = Partition("u", OTHER_ID, 0, following.rig.log("u-0"), lambda _: None, alone(following.rig.clock))
    other.follow(state(5, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(other)
    following.leader.tells.clear()
    following.leader.offsets[EARLIEST_LOCAL] = 7
    assert (await following.request()).max_wait_ms == SETTINGS.fetch_wait_max_ms
    await following.answer(error_code=int(ErrorCode.offset_moved_to_tiered_storage), log_start_offset=7)
    request = await following.request()
    assert request.max_wait_ms == 50
    assert request.forgotten_topics == [(TOPIC_ID, (0,))]
    following.leader.tells.set()
    await following.answer()
    assert (await following.asked()).fetch_offset == 7
    assert (await following.request()).max_wait_ms == SETTINGS.fetch_wait_max_ms
    await following.fetcher.stop()


async def test_an_unexpected_error_while_a_replica_is_begun_leaves_it_alone_for_a_while() -> None:
    following = Following(remote_storage=True)
    await following.answer(error_code=int(ErrorCode.offset_moved_to_tiered_storage), log_start_offset=7)
    before = len(following.leader.asked)
    await following.rig.clock.run(SETTINGS.fetch_backoff_ms - 1)
    assert len(following.leader.asked) == before, "the double knows no such offset: a KeyError"
    await following.rig.clock.run(1)
    assert len(following.leader.asked) == before + 1
    await following.fetcher.stop()


async def test_errors_and_bad_records_leave_the_partition_alone_for_a_while() -> None:
    following = Following()
    damaged = bytearray(batch(0, 5))
    damaged[-1] ^= 1
    for fields in (
        {"error_code": int(ErrorCode.unknown_leader_epoch)},
        {"records": bytes(damaged), "high_watermark": 1},
        {"records": batch(0, 5)[:16] + b"\x01" + batch(0, 5)[17:]},
    ):
        await following.request()
        before = len(following.leader.asked)
        await following.answer(**fields)
        await following.rig.clock.run(SETTINGS.fetch_backoff_ms - 1)
        assert len(following.leader.asked) == before
        assert following.log.log_end_offset == 0
        await following.rig.clock.run(1)
        assert len(following.leader.asked) == before + 1
    await following.fetcher.stop()


async def test_a_pause_that_ends_between_two_looks_at_the_clock_ends() -> None:
    following = Following()
    await following.answer(error_code=int(ErrorCode.unknown_leader_epoch))
    clock, before = following.rig.clock, len(following.leader.asked)
    await clock.run(SETTINGS.fetch_backoff_ms - 1)
    look = clock.monotonic_ms

    def look_slowly() -> float:
        now_ms = look()
        clock.stall(1)
        return now_ms

    with patch.object(clock, "monotonic_ms", look_slowly):
        following.partition.wake_fetcher()
        await settle()
    await clock.run(1)
    assert len(following.leader.asked) == before + 1
    await following.fetcher.stop()


async def test_a_lost_connection_is_made_again_after_a_while() -> None:
    following = Following()
    await following.answer(records=batch(0, 5), high_watermark=0, log_start_offset=0)
    await settle()
    following.leader.asked[-1][1].set_exception(PeerDisconnectedError("lost"))
    await settle()
    following.leader.is_reachable = False
    assert following.leader.closed == 1
    await following.rig.clock.run(2 * SETTINGS.fetch_backoff_ms)
    assert following.leader.connections == 1
    following.leader.is_reachable = True
    await following.rig.clock.run(SETTINGS.fetch_backoff_ms)
    assert following.leader.connections == 2
    assert (await following.request()).session_epoch == 0
    assert (await following.asked()).fetch_offset == 1
    await following.fetcher.stop()


async def test_an_answer_in_an_old_leader_epoch_counts_for_nothing() -> None:
    following = Following()
    await following.request()
    following.partition.follow(state(6, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(following.partition)
    await following.answer(records=batch(0, 5), high_watermark=1, log_start_offset=0)
    assert following.log.log_end_offset == 0
    assert (await following.asked()).current_leader_epoch == 6
    await following.fetcher.stop()


async def test_batches_of_a_later_epoch_are_another_leaders() -> None:
    following = Following()
    await following.answer(records=batch(0, 5) + batch(1, 6), high_watermark=2, log_start_offset=0)
    assert following.partition.bounds == (0, 1, 1, 1)
    await following.fetcher.stop()


async def test_with_a_flush_for_each_message_the_next_fetch_waits_for_the_device() -> None:
    following = Following(flush_messages=1)
    await following.answer(records=batch(0, 5), high_watermark=0, log_start_offset=0)
    assert len(following.leader.asked) == 1
    following.rig.workers.run_all()
    assert (await following.asked()).fetch_offset == 1
    await following.answer(records=batch(1, 5), high_watermark=0, log_start_offset=0)
    following.log.fail(OSError("broken"))  # no flush comes: the others must not wait for it
    other = Partition("t", TOPIC_ID, 1, following.rig.log("u"), lambda _: None, alone(following.rig.clock))
    other.follow(state(5, leader=LEADER, replicas=(1, 2)))
    following.fetcher.add(other)
    assert [one.partition for _, ones in (await following.request()).topics for one in ones] == [1]
    await following.fetcher.stop()


async def test_a_move_ends_before_a_truncation_and_begins_again_after_it() -> None:
    following = Following(three_of_epoch_0)
    following.guard.moves_to = "/other"
    await following.answer(diverging_epoch=EpochEndOffset(0, 1))
    assert following.log.log_end_offset == 1
    assert following.guard.moved_again == ["/other"]
    await following.fetcher.stop()


async def test_a_log_that_is_being_compacted_is_truncated_later() -> None:
    following = Following(three_of_epoch_0)
    following.guard.cleans = True
    await following.answer(diverging_epoch=EpochEndOffset(0, 1))
    assert following.log.log_end_offset == 3
    following.guard.cleans = False
    await following.rig.clock.run(SETTINGS.fetch_backoff_ms)
    await following.answer(diverging_epoch=EpochEndOffset(0, 1))
    assert following.log.log_end_offset == 1
    await following.fetcher.stop()


async def test_a_log_without_leader_epochs_keeps_what_is_committed() -> None:
    def prepare(log: UnifiedLog) -> None:
        three_of_epoch_0(log)
        log.high_watermark = 2
        log.leader_epochs.clear()

    following = Following(prepare)
    assert (await following.asked()).fetch_offset == 2
    assert headers_in(read(following.log, 0))[-1].next_offset == 2
    await following.fetcher.stop()


async def test_follower_replication_throttled_rate_has_a_partition_out_of_sync_wait() -> None:
    following = Following()
    topic = Map({"follower.replication.throttled.replicas": "0:1"})
    broker = Map({"follower.replication.throttled.rate": "100"})
    resources = {(ResourceType.TOPIC, "t"): topic, (ResourceType.BROKER, "1"): broker}
    following.cache.image = MetadataImage(configs=ConfigsImage(Map(resources)))
    following.quota.follow(following.cache.image, ["t"])
    await following.answer(records=batch(0, 5) + batch(1, 5), high_watermark=9, log_start_offset=0)
    assert len(following.leader.asked) == 1
    await following.rig.clock.run(2 * SETTINGS.fetch_backoff_ms)
    assert len(following.leader.asked) == 2
    await following.answer(records=batch(2, 5) + batch(3, 5), high_watermark=4, log_start_offset=0)
    assert len(following.leader.asked) == 3  # in sync: it would fall out of the ISR
    await following.fetcher.stop()

"""A leader with followers: the high watermark, the in-sync replicas, min.insync.replicas."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.peers.call import PeerUnreachableError
from broker.replication.leading.alter_partition import RETRY_MS
from broker.replication.leading.leader_state import ASK_AGAIN_MS
from broker.replication.partition import Partition
from controller.quorum.metadata_batches import NoRoomError
from metadata.brokers import ClusterImage
from metadata.image import MetadataImage
from metadata.maps import Map
from protocol.errors import NotEnoughReplicas, NotLeaderOrFollower, OffsetNotAvailable, StaleBrokerEpoch
from storage.append_types import AppendOrigin, LogConfig
from tests.doubles.clock import settle
from tests.unit.broker.partitions import LAG_MS, broker, replication, state
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, batch


class Controller:
    """Answers AlterPartition as the test says; `asked` has each request as {partition: isr with epochs}."""

    def __init__(self) -> None:
        self.asked: list[dict[int, list[tuple[int, int]]]] = []
        self.error = ErrorCode.none
        self.failure: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.leaves_out = False

    async def ask(self, request: Any) -> Any:
        wanted = {
            one.partition_index: [(each.broker_id, each.broker_epoch) for each in one.new_isr_with_epochs]
            for topic in request.topics
            for one in topic.partitions
        }
        self.asked.append(wanted)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        answers = [
            SimpleNamespace(
                partition_index=one.partition_index,
                error_code=self.error,
                leader_epoch=one.leader_epoch,
                partition_epoch=one.partition_epoch + 1,
                isr=[each.broker_id for each in one.new_isr_with_epochs],
            )
            for topic in request.topics
            for one in topic.partitions
            if not self.leaves_out
        ]
        topics = [SimpleNamespace(topic_id=topic.topic_id, partitions=answers) for topic in request.topics]
        return SimpleNamespace(error_code=ErrorCode.none, topics=topics)


class Led:
    """A partition of the replicas 1, 2 and 3 that this node, 1, leads."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), **config: object) -> None:
        self.rig = Rig(config=LogConfig(**config))  # type: ignore[arg-type]
        self.controller = Controller()
        self.shared = replication(self.rig.clock, self.controller.ask)
        self.told: list[str] = []
        self.shared.low_watermark_moved = lambda _key: self.told.append("low watermark")
        self.partition = Partition("t", TOPIC_ID, 0, self.rig.log(), lambda _: self.told.append("changed"), self.shared)
        self.partition.lead(state(0, replicas=(1, 2, 3), isr=isr))
        assert self.partition.replicas is not None
        self.leader = self.partition.replicas

    def append(self, count: int = 1, *, all_replicas: bool = True) -> None:
        for _ in range(count):
            self.partition.append(batch(), AppendOrigin.CLIENT, NOW, all_replicas=all_replicas)

    def fetched(self, replica: int, offset: int, epoch: int | None = None) -> None:
        self.leader.fetched(replica, offset, 0, replica * 10 if epoch is None else epoch)

    def brokers(self, **fenced: bool) -> None:
        brokers = {one: broker(one, fenced=fenced.get(f"fenced{one}", False)) for one in (1, 2, 3)}
        self.shared.cache.image = MetadataImage(cluster=ClusterImage(Map(brokers)))

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def isr(self) -> list[int]:
        return sorted(self.leader.in_sync.committed)


async def test_the_first_fetch_of_a_follower_wakes_deletions_and_no_fetch_that_waits() -> None:
    """Else each of a thousand partitions in a follower's Fetch looks at all that another Fetch waits for."""
    led = Led()
    led.told.clear()
    led.fetched(2, 0)
    assert led.told == ["low watermark"]
    led.fetched(2, 0)
    assert led.told == ["low watermark"]


async def test_the_high_watermark_is_the_smallest_end_of_the_in_sync_replicas() -> None:
    led = Led()
    led.append(3)
    assert led.high_watermark == 0
    led.fetched(2, 3)
    assert led.high_watermark == 0
    led.fetched(3, 2)
    assert led.high_watermark == 2
    led.fetched(3, 3)
    assert led.high_watermark == 3


async def test_a_replica_outside_of_the_isr_holds_nothing_back_unless_it_is_about_to_join() -> None:
    led = Led(isr=(1, 2))
    led.append(3)
    led.fetched(2, 3)
    assert led.high_watermark == 3
    led.fetched(3, 3)  # at the end: it is proposed
    led.append(1)
    led.fetched(2, 4)
    assert led.high_watermark == 3  # the maximal ISR waits for it
    led.fetched(3, 4)
    assert led.high_watermark == 4
    await settle()
    assert (led.isr, led.controller.asked) == ([1, 2, 3], [{0: [(1, 10), (2, 20), (3, 30)]}])
    assert led.shared.expands == 1


async def test_a_follower_joins_with_all_of_the_epochs_beginning_though_the_high_watermark_lags() -> None:
    led = Led(isr=(1, 2))
    led.append(3)
    led.partition.lead(state(1, replicas=(1, 2, 3), isr=(1, 2)))  # begins at offset 3, with nothing committed
    led.fetched(3, 2)
    await settle()
    assert led.controller.asked == []
    led.fetched(3, 3)
    await settle()
    assert led.isr == [1, 2, 3]


async def test_replica_lag_time_max_ms_takes_a_lagging_follower_out_of_the_isr_and_the_high_watermark_goes_on() -> None:
    led = Led()
    led.append(2)
    led.fetched(2, 2)
    led.rig.clock.advance(LAG_MS)
    led.fetched(2, 2)
    led.leader.shrink()
    await settle()
    assert led.controller.asked == []  # exactly at the limit
    led.rig.clock.advance(1)
    led.leader.shrink()
    led.leader.shrink()  # one proposal at a time
    await settle()
    assert led.controller.asked == [{0: [(1, 10), (2, 20)]}]
    assert (led.isr, led.high_watermark, led.shared.shrinks) == ([1, 2], 2, 1)


async def test_under_constant_load_a_follower_that_keeps_up_stays() -> None:
    led = Led()
    for _ in range(10):
        led.append(5)
        led.fetched(2, led.partition.log_end_offset - 5)
        led.fetched(3, led.partition.log_end_offset - 5)
        led.rig.clock.advance(LAG_MS / 3)
        led.leader.shrink()
    await settle()
    assert led.controller.asked == []


async def test_fewer_than_min_insync_replicas_refuse_acks_all_and_commit_nothing() -> None:
    led = Led(isr=(1,), min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        led.append()
    led.append(all_replicas=False)
    assert (led.partition.log_end_offset, led.high_watermark) == (1, 0)
    led.fetched(2, 1)
    await settle()
    assert (led.isr, led.high_watermark) == ([1, 2], 1)
    led.append()


async def test_min_insync_replicas_counts_no_more_replicas_than_there_are() -> None:
    led = Led(min_insync_replicas=7)
    assert led.leader.min_in_sync == 3
    led.append()


async def test_a_follower_that_is_fenced_or_of_an_earlier_broker_epoch_does_not_join_the_isr() -> None:
    led = Led(isr=(1, 2))
    led.brokers(fenced3=True)
    led.fetched(3, 0)
    led.brokers()
    with pytest.raises(NotLeaderOrFollower):
        led.fetched(3, 0, epoch=29)
    led.fetched(3, 0, epoch=31)  # this node's image is behind
    await settle()
    assert led.controller.asked == []
    led.fetched(3, 0)
    await settle()
    assert led.isr == [1, 2, 3]


OLD_METADATA = (
    ErrorCode.fenced_leader_epoch,
    ErrorCode.invalid_request,
    ErrorCode.invalid_update_version,
    ErrorCode.new_leader_elected,
    ErrorCode.unknown_topic_id,
    ErrorCode.unknown_topic_or_partition,
)
NOT_DONE = (ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted)
AT_ONCE = (ErrorCode.not_controller, ErrorCode.request_timed_out, ErrorCode.unknown_server_error)


@pytest.mark.parametrize("error", OLD_METADATA)
async def test_alter_partition_that_was_refused_is_asked_for_again_until_an_image_or_the_controller_decides(
    error: ErrorCode, capsys: pytest.CaptureFixture[str]
) -> None:
    led = Led(isr=(1, 2))
    led.controller.error = error
    led.fetched(3, 0)
    await settle()
    for times in range(1, 4):
        assert (led.leader.in_sync.proposed, led.leader.in_sync.maximal) == ({1, 2, 3}, {1, 2, 3})
        assert len(led.controller.asked) == times
        await led.rig.clock.run(ASK_AGAIN_MS)
    assert capsys.readouterr().out.count(error.name) == 1  # however often it is refused
    led.controller.error = ErrorCode.none
    await led.rig.clock.run(ASK_AGAIN_MS)
    assert (led.leader.in_sync.is_pending, led.isr, led.shared.failed_updates) == (False, [1, 2, 3], 4)


@pytest.mark.parametrize("error", OLD_METADATA)
async def test_after_a_refusal_the_image_decides_and_nothing_more_is_asked(error: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    led.controller.error = error
    led.fetched(3, 0)
    await settle()
    led.partition.lead(state(0, replicas=(1, 2, 3), isr=(1, 2), partition_epoch=5))
    assert (led.leader.in_sync.is_pending, led.isr) == (False, [1, 2])
    await led.rig.clock.run(3 * ASK_AGAIN_MS)
    assert len(led.controller.asked) == 1
    led.controller.error = ErrorCode.none
    led.fetched(3, 0)
    await settle()
    assert (led.isr, led.leader.partition_epoch) == ([1, 2, 3], 6)


async def test_a_refused_change_is_asked_for_no_more_once_another_leads() -> None:
    led = Led(isr=(1, 2))
    led.controller.error = ErrorCode.fenced_leader_epoch
    led.fetched(3, 0)
    await settle()
    led.partition.follow(state(1, leader=2))
    await led.rig.clock.run(3 * ASK_AGAIN_MS)
    assert len(led.controller.asked) == 1


@pytest.mark.parametrize("error", NOT_DONE)
async def test_a_change_that_was_not_made_is_proposed_anew_by_the_next_fetch(error: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    led.controller.error = error
    led.fetched(3, 0)
    await settle()
    assert (led.leader.in_sync.is_pending, led.leader.in_sync.maximal) == (False, {1, 2})
    led.controller.error = ErrorCode.none
    await led.rig.clock.run(RETRY_MS)
    assert len(led.controller.asked) == 1
    led.fetched(3, 0)
    await settle()
    assert led.isr == [1, 2, 3]


@pytest.mark.parametrize("error", AT_ONCE)
async def test_a_change_that_failed_for_another_reason_is_sent_again_soon(error: ErrorCode) -> None:
    led = Led(isr=(1, 2))
    led.controller.error = error
    led.fetched(3, 0)
    await settle()
    await led.rig.clock.run(RETRY_MS)
    assert (len(led.controller.asked), led.leader.in_sync.maximal) == (2, {1, 2, 3})
    led.controller.error = ErrorCode.none
    await led.rig.clock.run(RETRY_MS)
    assert led.isr == [1, 2, 3]


async def test_a_change_that_the_answer_leaves_out_is_sent_again() -> None:
    led = Led(isr=(1, 2))
    led.controller.leaves_out = True
    led.fetched(3, 0)
    await settle()
    led.controller.leaves_out = False
    await led.rig.clock.run(RETRY_MS)
    assert (len(led.controller.asked), led.isr) == (2, [1, 2, 3])


async def test_the_high_watermark_goes_on_when_a_replica_is_refused_that_held_it_back() -> None:
    """The others have fetched all there is: no fetch of theirs would move it."""
    led = Led(isr=(1, 2))
    led.controller.error, led.controller.gate = ErrorCode.ineligible_replica, asyncio.Event()
    led.fetched(3, 0)
    led.append(2)
    led.fetched(2, 2)
    led.brokers(fenced3=True)
    assert led.high_watermark == 0
    led.controller.gate.set()
    await settle()
    assert led.high_watermark == 2


async def test_the_high_watermark_goes_on_when_a_replica_that_was_about_to_join_lags_too_long() -> None:
    led = Led(isr=(1, 2))
    led.brokers(fenced3=True)
    led.fetched(3, 0)  # is at the end, but fenced: not proposed
    led.append(2)
    led.brokers()
    led.fetched(2, 2)
    assert led.high_watermark == 0
    led.rig.clock.advance(LAG_MS + 1)
    led.fetched(2, 2)
    assert led.high_watermark == 0
    led.leader.shrink()
    assert led.high_watermark == 2


@pytest.mark.parametrize(
    "failure",
    [
        PeerUnreachableError("no controller"),
        StaleBrokerEpoch("this run is not registered yet"),  # what the controller of this process raises
        NoRoomError("the disk is full"),
    ],
)
async def test_a_request_without_an_answer_is_sent_again(failure: Exception) -> None:
    led = Led(isr=(1, 2))
    led.controller.failure = failure
    led.fetched(3, 0)
    await settle()
    await led.rig.clock.run(2 * RETRY_MS)
    assert len(led.controller.asked) == 3
    led.controller.failure = None
    await led.rig.clock.run(RETRY_MS)
    assert led.isr == [1, 2, 3]


async def test_an_answer_counts_before_the_image_and_an_older_image_does_not() -> None:
    led = Led(isr=(1, 2))
    led.fetched(3, 0)
    await settle()
    assert (led.isr, led.leader.partition_epoch) == ([1, 2, 3], 1)
    led.partition.lead(state(0, replicas=(1, 2, 3), isr=(1, 2)))
    assert led.isr == [1, 2, 3]


async def test_an_answer_after_a_newer_image_or_after_the_leadership_counts_for_nothing() -> None:
    led = Led(isr=(1, 2))
    led.controller.gate = asyncio.Event()
    led.fetched(3, 0)
    await settle()
    led.partition.lead(state(0, replicas=(1, 2, 3), isr=(1,), partition_epoch=4))
    led.fetched(3, 0)  # proposed anew while the old request is on its way: taken back
    assert not led.leader.in_sync.is_pending
    led.controller.gate.set()
    await settle()
    assert led.isr == [1]
    led.controller.gate = asyncio.Event()
    led.fetched(3, 0)
    await settle()
    led.partition.follow(state(1, leader=2))
    led.controller.gate.set()
    await settle()
    assert led.partition.replicas is None
    assert led.shared.expands == 0


async def test_kip_207_a_new_leader_tells_no_end_before_its_high_watermark_reaches_its_leader_epoch() -> None:
    led = Led()
    led.append(2)
    led.partition.lead(state(1, replicas=(1, 2, 3)))
    with pytest.raises(OffsetNotAvailable):
        led.partition.check_end_is_known()
    led.fetched(2, 2)
    led.fetched(3, 2)
    led.partition.check_end_is_known()


async def test_replicas_come_and_go_within_a_leader_epoch() -> None:
    led = Led()
    led.append()
    led.fetched(2, 1)
    led.fetched(3, 1)
    led.partition.lead(state(0, replicas=(1, 2, 4), isr=(1, 2), partition_epoch=1))
    assert sorted(led.leader.followers) == [2, 4]
    assert led.leader.followers[2].log_end_offset == 1
    led.partition.lead(state(0, replicas=(1,), partition_epoch=2))
    assert led.partition.replicas is None
    led.append()
    assert led.high_watermark == 2

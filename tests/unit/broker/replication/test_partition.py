"""A partition's role, and its high watermark."""

from __future__ import annotations

import errno

import pytest

from broker.replication.log_maintenance import delete_records
from broker.replication.partition import Partition, Role
from protocol.errors import KafkaError, KafkaStorage, NotLeaderOrFollower, UnknownTopicOrPartition
from storage.append_types import AppendOrigin, LogConfig
from tests.unit.broker.partitions import alone, state
from tests.unit.storage.support import NOW, TOPIC_ID, Rig, batch


class Hosted:
    """A partition; `advances` are its high watermarks when it told of a change, `failures` what its listener got."""

    def __init__(self, **config: object) -> None:
        self.rig = Rig(config=LogConfig(**config))  # type: ignore[arg-type]
        self.log = self.rig.log()
        self.advances: list[int] = []
        self.failures: list[KafkaError] = []
        self.partition = Partition(
            "t", TOPIC_ID, 0, self.log, lambda one: self.advances.append(one.high_watermark), alone(self.rig.clock)
        )
        self.partition.listen(lambda _: None, self.failures.append)

    def append(self) -> None:
        self.partition.append(batch(), AppendOrigin.CLIENT, NOW)


def test_a_new_one_leads_when_the_image_says_so() -> None:
    hosted = Hosted()
    assert hosted.partition.role is Role.FOLLOWER
    hosted.partition.lead(state(3))
    assert (hosted.partition.role, hosted.partition.leader_epoch) == (Role.LEADER, 3)


def test_a_follower_refuses_requests_and_tells_those_who_wait() -> None:
    hosted = Hosted()
    hosted.partition.lead(state(0))
    hosted.append()
    hosted.partition.follow(state(1, leader=2))
    assert hosted.partition.role is Role.FOLLOWER
    assert hosted.partition.bounds == (0, 1, 1, 1)
    assert [type(one) for one in hosted.failures] == [NotLeaderOrFollower]
    assert hosted.advances == [0, 1, 1]
    for request in (
        hosted.append,
        lambda: hosted.partition.check_leader_epoch(1),
        lambda: delete_records(hosted.partition, 0),
    ):
        with pytest.raises(NotLeaderOrFollower):
            request()
    hosted.partition.lead(state(2))
    hosted.append()
    assert hosted.partition.bounds == (0, 2, 2, 2)


def test_a_failed_log_takes_it_offline_for_good() -> None:
    hosted = Hosted()
    hosted.partition.lead(state(0))
    hosted.log.fail(OSError(errno.EIO, "broken"))
    assert [type(one) for one in hosted.failures] == [KafkaStorage]
    for change in (hosted.partition.lead, hosted.partition.follow):
        change(state(1))
        assert hosted.partition.role is Role.OFFLINE
    with pytest.raises(KafkaStorage):
        hosted.append()


def test_a_deleted_one_is_offline() -> None:
    hosted = Hosted()
    hosted.partition.lead(state(0))
    hosted.partition.deleted()
    assert (hosted.partition.role, hosted.partition.is_deleted) == (Role.OFFLINE, True)
    assert [type(one) for one in hosted.failures] == [UnknownTopicOrPartition]


def test_the_high_watermark_follows_the_flushed_end_and_never_moves_back() -> None:
    hosted = Hosted(flush_messages=1)
    partition = hosted.partition
    partition.lead(state(0))
    hosted.advances.clear()
    hosted.append()
    assert (partition.high_watermark, hosted.advances) == (0, [])
    hosted.rig.workers.run_all()
    assert (partition.high_watermark, hosted.advances) == (1, [1])
    partition.configure(LogConfig())
    hosted.append()
    assert partition.high_watermark == 2
    partition.configure(LogConfig(flush_messages=1))
    assert partition.high_watermark == 2
    hosted.append()
    assert partition.bounds == (0, 2, 2, 3)
    hosted.rig.workers.run_all()
    assert partition.bounds == (0, 3, 3, 3)


def test_who_waits_for_a_flush_is_told_when_flushing_by_message_is_switched_off_though_followers_lag() -> None:
    """The high watermark stays, and acks=1 waits for nothing else."""
    hosted = Hosted(flush_messages=1)
    hosted.partition.lead(state(0, replicas=(1, 2), isr=(1, 2)))
    hosted.append()
    told = len(hosted.advances)
    hosted.partition.configure(LogConfig())
    assert (hosted.partition.durable_end, hosted.partition.high_watermark) == (1, 0)
    assert len(hosted.advances) == told + 1

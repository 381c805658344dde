"""A node whose clock is moved by a year while groups, transactions, retention and compaction are under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from kio.schema.join_group.v9.request import JoinGroupRequestProtocol
from kio.schema.offset_commit.v9.request import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequestGroup
from kio.schema.sync_group.v5.request import SyncGroupRequestAssignment

from broker.config.defs.odradek import PROFILES
from broker.testkit.control.broker import settle as at_rest
from tests.doubles.clock import settle
from tests.unit.broker.rig import Client, Rig
from tests.unit.broker.transactions import CONFIG, Producer
from tests.unit.broker.wire import answer, batch, fetch, produce
from timing.adjustable_clock import AdjustableClock

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
YEAR = 365 * DAY
SESSION = timedelta(seconds=10)
PROTOCOLS = (JoinGroupRequestProtocol(name="range", metadata=b""),)


class MovableRig(Rig):
    """A node with a clock that can be moved."""

    async def start(self) -> None:
        self.movable = self.node_clock = AdjustableClock(self.clock)
        await super().start()

    async def advance(self, ms: float) -> None:
        moving = asyncio.ensure_future(self.movable.advance(ms, partial(at_rest, self.node)))
        while not moving.done():
            await self.clock.run(1)  # the machine's time, in which work in threads is waited for
        await moving

    @property
    def wall_ms(self) -> int:
        return self.movable.wall_ms()


@pytest.fixture(params=["kafka", "test"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[MovableRig]:
    async with MovableRig(config={**PROFILES[request.param], **CONFIG, "group.initial.rebalance.delay.ms": "0"}) as one:
        await one.create("t")
        for kind in (0, 1):
            await one.connect().ask("find_coordinator", 4, key_type=kind, coordinator_keys=("any",))
        yield one


async def member_of(rig: Rig, group: str) -> tuple[Client, str]:
    """A member of a stable group that has committed an offset."""
    client = rig.connect()
    asked: dict[str, Any] = {
        "group_id": group,
        "session_timeout": SESSION,
        "rebalance_timeout": SESSION,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
        "reason": None,
    }
    member_id = (await client.ask("join_group", 9, member_id="", **asked)).member_id
    client.send("join_group", 9, member_id=member_id, **asked)
    await rig.clock.run(2)
    (reply,) = client.replies()
    joined = answer(reply, "join_group", 9)
    member = {"group_id": group, "generation_id": joined.generation_id, "member_id": member_id}
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")
    synced = await client.ask(
        "sync_group",
        5,
        **member,
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(assignment,),
    )
    assert synced.error_code.name == "none"
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    committed = await client.ask(
        "offset_commit",
        9,
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=member_id,
        group_instance_id=None,
        topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )
    assert committed.topics[0].partitions[0].error_code.name == "none"
    return client, member_id


async def described(rig: Rig, group: str) -> Any:
    found = await rig.connect().ask("describe_groups", 5, groups=(group,), include_authorized_operations=False)
    return found.groups[0]


async def committed_offset(rig: Rig, group: str) -> int:
    asked = OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=None)
    found = await rig.connect().ask("offset_fetch", 9, groups=(asked,), require_stable=False)
    topics = found.groups[0].topics
    return topics[0].partitions[0].committed_offset if topics else -1


async def test_a_session_ends_when_the_clock_passes_its_timeout_and_not_before(rig: MovableRig) -> None:
    client, member_id = await member_of(rig, "readers")
    await rig.advance(9 * SECOND)
    heartbeat = {"group_id": "readers", "generation_id": 1, "member_id": member_id, "group_instance_id": None}
    assert (await client.ask("heartbeat", 4, **heartbeat)).error_code.name == "none"
    await rig.advance(9 * SECOND)
    assert (await described(rig, "readers")).group_state == "Stable"
    await rig.advance(2 * SECOND)
    assert (await described(rig, "readers")).group_state == "Empty"
    assert (await client.ask("heartbeat", 4, **heartbeat)).error_code.name == "unknown_member_id"
    assert await committed_offset(rig, "readers") == 7


async def test_after_a_year_groups_offsets_transactions_and_records_are_gone_and_connections_live(
    rig: MovableRig,
) -> None:
    client, _ = await member_of(rig, "readers")
    producer = Producer(rig.connect())
    await producer.init()
    assert await producer.produce(b"open", 0) == ["none"]
    plain = await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"old")}))
    assert plain.responses[0].partition_responses[0].base_offset == 1
    long_poll = rig.connect()
    long_poll.send("fetch", 12, **fetch([("t", 0, 3)], max_wait_ms=500, min_bytes=1))

    before = rig.wall_ms
    await rig.advance(YEAR)
    assert 0 <= rig.wall_ms - before - YEAR < SECOND

    assert (await described(rig, "readers")).group_state == "Dead"
    assert await committed_offset(rig, "readers") == -1
    assert rig.node.coordinators.transactions.counts.timed_out == 1
    assert rig.node.coordinators.transactions.counts.expired_ids == 1
    assert await producer.end(True) == "invalid_producer_id_mapping"
    log = rig.node.replicas.get("t", 0).log
    assert (log.log_start_offset, log.log_end_offset) == (3, 3), "the marker was written, and all of it has expired"
    assert not client.transport.lost
    assert not producer.client.transport.lost
    assert not long_poll.transport.lost


async def test_what_the_broker_writes_has_the_time_at_which_it_would_have_been(rig: MovableRig) -> None:
    await rig.configure("t", message_timestamp_type="LogAppendTime", retention_ms="-1")
    producer = Producer(rig.connect())
    await producer.init()
    began = rig.wall_ms
    assert await producer.produce(b"open", 0) == ["none"]
    await rig.advance(DAY / 2)
    log = rig.node.replicas.get("t", 0).log
    aborted_after = log.producers.producers[producer.producer_id].last_timestamp - began
    assert MINUTE <= aborted_after <= 3 * MINUTE, "it timed out after a minute, and was found soon after"
    reply = await rig.connect().ask("produce", 9, **produce("t", {0: batch(b"now")}))
    appended = reply.responses[0].partition_responses[0].log_append_time.timestamp() * 1000
    assert 0 <= appended - began - DAY / 2 < SECOND


async def test_a_frozen_clock_lets_no_session_end_and_holds_up_no_long_poll_and_no_stop(rig: MovableRig) -> None:
    await member_of(rig, "readers")
    await rig.movable.freeze()
    long_poll = rig.connect()
    long_poll.send("fetch", 12, **fetch([("t", 0, 0)], max_wait_ms=500, min_bytes=1))
    await rig.clock.run(DAY / 100)
    (reply,) = long_poll.replies()
    assert answer(reply, "fetch", 12).error_code.name == "none"
    assert (await described(rig, "readers")).group_state == "Stable"


async def test_a_client_that_is_held_back_by_a_quota_goes_on_when_the_clock_has_passed_it(rig: MovableRig) -> None:
    client = rig.connect()
    connection = client.connection
    connection.throttle(30 * SECOND)
    client.send("metadata", 12, topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    await settle()
    assert client.replies() == []
    await rig.advance(MINUTE)
    assert len(client.replies()) == 1
    connection.throttle(5 * SECOND)
    client.send("metadata", 12, topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    await settle()
    assert client.replies() == [], "held back again, though the first time was to be longer"

"""Changes of many partitions are made in steps: no decision changes more than 300, and others are made in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.alter_partition_reassignments.v1 import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.request import ReassignablePartition, ReassignableTopic
from kio.schema.broker_heartbeat.v2 import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4 import BrokerRegistrationRequest
from kio.schema.broker_registration.v4.request import Feature, Listener
from kio.schema.elect_leaders.v2 import ElectLeadersRequest

from broker.api.topics import alter_partition_reassignments, elect_leaders
from broker.membership.controller_port import OwnController
from broker.membership.controller_service import ControllerService
from controller.broker_changes import MOST_IN_A_STEP
from controller.decision import MOST_RECORDS, Decision
from controller.local import LocalController
from controller.reassignments import listed
from metadata.delta import MetadataDelta
from metadata.image import MetadataImage
from metadata.topics import PartitionRegistration, in_sync
from protocol.errors import PolicyViolation
from protocol.metadata.topics import NO_LEADER
from tests.doubles.clock import ManualClock
from tests.doubles.metadata_log import MemoryMetadataLog
from tests.unit.controller.images import around, broker, directory, image_of, partition, topic

PARTITIONS = 2 * MOST_IN_A_STEP + 200
STEPS = 3
SESSION_MS = 9_000
EPOCH = 5
ALL = [[2, 3]] * PARTITIONS
THREE = image_of(broker(1), broker(2), broker(3), *topic("t", 1, *ALL))


class Rig:
    """A controller with node 1, and a topic with many partitions on brokers 2 and 3."""

    def __init__(self, image: MetadataImage) -> None:
        self.clock = ManualClock()
        self.changed: list[int] = []
        """How many partitions each published change has."""
        self.published = asyncio.Event()
        log = MemoryMetadataLog()
        log.append([None] * (image.offset + 1))
        self.local = LocalController(log, image, self._publish, around())
        not_read = cast(Any, SimpleNamespace(call_when_durable=lambda _moved: None))
        self.service = ControllerService(self.local, not_read, self.clock, "c", SESSION_MS)
        self.service.begin()

    async def _publish(self, delta: MetadataDelta, _image: MetadataImage) -> None:
        found = delta.topics.changed.values() if delta.touched("topics") else ()
        self.changed.append(sum(len(each.changed) for each in found))
        self.published.set()

    @property
    def image(self) -> MetadataImage:
        return self.local.image

    @property
    def partitions(self) -> list[PartitionRegistration]:
        return [partition for _, partition in self.image.topics.by_name["t"].in_order()]

    async def heartbeat(self, broker_id: int, **fields: Any) -> Any:
        asked: dict[str, Any] = {
            "current_metadata_offset": self.image.offset,
            "want_fence": False,
            "want_shut_down": False,
            "offline_log_dirs": (),
            "cordoned_log_dirs": None,
        }
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=EPOCH, **(asked | fields))
        return await self.service.heartbeat(request)

    async def others_turns(self, work: Awaitable[Any]) -> int:
        """How many other decisions are made, one after the other, before this work is done."""
        task = asyncio.ensure_future(work)
        turns = 0
        while not task.done():
            await self.local.submit(lambda _image: Decision([broker(9, fenced=True)], None))
            turns += 1
        await task
        self.changed = [count for count in self.changed if count]
        return turns

    def check_steps(self) -> None:
        assert len(self.changed) == STEPS
        assert max(self.changed) <= MOST_IN_A_STEP
        assert sum(self.changed) == PARTITIONS


async def test_a_silent_broker_leaves_its_partitions_in_steps_and_is_fenced_last() -> None:
    rig = Rig(THREE)
    rig.clock.advance(SESSION_MS + 1)
    await rig.heartbeat(3)
    fenced_early: list[bool] = []

    def look(image: MetadataImage) -> Decision[None]:
        leads = any(partition.leader == 2 for _, partition in image.topics.by_name["t"].in_order())
        fenced_early.append(image.cluster.brokers[2].fenced and leads)
        return Decision([], None)

    fencing = asyncio.ensure_future(rig.service.end_session(2))
    while not fencing.done():
        await rig.local.submit(look)
        await asyncio.sleep(0)
    await fencing
    rig.changed = [count for count in rig.changed if count]
    rig.check_steps()
    assert len(fenced_early) > STEPS
    assert not any(fenced_early)
    assert rig.image.cluster.brokers[2].fenced
    assert {(partition.leader, partition.isr) for partition in rig.partitions} == {(3, (3,))}
    assert not rig.service.sessions.end(2)  # it has none any more


async def test_a_broker_that_is_heard_of_while_it_is_being_fenced_stays() -> None:
    rig = Rig(THREE)
    fencing = asyncio.ensure_future(rig.service.end_session(2))
    await rig.published.wait()
    await rig.heartbeat(2)
    await fencing
    assert not rig.image.cluster.brokers[2].fenced
    assert rig.service.sessions.is_alive(2)
    assert {partition.leader for partition in rig.partitions} == {2, 3}


async def test_a_controlled_shutdown_moves_leaderships_in_steps_that_all_brokers_must_know() -> None:
    rig = Rig(THREE)
    assert await rig.others_turns(rig.heartbeat(2, want_shut_down=True)) >= STEPS
    rig.check_steps()
    assert {partition.leader for partition in rig.partitions} == {3}
    moved = rig.image.offset
    assert not (await rig.heartbeat(2, want_shut_down=True)).should_shut_down  # 3 does not know of it
    await rig.heartbeat(3, current_metadata_offset=moved - MOST_IN_A_STEP)
    assert not (await rig.heartbeat(2, want_shut_down=True)).should_shut_down
    await rig.heartbeat(3)
    assert (await rig.heartbeat(2, want_shut_down=True)).should_shut_down
    assert rig.image.cluster.brokers[2].fenced


async def test_a_follower_of_many_partitions_leaves_them_in_steps_too_before_it_may_go() -> None:
    rig = Rig(THREE)
    assert not (await rig.heartbeat(3, want_shut_down=True)).should_shut_down
    rig.changed = [count for count in rig.changed if count]
    rig.check_steps()
    await rig.heartbeat(2)
    assert (await rig.heartbeat(3, want_shut_down=True)).should_shut_down


async def test_a_broker_that_comes_takes_over_in_steps_also_those_that_a_former_controller_left() -> None:
    leaderless = [partition(1, index, [2], leader=NO_LEADER) for index in range(PARTITIONS)]
    rig = Rig(image_of(broker(1), broker(2, fenced=True), *topic("t", 1, *[[2]] * PARTITIONS), *leaderless))
    assert await rig.others_turns(rig.heartbeat(2)) >= STEPS
    rig.check_steps()
    assert {partition.leader for partition in rig.partitions} == {2}
    later = Rig(image_of(*leaderless, image=rig.image))
    await later.heartbeat(2)
    later.check_steps()
    assert {partition.leader for partition in later.partitions} == {2}


async def test_the_former_incarnation_ends_in_steps_before_the_next_one_is_registered() -> None:
    rig = Rig(THREE)
    rig.service.sessions.end(2)
    request = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id="c",
        incarnation_id=UUID(int=77),
        listeners=(Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0),),
        features=(Feature(name="metadata.version", min_supported_version=1, max_supported_version=30),),
        rack=None,
        log_dirs=(directory(2),),
    )
    epochs: list[int] = []

    async def register() -> None:
        epochs.append(await rig.service.register(request))

    assert await rig.others_turns(register()) >= STEPS
    rig.check_steps()
    assert rig.image.cluster.brokers[2].epoch == epochs[0]
    assert rig.image.cluster.brokers[2].fenced
    assert {(partition.leader, partition.isr) for partition in rig.partitions} == {(3, (3,))}


async def test_a_broker_is_unregistered_once_it_has_left_its_partitions_in_steps_and_gets_none_back_meanwhile() -> None:
    rig = Rig(THREE)
    seen: list[bool] = []

    def look(image: MetadataImage) -> Decision[None]:
        known = image.cluster.brokers.get(2)
        is_in_sync = image.topics.count(in_sync(2)) > 0
        seen.append(is_in_sync and (known is None or (known.is_active and image.topics.count(in_sync(2)) < PARTITIONS)))
        return Decision([], None)

    unregistering = asyncio.ensure_future(rig.service.unregister(2))
    while not unregistering.done():
        await rig.local.submit(look)
        await asyncio.sleep(0)
    await unregistering
    rig.changed = [count for count in rig.changed if count]
    rig.check_steps()
    assert len(seen) > STEPS
    assert not any(seen)
    assert sorted(rig.image.cluster.brokers) == [1, 3]
    assert {(partition.leader, partition.isr) for partition in rig.partitions} == {(3, (3,))}


async def test_replicas_in_a_failed_directory_leave_in_steps_before_it_is_noted_as_offline() -> None:
    other = UUID(int=77)
    rig = Rig(image_of(broker(2, log_dirs=(directory(2), other)), image=THREE))
    assert await rig.others_turns(rig.heartbeat(2, offline_log_dirs=(directory(2),))) >= STEPS
    rig.check_steps()
    assert {(partition.leader, partition.isr) for partition in rig.partitions} == {(3, (3,))}
    assert rig.image.cluster.brokers[2].directories == (other,)
    assert not rig.image.cluster.brokers[2].fenced


async def test_reassignments_are_begun_in_steps_with_one_answer() -> None:
    rig = Rig(THREE)
    ctx = cast(Any, SimpleNamespace(controller=OwnController(rig.local)))
    wanted = [ReassignablePartition(partition_index=index, replicas=(3, 1)) for index in range(PARTITIONS + 1)]
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=tuple(wanted)),), timeout=timedelta(seconds=1)
    )
    answers: list[Any] = []

    async def reassign() -> None:
        answers.append(await alter_partition_reassignments(ctx, request))

    assert await rig.others_turns(reassign()) >= STEPS
    rig.check_steps()
    (topic_answer,) = answers[0].responses
    codes = [each.error_code.name for each in topic_answer.partitions]
    assert codes == ["none"] * PARTITIONS + ["unknown_topic_or_partition"]
    assert {partition.adding_replicas for partition in rig.partitions} == {(1,)}
    (listing,) = listed(rig.image, None).topics
    assert [each.partition_index for each in listing.partitions] == list(range(PARTITIONS))


@pytest.mark.long
async def test_reassignments_of_more_partitions_than_a_request_may_change_change_none() -> None:
    rig = Rig(image_of(broker(1), broker(2), *topic("t", 1, *[[1]] * (MOST_RECORDS + 1))))
    ctx = cast(Any, SimpleNamespace(controller=OwnController(rig.local)))
    wanted = [ReassignablePartition(partition_index=index, replicas=(2,)) for index in range(MOST_RECORDS + 1)]
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=tuple(wanted)),), timeout=timedelta(seconds=1)
    )
    before = rig.image
    with pytest.raises(PolicyViolation):
        await alter_partition_reassignments(ctx, request)
    assert rig.image is before


async def test_elections_that_a_client_asks_for_are_made_in_steps_with_one_answer() -> None:
    elsewhere = [partition(1, index, [2, 3], leader=3) for index in range(PARTITIONS)]
    rig = Rig(image_of(*elsewhere, *topic("u", 2, [2]), image=THREE))
    ctx = cast(Any, SimpleNamespace(controller=OwnController(rig.local)))
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout=timedelta(seconds=1))
    answers: list[Any] = []

    async def elect() -> None:
        answers.append(await elect_leaders(ctx, request))

    assert await rig.others_turns(elect()) >= STEPS
    rig.check_steps()
    first, second = answers[0].replica_election_results
    assert (first.topic, second.topic) == ("t", "u")
    assert [each.partition_id for each in first.partition_result] == list(range(PARTITIONS))
    assert {each.error_code.name for each in first.partition_result} == {"none"}
    assert second.partition_result == ()
    assert {partition.leader for partition in rig.partitions} == {2}

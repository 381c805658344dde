"""What `/metrics` has about groups, read from a whole node in memory."""

from __future__ import annotations

import pytest

from broker.logging import Tracebacks
from broker.observe.collector import MetricsReader
from broker.observe.group_metrics import OFFSETS_A_STEP
from broker.replication.partition import Partition
from coordinator.group.classic.members import JoinRequest, LeaveRequest, MemberIdentity, MemberProtocol, SyncRequest
from coordinator.group.consumer.heartbeat import ConsumerHeartbeat, consumer_group_heartbeat
from coordinator.group.offsets.offsets import Commit, OffsetToCommit
from protocol.records.build import Record, build_batch
from storage.append_types import AppendOrigin
from tests.unit.broker.rig import Rig, settle
from tests.unit.broker.scraping import only, samples

JOIN = JoinRequest(
    *("readers", "", None, "client", "/10.0.0.7", 10_000, 60_000, "connect"),
    (MemberProtocol("default", b""),),
    member_id_required=False,
)

HEARTBEAT = ConsumerHeartbeat(
    *("listeners", "", 0, None, None, 60_000, ("letters",), None, None, {}, "client", "/10.0.0.7"), names_itself=False
)


async def commit(rig: Rig, group: str, topic: str, *offsets: int) -> None:
    wanted = [OffsetToCommit(topic, partition, offset, -1, "") for partition, offset in enumerate(offsets)]
    await rig.node.coordinators.groups.write(group, lambda state: state.offsets.commit(Commit(group, wanted)))


async def test_lag_is_told_under_kafka_exporters_names() -> None:
    async with Rig() as rig:
        await rig.node.coordinators.groups.ensure_topic()
        await rig.create("letters", partitions=2)
        partition = rig.node.replicas.get("letters", 1)
        assert partition is not None
        batch = build_batch([Record(delta, 0, None, b"x") for delta in range(5)])
        partition.append(memoryview(batch), AppendOrigin.CLIENT, rig.clock.wall_ms())
        await commit(rig, "readers", "letters", 0, 3)
        await commit(rig, "readers", "no such topic", 7)
        assert only(samples(rig.node.local.metrics), "kafka_consumergroup_") == {
            'members{consumergroup="readers"}': 0,
            'current_offset{consumergroup="readers",partition="0",topic="letters"}': 0,
            'current_offset{consumergroup="readers",partition="1",topic="letters"}': 3,
            'current_offset{consumergroup="readers",partition="0",topic="no such topic"}': 7,
            'lag{consumergroup="readers",partition="0",topic="letters"}': 0,
            'lag{consumergroup="readers",partition="1",topic="letters"}': 2,
            'current_offset_sum{consumergroup="readers",topic="letters"}': 3,
            'current_offset_sum{consumergroup="readers",topic="no such topic"}': 7,
            'lag_sum{consumergroup="readers",topic="letters"}': 2,
        }


@pytest.mark.long
async def test_groups_by_state_rebalances_commits_and_expiries_are_counted() -> None:
    config = {"group.initial.rebalance.delay.ms": "0", "offsets.retention.minutes": "20"}
    async with Rig(config=config) as rig:
        coordinator = rig.node.coordinators.groups
        await coordinator.ensure_topic()
        joining = coordinator.write("readers", lambda state: state.groups.join(JOIN))
        await rig.clock.run(5)
        member_id = joining.result().member_id
        sync = SyncRequest("readers", member_id, None, 1, {member_id: b"all"})
        await coordinator.write("readers", lambda state: state.groups.sync(sync))
        await commit(rig, "simple", "letters", 1, 2, 3)
        found = samples(rig.node.local.metrics)
        assert only(found, "kafka_coordinator_group_groupmetadatamanager_") == {
            "numgroups": 2,
            "numgroupsempty": 1,
            "numgroupspreparingrebalance": 0,
            "numgroupscompletingrebalance": 0,
            "numgroupsstable": 1,
            "numgroupsdead": 0,
            "numoffsets": 3,
        }
        counted = only(found, "kafka_server_group_coordinator_metrics_")
        assert (counted["group_completed_rebalance_count"], counted["offset_commit_count"]) == (1, 3)
        assert found['kafka_server_delayedoperationpurgatory_numdelayedoperations{delayedOperation="Heartbeat"}'] == 1
        assert found['kafka_consumergroup_members{consumergroup="readers"}'] == 1

        leaver = LeaveRequest("readers", (MemberIdentity(member_id, None),))
        await coordinator.write("readers", lambda state: state.groups.leave(leaver))
        await rig.clock.run(30 * 60_000)
        await settle()
        found = samples(rig.node.local.metrics)
        assert found["kafka_coordinator_group_groupmetadatamanager_numgroups"] == 0
        counted = only(found, "kafka_server_group_coordinator_metrics_")
        assert (counted["offset_expiration_count"], counted["offset_deletion_count"]) == (3, 0)
        assert found["odradek_group_expired_members_total"] == 0


async def test_a_member_that_is_not_heard_of_is_counted() -> None:
    async with Rig(config={"group.initial.rebalance.delay.ms": "0"}) as rig:
        coordinator = rig.node.coordinators.groups
        await coordinator.ensure_topic()
        coordinator.write("readers", lambda state: state.groups.join(JOIN))
        await rig.clock.run(11_000)
        assert samples(rig.node.local.metrics)["odradek_group_expired_members_total"] == 1
        coordinator.write("listeners", lambda state: consumer_group_heartbeat(state.groups.modern, HEARTBEAT))
        await rig.clock.run(46_000)
        assert samples(rig.node.local.metrics)["odradek_group_expired_members_total"] == 2


async def test_many_committed_offsets_are_looked_at_once_a_scrape_and_a_few_at_a_time() -> None:
    async with Rig() as rig:
        await rig.node.coordinators.groups.ensure_topic()
        for group in ("one", "other"):
            await commit(rig, group, "letters", *range(3 * OFFSETS_A_STEP))
        asked = 0
        find = rig.node.replicas.get

        def counted(topic: str, index: int) -> Partition | None:
            nonlocal asked
            asked += topic == "letters"
            return find(topic, index)

        rig.node.replicas.get = counted
        longest = before = 0
        for _ in MetricsReader(rig.node.local.metrics).ask():
            longest, before = max(longest, asked - before), asked
        assert asked == 2 * 3 * OFFSETS_A_STEP
        assert longest == OFFSETS_A_STEP


async def delete(rig: Rig, group: str) -> None:
    await rig.node.coordinators.groups.write(group, lambda state: state.offsets.delete_groups([group]))


async def test_offsets_of_a_group_that_goes_during_a_scrape(tracebacks: Tracebacks) -> None:
    async with Rig() as rig:
        await rig.node.coordinators.groups.ensure_topic()
        for group in ("one", "other"):
            await commit(rig, group, "letters", *range(OFFSETS_A_STEP + 1))
        steps = MetricsReader(rig.node.local.metrics).ask()
        makes = [next(steps)]
        for group in ("one", "other"):
            await delete(rig, group)
        makes += steps
        assert all(make() is None or make() for make in makes)
        assert tracebacks.count == 0
        assert 'kafka_consumergroup_lag_sum{consumergroup="other",topic="letters"}' not in samples(
            rig.node.local.metrics
        )

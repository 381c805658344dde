"""How changes of in-sync replicas go to the controller."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import AlterPartitionResponse
from kio.schema.alter_partition.v3.response import PartitionData, TopicData
from kio.schema.errors import ErrorCode

from broker.replication.leading.alter_partition import MOST_AT_ONCE, RETRY_MS, AlterPartition, IsrChange, IsrOutcome
from protocol.durations import ZERO
from tests.doubles.clock import ManualClock, settle

TOPIC = UUID(int=1)


def accepted(request: Any) -> AlterPartitionResponse:
    partitions = tuple(
        PartitionData(
            partition_index=asked.partition_index,
            error_code=ErrorCode.none,
            leader_id=1,
            leader_epoch=asked.leader_epoch,
            isr=tuple(each.broker_id for each in asked.new_isr_with_epochs),
            partition_epoch=asked.partition_epoch + 1,
        )
        for asked in request.topics[0].partitions
    )
    return AlterPartitionResponse(
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        topics=(TopicData(topic_id=TOPIC, partitions=partitions),),
    )


async def test_many_changes_go_in_several_requests_and_each_has_its_outcome() -> None:
    sizes: list[int] = []

    async def ask(request: Any) -> AlterPartitionResponse:
        sizes.append(len(request.topics[0].partitions))
        return accepted(request)

    changes = AlterPartition(1, lambda: 5, ask, ManualClock())
    outcomes: dict[int, IsrOutcome] = {}
    for index in range(2 * MOST_AT_ONCE + 7):
        change = IsrChange(TOPIC, index, leader_epoch=3, partition_epoch=index, isr=((1, 5), (2, 6)))
        assert changes.submit(change, partial(outcomes.__setitem__, index))
    await settle()
    assert sizes == [MOST_AT_ONCE, MOST_AT_ONCE, 7]
    assert all(outcomes[index].partition_epoch == index + 1 for index in range(2 * MOST_AT_ONCE + 7))
    await changes.stop()


async def test_an_unexpected_error_of_alter_partition_leaves_no_change_waiting_for_ever() -> None:
    """Else every later proposal for the partition would be withdrawn, as one waits already."""
    clock, outcomes = ManualClock(), list[IsrOutcome]()
    errors: list[Exception] = [RuntimeError("a bug"), RuntimeError("a bug")]

    async def ask(request: Any) -> AlterPartitionResponse:
        if errors:
            raise errors.pop()
        return accepted(request)

    changes = AlterPartition(1, lambda: 5, ask, clock)
    assert changes.submit(IsrChange(TOPIC, 0, leader_epoch=3, partition_epoch=8, isr=((1, 5),)), outcomes.append)
    await clock.run(3 * RETRY_MS)
    assert [outcome.partition_epoch for outcome in outcomes] == [9]
    await changes.stop()


async def test_an_outcome_that_cannot_be_taken_over_does_not_keep_the_others_of_its_request() -> None:
    clock, outcomes = ManualClock(), list[IsrOutcome]()

    async def ask(request: Any) -> AlterPartitionResponse:
        return accepted(request)

    def refuse(_outcome: IsrOutcome) -> None:
        raise RuntimeError("a bug")

    changes = AlterPartition(1, lambda: 5, ask, clock)
    for index, done in enumerate((refuse, outcomes.append)):
        assert changes.submit(IsrChange(TOPIC, index, leader_epoch=3, partition_epoch=8, isr=((1, 5),)), done)
    await clock.run(3 * RETRY_MS)
    assert [outcome.partition_epoch for outcome in outcomes] == [9]
    await changes.stop()

"""How changes of in-sync replicas go to the controller."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

from kio.schema.alter_partition.v3 import AlterPartitionResponse
from kio.schema.alter_partition.v3.response import PartitionData, TopicData
from kio.schema.errors import ErrorCode

from broker.replication.leading.alter_partition import MOST_AT_ONCE, AlterPartition, IsrChange, IsrOutcome
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

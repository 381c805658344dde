"""Requests to share coordinators on other nodes (Kafka's `PersisterStateManager`): one partition in each."""

from __future__ import annotations

from typing import Any

from kio.schema.delete_share_group_state.v0 import DeleteShareGroupStateRequest
from kio.schema.delete_share_group_state.v0 import request as delete
from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0 import InitializeShareGroupStateRequest
from kio.schema.initialize_share_group_state.v0 import request as initialize
from kio.schema.read_share_group_state.v0 import ReadShareGroupStateRequest
from kio.schema.read_share_group_state.v0 import request as read
from kio.schema.read_share_group_state_summary.v1 import ReadShareGroupStateSummaryRequest
from kio.schema.read_share_group_state_summary.v1 import request as summary
from kio.schema.write_share_group_state.v1 import WriteShareGroupStateRequest
from kio.schema.write_share_group_state.v1 import request as write

from broker.peers.call import PeerError, entity_call
from broker.peers.client import PeerClient
from coordinator.share.share_coordinator_shard import ShareWrite
from protocol.coordinator_records.share_records import SharePartitionKey, ShareSnapshotValue, StateBatch
from protocol.errors import CoordinatorNotAvailable, type_by_code
from protocol.schema import Entity


class RemoteStates:
    """The share coordinator on another node; every method raises the KafkaErrors that it answers.

    CoordinatorNotAvailable also stands for a node that does not answer.
    """

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        partition = initialize.PartitionData(
            partition=key.partition, state_epoch=state_epoch, start_offset=start_offset
        )
        topic = initialize.InitializeStateData(topic_id=key.topic_id, partitions=(partition,))
        await self._ask(InitializeShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def write(self, key: SharePartitionKey, wanted: ShareWrite) -> None:
        partition = write.PartitionData(
            partition=key.partition,
            state_epoch=wanted.state_epoch,
            leader_epoch=wanted.leader_epoch,
            start_offset=wanted.start_offset,
            delivery_complete_count=wanted.complete_count,
            state_batches=tuple(
                write.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                for first, last, state, count in wanted.batches
            ),
        )
        topic = write.WriteStateData(topic_id=key.topic_id, partitions=(partition,))
        await self._ask(WriteShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareSnapshotValue:
        partition = read.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        topic = read.ReadStateData(topic_id=key.topic_id, partitions=(partition,))
        found = await self._ask(ReadShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))
        batches = tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in found.state_batches
        )
        return ShareSnapshotValue(0, found.state_epoch, leader_epoch, found.start_offset, 0, 0, batches)

    async def read_summary(self, key: SharePartitionKey) -> ShareSnapshotValue:
        partition = summary.PartitionData(partition=key.partition, leader_epoch=-1)
        topic = summary.ReadStateSummaryData(topic_id=key.topic_id, partitions=(partition,))
        found = await self._ask(ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=(topic,)))
        complete_count = found.delivery_complete_count
        return ShareSnapshotValue(
            0, found.state_epoch, found.leader_epoch, found.start_offset, 0, 0, (), complete_count
        )

    async def delete(self, key: SharePartitionKey) -> None:
        topic = delete.DeleteStateData(
            topic_id=key.topic_id, partitions=(delete.PartitionData(partition=key.partition),)
        )
        await self._ask(DeleteShareGroupStateRequest(group_id=key.group_id, topics=(topic,)))

    async def _ask(self, request: Entity) -> Any:
        """The result of the one partition."""
        try:
            answer = await self._client.send(entity_call(request))
        except PeerError as error:
            raise CoordinatorNotAvailable(str(error)) from error
        if not answer.results or not answer.results[0].partitions:
            raise CoordinatorNotAvailable("The share coordinator has not answered for the partition.")
        found = answer.results[0].partitions[0]
        if found.error_code is not ErrorCode.none:
            raise type_by_code[ErrorCode(found.error_code)](found.error_message)
        return found

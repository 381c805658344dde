"""What a follower asks its leader besides records: where its log begins and ends, and where a leader epoch ends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from broker.peers.call import entity_call
from broker.replication.following.followed import NotToldError

if TYPE_CHECKING:
    from broker.replication.cluster_access import BrokerConnection
    from broker.replication.partition import Partition

LATEST, EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD = -1, -2, -4, -6
UNKNOWN = -1
"""In place of an offset that the leader does not know."""

_LOWEST_VERSION = {EARLIEST_LOCAL: 8, EARLIEST_PENDING_UPLOAD: 11}


class OffsetAndEpoch(NamedTuple):
    """An offset, and the leader epoch that it belongs to; an epoch, and where it ends."""

    offset: int
    epoch: int


class LeadersOffsets:
    """Asks the leader at the other end of a connection, within `timeout_ms`.

    Every question raises PeerError, and NotToldError for an answer with an error.
    """

    def __init__(self, peer: BrokerConnection, node_id: int, timeout_ms: float) -> None:
        self._peer = peer
        self._node_id = node_id
        self._timeout_ms = timeout_ms

    async def offset(self, partition: Partition, leader_epoch: int, which: int) -> OffsetAndEpoch:
        """LATEST, EARLIEST, EARLIEST_LOCAL or EARLIEST_PENDING_UPLOAD."""
        from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

        asked = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=which
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            isolation_level=0,
            topics=(ListOffsetsTopic(name=partition.topic, partitions=(asked,)),),
            timeout=timedelta(milliseconds=self._timeout_ms),
        )
        call = entity_call(request, lowest=_LOWEST_VERSION.get(which, 7))
        response: Any = await self._peer.send(call, self._timeout_ms)
        (answer,) = response.topics[0].partitions
        return _told(answer.error_code, answer.offset, answer.leader_epoch)

    async def end_of_epoch(self, partition: Partition, leader_epoch: int, epoch: int) -> OffsetAndEpoch:
        """The largest epoch up to `epoch`, and where it ends; -1 and -1 if there is none."""
        from kio.schema.offset_for_leader_epoch.v4.request import (
            OffsetForLeaderEpochRequest,
            OffsetForLeaderPartition,
            OffsetForLeaderTopic,
        )

        asked = OffsetForLeaderPartition(
            partition=partition.index, current_leader_epoch=leader_epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=self._node_id, topics=(OffsetForLeaderTopic(topic=partition.topic, partitions=(asked,)),)
        )
        response: Any = await self._peer.send(entity_call(request), self._timeout_ms)
        (answer,) = response.topics[0].partitions
        return _told(answer.error_code, answer.end_offset, answer.leader_epoch)


def _told(error: ErrorCode, offset: int, epoch: int) -> OffsetAndEpoch:
    if error is not ErrorCode.none:
        raise NotToldError(error.name)
    return OffsetAndEpoch(int(offset), int(epoch))

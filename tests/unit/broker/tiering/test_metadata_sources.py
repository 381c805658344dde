"""Reading `__remote_log_metadata` from another broker: one partition in trouble neither spins nor stops the others."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

from broker.membership.broker_clients import BrokerClients
from broker.peers.call import Call
from broker.replication.following.follower_log import FETCH
from broker.tiering.metadata_positions import Position
from broker.tiering.metadata_sources import NOT_SURE, Elsewhere
from metadata.topic_names import REMOTE_LOG_METADATA_TOPIC_NAME as TOPIC
from protocol.durations import MILLISECOND
from protocol.errors import KafkaStorage, Network
from protocol.produce_fetch.fetch_response import FetchPartitionResponse, FetchResponse

TOPIC_ID = UUID(int=7)
LEADER = 2


class OtherBroker:
    """It leads partitions; `fetched` is its answer to each Fetch, `ends` are the offsets that ListOffsets tells."""

    def __init__(self) -> None:
        self.fetched: list[FetchPartitionResponse] = []
        self.ends: dict[int, int | ErrorCode] = {}
        self.source = Elsewhere(LEADER, TOPIC_ID, cast(BrokerClients, self), lambda _: self)

    def reach(self, _broker: int) -> OtherBroker:
        return self

    async def send(self, call: Call[Any], _timeout_ms: float | None = None) -> Any:
        if call.api_key == FETCH:
            return FetchResponse([(TOPIC_ID, self.fetched)])
        told = tuple(
            ListOffsetsPartitionResponse(
                partition_index=index,
                error_code=end if isinstance(end, ErrorCode) else ErrorCode.none,
                timestamp=-1 * MILLISECOND,
                offset=-1 if isinstance(end, ErrorCode) else end,
                leader_epoch=0,
            )
            for index, end in self.ends.items()
        )
        return ListOffsetsResponse(
            throttle_time=0 * MILLISECOND, topics=(ListOffsetsTopicResponse(name=TOPIC, partitions=told),)
        )

    def close(self) -> None:
        """There is nothing to end."""


def known() -> Position:
    return Position(end=0)


async def test_a_partition_that_only_fails_is_not_fetched_again_without_a_pause() -> None:
    """A Fetch with such a partition does not wait for records: the error, which has who reads it pause, comes out."""
    other = OtherBroker()
    other.fetched = [FetchPartitionResponse(0), FetchPartitionResponse(1, int(ErrorCode.kafka_storage_error))]
    with pytest.raises(KafkaStorage):
        await other.source.read({0: known(), 1: known()})


async def test_records_of_one_partition_come_though_another_one_fails() -> None:
    other = OtherBroker()
    other.fetched = [
        FetchPartitionResponse(0, records=b"batches", log_start_offset=0),
        FetchPartitionResponse(1, int(ErrorCode.kafka_storage_error)),
    ]
    (found,) = await other.source.read({0: known(), 1: known()})
    assert (found.partition, bytes(found.data), found.end) == (0, b"batches", NOT_SURE)


async def test_a_partition_whose_bounds_are_not_told_keeps_no_other_from_being_read() -> None:
    other = OtherBroker()
    other.ends = {0: 5, 1: ErrorCode.offset_not_available}
    wanted = {0: Position(), 1: Position()}
    (found,) = await other.source.read(wanted)
    assert (found.partition, found.start, found.end) == (0, 5, 5)
    wanted[0].end = found.end
    other.fetched = [FetchPartitionResponse(0, records=b"batches", log_start_offset=0)]
    (found,) = await other.source.read(wanted)
    assert (found.partition, bytes(found.data)) == (0, b"batches")


async def test_if_no_bounds_are_told_the_reason_is() -> None:
    other = OtherBroker()
    other.ends = {1: ErrorCode.offset_not_available}
    with pytest.raises(Network, match="broker 2 answers OFFSET_NOT_AVAILABLE"):
        await other.source.read({1: Position()})


async def test_an_offset_out_of_range_has_the_bounds_asked_for() -> None:
    other = OtherBroker()
    other.ends = {0: 3}
    other.fetched = [
        FetchPartitionResponse(0, int(ErrorCode.offset_out_of_range)),
        FetchPartitionResponse(1, records=b"batches", log_start_offset=0),
    ]
    found = await other.source.read({0: Position(9, end=9), 1: known()})
    assert {one.partition: one.end for one in found} == {0: 3, 1: NOT_SURE}
